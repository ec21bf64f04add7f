"""`schedules` rows of periodic tasks, `events` rows of what they enqueued, and the links between."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from jobsleuth.dialects.asynq.columns import MS, constant, text_type
from jobsleuth.dialects.asynq.messages import decode, payload_facts, timestamp_ms
from jobsleuth.dialects.asynq.servers import Registry, Row, identity
from jobsleuth.dialects.asynq.site import NAME, Site
from jobsleuth.safetext import from_bytes

_AT_ONCE = 1 << 15
_QUEUE_OPTION = re.compile(r'^Queue\(("(?:[^"\\]|\\.)*")\)$', re.DOTALL)
_DEFAULT_QUEUE = "default"

_SCHEDULES = pa.schema(
    [
        ("queue", pa.string()),
        ("schedule_id", pa.string()),
        ("spec", pa.string()),
        ("next_at", pa.int64()),
        ("last_at", pa.int64()),
        ("job_id", pa.string()),
        ("details", text_type()),
        ("has_record", pa.bool_()),
        ("key", pa.string()),
        ("db", pa.int64()),
    ]
)
_EVENTS = pa.schema(
    [
        ("queue", pa.string()),
        ("at", pa.int64()),
        ("event", pa.string()),
        ("job_id", pa.string()),
        ("fields", text_type()),
        ("db", pa.int64()),
    ]
)
_RELATIONS = pa.schema(
    [
        ("kind", pa.string()),
        ("via", pa.string()),
        ("source_queue", pa.string()),
        ("source_id", pa.string()),
        ("target_queue", pa.string()),
        ("target_id", pa.string()),
        ("key", pa.string()),
        ("db", pa.int64()),
    ]
)


@dataclass
class Schedules:
    """Scheduler entries and their history, read in one go.

    Attributes:
        entries: `schedules` rows.
        schedulers: `workers` rows of kind scheduler.
        queue_of: (db, entry id) → queue the entry enqueues into.
        newest: (db, entry id) → (time, task id, history key) of the newest task enqueued.
    """

    entries: list[Row] = field(default_factory=list)
    schedulers: list[Row] = field(default_factory=list)
    queue_of: dict[tuple[int, str], str] = field(default_factory=dict)
    newest: dict[tuple[int, str], tuple[int, str, str]] = field(default_factory=dict)

    @classmethod
    def read(cls, site: Site) -> Schedules:
        """All scheduler keys of the evidence."""
        self = cls()
        listed = Registry(site, "schedulers").until_ms
        rows = site.claims.rows_of("scheduler")
        count: dict[int, int] = {}
        for batch in site.keyspace.elements(rows[site.keys.has_type(rows, "list")]):
            columns = (batch.column(name).to_pylist() for name in ("row", "position", "member"))
            for row, position, value in zip(*columns, strict=True):
                count[row] = count.get(row, 0) + 1
                self._entry(site, row, position, value)
        seen = set()
        for row in rows.tolist():
            name = (int(site.keys.db[row]), site.keys.name[row].as_py())
            seen.add(name)
            record = "present" if site.keys.live[row] else "expired"
            until = listed.get(name, site.keys.expire_at[row].as_py())
            self._scheduler(site, name, until, record, name in listed and bool(site.keys.live[row]), count.get(row, 0))
        for name, until in listed.items():
            if name not in seen:
                self._scheduler(site, name, until, "missing", False, 0)
        return self

    def _scheduler(
        self, site: Site, name: tuple[int, bytes], until: int | None, record: str, in_force: bool, entries: int
    ) -> None:
        host, pid, scheduler = identity(name[1])
        valid = site.valid(until, inclusive=True)
        self.schedulers.append(
            {
                "kind": "scheduler",
                "worker_id": scheduler,
                "host": host,
                "pid": pid,
                "valid_until": until,
                "valid": valid and in_force,
                "details": {"record": record, "entries": str(entries)},
                "key": from_bytes(name[1]),
                "db": name[0],
            }
        )

    def _entry(self, site: Site, row: int, position: int, value: bytes) -> None:
        db, key = int(site.keys.db[row]), from_bytes(site.keys.name[row].as_py())
        read = decode("SchedulerEntry", value)
        entry = read.message
        details = {"position": str(position), "scheduler": "live" if site.keys.live[row] else "expired"}
        queue = None
        limit = site.options.payload_limit
        if read.error is None:
            queue = _queue_of(list(entry.enqueue_options))
            if site.keys.live[row] or (db, entry.id) not in self.queue_of:
                self.queue_of[db, entry.id] = queue
            details |= {
                "type": entry.task_type,
                **payload_facts(entry.task_payload, limit),
                "options": json.dumps(list(entry.enqueue_options), ensure_ascii=False),
            }
        details |= read.remarks(value, limit)
        self.entries.append(
            {
                "queue": queue,
                "schedule_id": entry.id or None,
                "spec": entry.spec or None,
                "next_at": timestamp_ms(entry, "next_enqueue_time"),
                "last_at": timestamp_ms(entry, "prev_enqueue_time"),
                "details": details,
                "has_record": bool(site.keys.live[row]),
                "key": key,
                "db": db,
            }
        )

    def events(self, site: Site) -> Iterator[tuple[str, pa.Table]]:
        """`events` rows of the scheduler history, oldest first within each entry."""
        rows = site.keys.present(site.claims.rows_of("scheduler_history"), "zset")
        for batch in site.keyspace.elements(rows):
            out: list[Row] = []
            columns = (batch.column(name).to_pylist() for name in ("row", "member", "score"))
            for row, value, score in zip(*columns, strict=True):
                db, key = int(site.keys.db[row]), from_bytes(site.keys.name[row].as_py())
                entry = key[len("asynq:scheduler_history:") :]
                read = decode("SchedulerEnqueueEvent", value)
                fields = {"schedule_id": entry, "score": repr(score), **read.remarks(value)}
                at = timestamp_ms(read.message, "enqueue_time")
                task = read.message.task_id
                if at is not None and task and (at, task) > self.newest.get((db, entry), (at, "", ""))[:2]:
                    self.newest[db, entry] = (at, task, key)
                out.append(
                    {
                        "queue": self.queue_of.get((db, entry)),
                        "at": at,
                        "event": "enqueued",
                        "job_id": task or None,
                        "fields": fields,
                        "db": db,
                    }
                )
            for start in range(0, len(out), _AT_ONCE):
                yield "events", _table(out[start : start + _AT_ONCE], _EVENTS, ("at",))

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """`schedules` and `relations` rows; after :meth:`events`, which finds the newest task of each entry."""
        for row in self.entries:
            newest = self.newest.get((row["db"], row["schedule_id"]))  # type: ignore[arg-type]
            row["job_id"] = newest[1] if newest else None
        for start in range(0, len(self.entries), _AT_ONCE):
            yield "schedules", _table(self.entries[start : start + _AT_ONCE], _SCHEDULES, ("next_at", "last_at"))
        links: list[Row] = [
            {
                "kind": "schedule",
                "via": "scheduler_history",
                "source_queue": self.queue_of.get((db, entry)),
                "source_id": entry,
                "target_queue": self.queue_of.get((db, entry)),
                "target_id": task,
                "key": key,
                "db": db,
            }
            for (db, entry), (_, task, key) in self.newest.items()
        ]
        for start in range(0, len(links), _AT_ONCE):
            table = _table(links[start : start + _AT_ONCE], _RELATIONS, (), namespace=False)
            for column in ("source_namespace", "target_namespace"):
                table = table.append_column(column, constant(NAME, table.num_rows))
            yield "relations", table


def _table(rows: list[Row], schema: pa.Schema, times: tuple[str, ...], *, namespace: bool = True) -> pa.Table:
    table = pa.Table.from_pylist(rows, schema=schema)
    for name in times:
        table = table.set_column(schema.get_field_index(name), name, table.column(name).cast(MS))
    table = table.append_column("dialect", constant(NAME, table.num_rows))
    return table.append_column("namespace", constant(NAME, table.num_rows)) if namespace else table


def _queue_of(options: list[str]) -> str:
    """The queue that rendered enqueue options name, such as `Queue("low")`; the last one counts."""
    for option in reversed(options):
        if match := _QUEUE_OPTION.match(option):
            try:
                name = str(ast.literal_eval(match.group(1)))  # Go's quoting is a part of Python's
                return name.encode(errors="backslashreplace").decode()
            except (SyntaxError, ValueError):
                return match.group(1)[1:-1]
    return _DEFAULT_QUEUE
