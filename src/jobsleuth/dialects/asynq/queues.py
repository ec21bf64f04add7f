"""`queues` rows, and the `relations` rows of locks and group registrations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jobsleuth.dialects.asynq.columns import MS, NO_TIME, Ints, constant, ms_of_seconds, times
from jobsleuth.dialects.asynq.layout import Traces, infer
from jobsleuth.dialects.asynq.servers import Consumers
from jobsleuth.dialects.asynq.site import NAME, Site
from jobsleuth.dialects.asynq.states import STATES
from jobsleuth.safetext import from_bytes

_SHOWN = ("pending", "active", "scheduled", "retry", "archived", "completed", "aggregating", "unknown")
"""States in the order that the library itself lists them."""


def lock_rows(site: Site) -> Iterator[tuple[str, pa.Table]]:
    """Locks of unique tasks: the lock's key points to the task that holds it, until the key expires."""
    rows = site.keys.present(site.claims.rows_of("unique"), "string")
    for batch in site.keyspace.strings(rows):
        row = batch.column("row").to_numpy()
        queue = site.claims.queue[row]
        key = site.text(site.keys.names(row))[0]
        expire_at = site.expiry(row)
        yield (
            "relations",
            _links(site, queue, "uniqueness", "unique", key, site.text(batch.column("value")), key, expire_at),
        )


def group_rows(site: Site) -> Iterator[tuple[str, pa.Table]]:
    """Groups that a queue's registry names: only these does an aggregator look at."""
    rows = site.keys.present(site.claims.rows_of("groups"), "set")
    for batch in site.keyspace.elements(rows):
        row = batch.column("row").to_numpy()
        key, _ = site.text(site.keys.names(np.unique(row)))
        names, _ = site.text(batch.column("member"))
        of_row = pa.array(np.searchsorted(np.unique(row), row))
        nobody = pa.nulls(len(row), pa.string()), pa.nulls(len(row), pa.binary())
        never = np.full(len(row), NO_TIME, np.int64)
        yield (
            "relations",
            _links(site, site.claims.queue[row], "group", "groups", names, nobody, key.take(of_row), never),
        )


def _links(
    site: Site,
    queue: npt.NDArray[np.int32],
    kind: str,
    via: str,
    source: pa.ChunkedArray,
    target: tuple[pa.ChunkedArray, pa.ChunkedArray] | tuple[pa.Array, pa.Array],
    key: pa.ChunkedArray,
    valid_until: Ints,
) -> pa.Table:
    heads = site.heads(queue)
    return pa.table(
        {
            "dialect": heads["dialect"],
            "kind": constant(kind, len(queue)),
            "via": constant(via, len(queue)),
            "source_namespace": heads["namespace"],
            "source_queue": heads["queue"],
            "source_id": source,
            "target_namespace": heads["namespace"],
            "target_queue": heads["queue"],
            "target_id": target[0],
            "target_id_bytes": target[1],
            "valid_until": times(valid_until),
            "key": key,
            "db": heads["db"],
        }
    )


def queue_rows(site: Site, consumers: Consumers, whole: Counter[tuple[int, str]]) -> Iterator[tuple[str, pa.Table]]:
    """One row per queue; last of all, when everything else has been seen.

    Args:
        site: the reading.
        consumers: what servers said.
        whole: (queue number, structure) → whole messages found there.
    """
    claims, facts = site.claims, site.facts
    if not claims.queues:
        return
    registered = _registered(site)
    paused = _paused(site)
    counters = _counters(site)
    rows = []
    for number, (queue, traces) in enumerate(zip(claims.queues, _traces(site, whole), strict=True)):
        name = (queue.db, queue.queue)
        layout, why = infer(traces)
        why += claims.notes.get(number, [])
        registry = registered.get(queue.db)
        if registry is None:
            why.append("no registry asynq:queues in this database")
        beat = consumers.last_beat_ms.get(name, NO_TIME)
        limits = {"servers": consumers.servers.get(name, 0), "concurrency": consumers.concurrency.get(name, 0)}
        rows.append(
            {
                "queue": site.queue_names[number],
                "layout": layout,
                "layout_why": "; ".join(why),
                "paused": number in paused,
                "paused_at": paused.get(number),
                "counts": [(state, int(facts.counts[number, STATES.index(state)])) for state in _SHOWN],
                "oldest_waiting_at": _known(facts.tail_pending_since[number]),
                "last_activity_at": _known(max(facts.last_activity[number], beat)),
                "last_worker_sign_at": _known(max(facts.last_sign[number], beat)),
                "limits": list(limits.items()) if any(limits.values()) else None,
                "counters": counters.get(number),
                "registered": None if registry is None else queue.queue in registry,
                "db": queue.db,
            }
        )
    counts = pa.map_(pa.string(), pa.int64())
    text, whole, time = pa.string(), pa.int64(), MS
    types: dict[str, pa.DataType] = {
        "queue": text, "layout": text, "layout_why": text, "paused": pa.bool_(), "paused_at": time, "counts": counts,
        "oldest_waiting_at": time, "last_activity_at": time, "last_worker_sign_at": time, "limits": counts,
        "counters": counts, "registered": pa.bool_(), "db": whole,
    }  # fmt: skip
    columns = {}
    for column, kind in types.items():
        values = [row[column] for row in rows]
        columns[column] = pa.array(values, whole).cast(MS) if kind == MS else pa.array(values, kind)
    head = {"dialect": constant(NAME, len(rows)), "namespace": constant(NAME, len(rows))}
    yield "queues", pa.table({**head, **columns})


