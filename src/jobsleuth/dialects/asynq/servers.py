"""`workers` rows of servers, busy workers, schedulers, aggregation sets and semaphore tokens.

Heartbeats run out by the client's clock (score in a registry zset) and by Redis's (expiry of the key). What has run out
is shown all the same, as not valid: it tells which machine died, and what it was working on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from jobsleuth.dialects.asynq.columns import MS, NO_TIME, constant, ms_of_seconds, text_type
from jobsleuth.dialects.asynq.messages import decode, payload_facts, timestamp_ms
from jobsleuth.dialects.asynq.site import NAME, Site
from jobsleuth.keyspace import Rows
from jobsleuth.safetext import from_bytes, inexact

_BEAT_MS = 10_000
"""A server's heartbeat is good for this long."""
_ROWS_AT_ONCE = 1 << 15
_LONGEST = 1 << 20
"""Bytes of a server's own key that are read; a real one has some hundred."""

Row = dict[str, object]
_SCHEMA = pa.schema(
    [
        ("queue", pa.string()),
        ("kind", pa.string()),
        ("worker_id", pa.string()),
        ("host", pa.string()),
        ("pid", pa.int64()),
        ("job_id", pa.string()),
        ("job_id_bytes", pa.binary()),
        ("started_at", pa.int64()),
        ("deadline", pa.int64()),
        ("valid_until", pa.int64()),
        ("valid", pa.bool_()),
        ("details", text_type()),
        ("key", pa.string()),
        ("db", pa.int64()),
    ]
)


@dataclass
class Consumers:
    """What live servers say of the queues they serve, by (db, queue name).

    Attributes:
        servers: live servers per queue.
        concurrency: most tasks those servers run at once.
        last_beat_ms: newest heartbeat of any server, also of one that is gone.
        started: task record → start of its run, from live servers.
        started_otherwise: (queue number, task id) → the same for tasks without a record of their own.
    """

    servers: dict[tuple[int, bytes], int] = field(default_factory=dict)
    concurrency: dict[tuple[int, bytes], int] = field(default_factory=dict)
    last_beat_ms: dict[tuple[int, bytes], int] = field(default_factory=dict)
    started: dict[int, int] = field(default_factory=dict)
    started_otherwise: dict[tuple[int, str], int] = field(default_factory=dict)


def tables_of(rows: Iterable[Row]) -> Iterator[tuple[str, pa.Table]]:
    """`workers` tables of bounded size."""
    some: list[Row] = []
    for row in rows:
        some.append(row)
        if len(some) == _ROWS_AT_ONCE:
            yield "workers", _table(some)
            some = []
    if some:
        yield "workers", _table(some)


def _table(rows: list[Row]) -> pa.Table:
    table = pa.Table.from_pylist(rows, schema=_SCHEMA)
    for name in ("started_at", "deadline", "valid_until"):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, table.column(name).cast(MS))
    table = table.append_column("dialect", constant(NAME, len(rows)))
    return table.append_column("namespace", constant(NAME, len(rows)))


class Registry:
    """A zset of whole keys and the time each is good for: `asynq:servers`, `asynq:workers`, `asynq:schedulers`."""

    def __init__(self, site: Site, role: str) -> None:
        self.until_ms: dict[tuple[int, bytes], int | None] = {}
        for row, member, score in scored(site, site.keys.present(site.claims.rows_of(role), "zset")):
            ms = int(ms_of_seconds(np.array([score]))[0])
            self.until_ms[int(site.keys.db[row]), member] = None if ms == NO_TIME else ms


def scored(site: Site, rows: Rows) -> Iterator[tuple[int, bytes, float]]:
    """(row, member, score) of small zsets."""
    for batch in site.keyspace.elements(rows):
        columns = (batch.column(name).to_pylist() for name in ("row", "member", "score"))
        yield from zip(*columns, strict=True)


def identity(key: bytes) -> tuple[str | None, int | None, str | None]:
    """(host, pid, id) that a key such as `asynq:servers:{host:pid:id}` names; None for what it does not.

    Before 0.12 there were no braces, before 0.8 (`asynq:ps:host:pid`) no id.
    """
    body = from_bytes(key.split(b":", 2)[-1])
    if body.startswith("{") and body.endswith("}"):
        body = body[1:-1]
    parts = body.rsplit(":", 2)
    if len(parts) == 3 and _is_pid(parts[1]):
        return parts[0], int(parts[1]), parts[2]
    host, _, pid = body.rpartition(":")
    if host and _is_pid(pid):
        return host, int(pid), None
    return None, None, body or None


def _is_pid(text: str) -> bool:
    return text.isdecimal() and len(text) < 19


def server_rows(site: Site, consumers: Consumers) -> Iterator[Row]:
    """Servers: what their own key says, or, where only the registry still names them, what its name says."""
    listed = Registry(site, "servers").until_ms
    busy = Registry(site, "workers").until_ms
    seen: set[tuple[int, bytes]] = set()
    rows = site.claims.rows_of("server")
    for batch in site.keyspace.strings(rows[site.keys.has_type(rows, "string")], _LONGEST):
        for row, value in zip(batch.column("row").to_pylist(), batch.column("value").to_pylist(), strict=True):
            key, db = site.keys.name[row].as_py(), int(site.keys.db[row])
            seen.add((db, key))
            yield _server(site, consumers, row, (db, key), value, listed, busy)
    for (db, key), until in listed.items():
        if (db, key) not in seen:
            host, pid, server = identity(key)
            yield {
                "kind": "server",
                "worker_id": server,
                "host": host,
                "pid": pid,
                "valid_until": until,
                "valid": None if site.as_of_ms is None else False,
                "details": {"record": "missing"},
                "key": from_bytes(key),
                "db": db,
            }


def _server(
    site: Site,
    consumers: Consumers,
    row: int,
    name: tuple[int, bytes],
    value: bytes,
    listed: dict[tuple[int, bytes], int | None],
    busy: dict[tuple[int, bytes], int | None],
) -> Row:
    db, key = name
    read = decode("ServerInfo", value)
    info = read.message
    host, pid, server = identity(key)
    expires: int | None = site.keys.expire_at[row].as_py()
    until = listed.get(name, expires)
    # The library lists a server whose score is not below now and whose key is there.
    valid = site.valid(until, inclusive=True)
    if valid and not (name in listed and site.keys.live[row]):
        valid = False
    details: dict[str, str] = {"record": "present" if site.keys.live[row] else "expired"}
    if read.error is None:
        host, pid, server = info.host, info.pid, info.server_id or server
        details |= {
            "status": info.status,
            "concurrency": str(info.concurrency),
            "strict_priority": "true" if info.strict_priority else "false",
            "active_worker_count": str(info.active_worker_count),
            "queues": json.dumps(dict(sorted(info.queues.items())), ensure_ascii=False),
        }
        _consume(site, consumers, db, info, until, bool(valid) or (valid is None and bool(site.keys.live[row])))
    details |= read.remarks(value)
    for label, ms in (
        ("key_expires_at_ms", expires),
        ("listed_until_ms", listed.get(name)),
        ("workers_listed_until_ms", busy.get((db, key.replace(b"asynq:servers:", b"asynq:workers:", 1)))),
    ):
        if ms is not None:
            details[label] = str(ms)
    return {
        "kind": "server",
        "worker_id": server,
        "host": host,
        "pid": pid,
        "started_at": timestamp_ms(info, "start_time"),
        "valid_until": until,
        "valid": valid,
        "details": details,
        "key": from_bytes(key),
        "db": db,
    }


def _consume(site: Site, consumers: Consumers, db: int, info: object, until: int | None, valid: bool) -> None:
    for queue in info.queues:  # type: ignore[attr-defined]
        name = (db, queue.encode())
        if name not in site.queue_number and (db, queue.lower().encode()) in site.queue_number:
            name = (db, queue.lower().encode())  # before 0.18.2 keys had names in lower case
        if until is not None:
            consumers.last_beat_ms[name] = max(consumers.last_beat_ms.get(name, NO_TIME), until - _BEAT_MS)
        if valid:
            consumers.servers[name] = consumers.servers.get(name, 0) + 1
            consumers.concurrency[name] = consumers.concurrency.get(name, 0) + info.concurrency  # type: ignore[attr-defined]