def _known(ms: int) -> int | None:
    return None if ms == NO_TIME else int(ms)


def _registered(site: Site) -> dict[int, set[bytes]]:
    """Database → names in its registry; a database without one is absent."""
    out: dict[int, set[bytes]] = {}
    rows = site.keys.present(site.claims.rows_of("queues"), "set")
    for batch in site.keyspace.elements(rows):
        for row, member in zip(batch.column("row").to_pylist(), batch.column("member").to_pylist(), strict=True):
            # Before 0.12 the registry held keys of lists.
            out.setdefault(int(site.keys.db[row]), set()).update((member, member.removeprefix(b"asynq:queues:")))
    return out


def _paused(site: Site) -> dict[int, int | None]:
    """Paused queue → since when, Unix ms. The key's existence is what counts."""
    rows = site.claims.rows_of("paused")
    out: dict[int, int | None] = {}
    for row, value in _strings(site, rows[site.keys.live[rows]]):
        number = _number(value)
        ms = NO_TIME if number is None else int(ms_of_seconds(np.array([number], np.int64))[0])
        out[int(site.claims.queue[row])] = _known(ms)
    sets = site.keys.present(site.claims.rows_of("paused_queues"), "set")
    for batch in site.keyspace.elements(sets):
        for row, member in zip(batch.column("row").to_pylist(), batch.column("member").to_pylist(), strict=True):
            queue = site.queue_number.get((int(site.keys.db[row]), member.removeprefix(b"asynq:queues:")))
            if queue is not None:
                out[queue] = None
    return out


def _counters(site: Site) -> dict[int, list[tuple[str, int]]]:
    """Queue → its counters: `processed` and `failed` in all, and `processed:<day>` and `failed:<day>` in UTC.

    Before 0.12 counters were those of all queues together; each queue shows them under their whole key.
    """
    rows = site.claims.rows_of("processed", "failed", "processed_day", "failed_day")
    found: dict[int, dict[str, int]] = {}
    of_db: dict[int, list[int]] = {}
    for number, ref in enumerate(site.claims.queues):
        if ref.base.startswith(b"asynq:queues:"):
            of_db.setdefault(ref.db, []).append(number)
    for row, value in _strings(site, rows[site.keys.live[rows]]):
        count, queue, key = _number(value), int(site.claims.queue[row]), site.keys.name[row].as_py()
        if count is None:
            continue
        if queue < 0:
            for number in of_db.get(int(site.keys.db[row]), []):
                found.setdefault(number, {})[from_bytes(key)] = count
        else:
            found.setdefault(queue, {})[from_bytes(key[len(site.claims.queues[queue].base) + 1 :])] = count
    return {queue: sorted(counters.items()) for queue, counters in found.items()}


def _strings(site: Site, rows: Ints) -> Iterator[tuple[int, bytes | None]]:
    texts = site.keys.has_type(rows, "string")
    yield from ((int(row), None) for row in rows[~texts])
    for batch in site.keyspace.strings(rows[texts], 64):
        yield from zip(batch.column("row").to_pylist(), batch.column("value").to_pylist(), strict=True)


def _number(value: bytes | None) -> int | None:
    if value is None or len(value) > 19 or not value.removeprefix(b"-").isdigit():
        return None
    number = int(value)
    return number if -(2**63) <= number < 2**63 else None


def _traces(site: Site, whole: Counter[tuple[int, str]]) -> Iterator[Traces]:
    claims = site.claims
    owned = (claims.queue >= 0) & site.keys.live
    played = np.zeros((len(claims.queues), len(claims.roles)), bool)
    played[claims.queue[owned], claims.role[owned]] = True
    held: dict[int, dict[str, int]] = {}
    for (number, structure), count in whole.items():
        held.setdefault(number, {})[structure] = count
    nobodys = (claims.queue < 0) & (claims.role >= 0) & site.keys.live
    shared = {
        int(db): frozenset(claims.roles[role] for role in np.unique(claims.role[nobodys & (site.keys.db == db)]))
        for db in np.unique(site.keys.db[nobodys])
    }
    for number, ref in enumerate(claims.queues):
        shown = frozenset(feature for feature, where in site.facts.shown.items() if where[number])
        roles = frozenset(claims.roles[role] for role in np.flatnonzero(played[number]))
        of_all = shared.get(ref.db, frozenset()) if ref.base.startswith(b"asynq:queues:") else None
        yield Traces(roles, shown, of_all, held.get(number, {}))