def worker_rows(site: Site, consumers: Consumers) -> Iterator[Row]:
    """Busy workers: one row per field of a server's workers hash."""
    rows = site.claims.rows_of("worker")
    started: list[tuple[int, bytes, int]] = []
    limit = site.options.payload_limit
    for batch in site.keyspace.elements(rows[site.keys.has_type(rows, "hash")]):
        columns = (batch.column(name).to_pylist() for name in ("row", "member", "value"))
        for row, task, value in zip(*columns, strict=True):
            key, db = site.keys.name[row].as_py(), int(site.keys.db[row])
            read = decode("WorkerInfo", value)
            info = read.message
            host, pid, server = identity(key)
            details: dict[str, str] = {}
            if read.error is None:
                host, pid, server = info.host, info.pid, info.server_id or server
                details = {"type": info.task_type, **payload_facts(info.task_payload, limit)}
                if info.task_id.encode() != task:
                    details["task_id"] = info.task_id
            details |= read.remarks(value, limit)
            expires: int | None = site.keys.expire_at[row].as_py()
            start = timestamp_ms(info, "start_time")
            number = site.queue_number.get((db, info.queue.encode()))
            if number is not None and start is not None and site.keys.live[row]:
                started.append((number, task, start))
            yield {
                "queue": info.queue or None,
                "kind": "worker",
                "worker_id": server,
                "host": host,
                "pid": pid,
                "job_id": from_bytes(task),
                "job_id_bytes": inexact(task),
                "started_at": start,
                "deadline": timestamp_ms(info, "deadline"),
                "valid_until": expires,
                "valid": site.valid(expires),
                "details": details,
                "key": from_bytes(key),
                "db": db,
            }
    if started:
        queues = np.array([number for number, _, _ in started], np.int32)
        jobs = site.jobs_named(queues, pa.array([task for _, task, _ in started], pa.binary()))
        for job, (number, task, ms) in zip(jobs.tolist(), started, strict=True):
            facts = site.facts
            facts.last_activity[number] = max(int(facts.last_activity[number]), ms)
            facts.last_sign[number] = max(int(facts.last_sign[number]), ms)
            if job >= 0:
                consumers.started[job] = max(consumers.started.get(job, NO_TIME), ms)
            else:
                name = number, from_bytes(task)
                consumers.started_otherwise[name] = max(consumers.started_otherwise.get(name, NO_TIME), ms)


def aggregation_rows(site: Site) -> Iterator[Row]:
    """Aggregation sets that are in an aggregator's hands, and until when; one may be listed and no longer be there."""
    rows = site.keys.present(site.claims.rows_of("aggregation_sets"), "zset")
    listed = list(scored(site, rows))
    if not listed:
        return
    everywhere = [(q.db, b"") for q in site.claims.queues]
    queue = site.claims.queue[np.array([row for row, _, _ in listed])]
    found = site.keys.find(everywhere, queue, pa.array([member for _, member, _ in listed], pa.binary()))
    there = found >= 0
    there[there] = site.keys.live[found[there]]
    for (row, member, score), number, exists in zip(listed, queue.tolist(), there.tolist(), strict=True):
        until = int(ms_of_seconds(np.array([score]))[0])
        yield {
            "queue": site.queue_names[number],
            "kind": "aggregation_set",
            "worker_id": from_bytes(member),
            "valid_until": None if until == NO_TIME else until,
            "valid": site.valid(None if until == NO_TIME else until),
            "details": {"set": "present" if exists else "missing"},
            "key": from_bytes(site.keys.name[row].as_py()),
            "db": int(site.keys.db[row]),
        }


def semaphore_rows(site: Site) -> Iterator[Row]:
    """Tokens of the library's optional semaphore: which task holds one, and until when. They name no queue."""
    for row, member, score in scored(site, site.keys.present(site.claims.rows_of("sema"), "zset")):
        key = site.keys.name[row].as_py()
        until = int(ms_of_seconds(np.array([score]))[0])
        yield {
            "kind": "semaphore",
            "worker_id": from_bytes(key[len(b"asynq:sema:") :]),
            "job_id": from_bytes(member),
            "job_id_bytes": inexact(member),
            "valid_until": None if until == NO_TIME else until,
            # The next who wants one first removes those whose score is below now.
            "valid": site.valid(None if until == NO_TIME else until, inclusive=True),
            "key": from_bytes(key),
            "db": int(site.keys.db[row]),
        }
