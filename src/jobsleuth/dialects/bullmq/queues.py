"""Rows of `queues`: settings, limits, counters and era of each queue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jobsleuth.dialects.bullmq.grammar import RESERVED, version_of
from jobsleuth.dialects.bullmq.keytable import chunked, numbers, valid
from jobsleuth.dialects.bullmq.layout import BEFORE_BULL_3, Facts, infer, is_bull
from jobsleuth.dialects.bullmq.reading import MS, Reading
from jobsleuth.dialects.bullmq.states import BULL_ORDER, BULLMQ_ORDER, EARLIEST_MS, LATEST_MS, STATES
from jobsleuth.dialects.bullmq.tally import ALWAYS, NEVER, Tally, milliseconds
from jobsleuth.keyspace import Projected, Rows
from jobsleuth.safetext import from_bytes

_COUNTS = pa.map_(pa.string(), pa.int64())
_SIGN_OF_ROLE = {
    "delay": "delay stream",
    "prioritized": "prioritized",
    "priority": "priority",
    "pc": "pc",
    "meta-paused": "meta-paused",
    "events": "events",
    "paused": "paused list",
    "waiting-children": "waiting-children",
    "group": "group",
    "metrics": "metrics",
}
_LIMIT_FIELDS = {
    b"concurrency": "concurrency",
    b"max": "max",
    b"duration": "duration_ms",
    b"opts.maxLenEvents": "max_len_events",
}
_PIECE = 4096
_ONLY_BULLMQ = ("atm", "ats", "stc", "pb", "defa", "rjk", "parentKey")
_TELLING = (
    *(Projected(field, field, "present") for field in _ONLY_BULLMQ),
    Projected("attempts", "opts", "json_int", path="attempts"),
    # Since 3.0 Bull gives every job a name and writes into its options when it was added; BullMQ does so only if told.
    Projected("name", "name", "present"),
    Projected("added", "opts", "json_int", path="timestamp"),
)
_JOBS_TRIED = 64
"""Jobs of a queue that are read to tell whose it is, where its own keys do not."""


class Settings:
    """Queue-level keys, read once; small, so held per queue.

    Attributes:
        meta: fields of `meta` per queue.
        bull: per queue, whether it is legacy Bull's.
    """

    def __init__(self, reading: Reading, tally: Tally) -> None:
        self._reading = reading
        self._tally = tally
        queues = len(reading.claims.queues)
        self.meta: list[dict[bytes, bytes]] = [{} for _ in range(queues)]
        self._limits: list[dict[str, int]] = [{} for _ in range(queues)]
        self._counters: list[dict[str, int]] = [{} for _ in range(queues)]
        self._meta_paused = np.zeros(queues, np.bool_)
        self._in_list = {role: np.zeros(queues, np.bool_) for role in ("wait", "paused")}
        self._read_hashes()
        self._read_strings()
        self._note_keys()
        self._relays = self._relay_prefixes()
        self.bull = self._which_are_bull()
        self._clash_notes = self._clashes()

    def _read_hashes(self) -> None:
        reading = self._reading
        # By name: the library finds its settings also in a job that is called `meta`.
        named, _ = self._queue_keys(b"meta", "hash")
        for batch in reading.keyspace.elements(np.sort(named[named >= 0])):
            columns = (batch.column(name).to_pylist() for name in ("row", "member", "value"))
            for row, field, value in zip(*columns, strict=True):
                self.meta[reading.claims.queue[row]][field] = value
        rows = reading.rows_of("metrics")
        rows = rows[reading.table.is_type("hash", rows)]
        ends = dict(zip(rows.tolist(), reading.remainders(rows).to_pylist(), strict=True))
        for batch in reading.keyspace.elements(rows):
            columns = (batch.column(name).to_pylist() for name in ("row", "member", "value"))
            for row, field, value in zip(*columns, strict=True):
                count = _integer(value)
                if field == b"count" and count is not None:
                    name = ends[row].decode().replace(":", "_")
                    self._counters[reading.claims.queue[row]][name] = count
        for queue, fields in enumerate(self.meta):
            for field, name in _LIMIT_FIELDS.items():
                value = _integer(fields.get(field))
                if value is not None:
                    self._limits[queue][name] = value

    def _queue_keys(self, suffix: bytes, type_: str) -> tuple[Rows, Rows]:
        """Per queue the live key of the name, -1 where there is none: (of the type, of another type)."""
        reading = self._reading
        queue = np.arange(len(reading.claims.queues), dtype=np.int32)
        found = reading.keyspace.lookup(reading.prefixes, queue, chunked(pa.array([suffix] * len(queue), pa.binary())))
        there = found >= 0
        there[there] = reading.table.live[found[there]] & (reading.claims.queue[found[there]] == queue[there])
        fits = there.copy()
        fits[there] = reading.table.is_type(type_, found[there])
        return np.where(fits, found, -1), np.where(there & ~fits, found, -1)

    def _clashes(self) -> dict[int, list[str]]:
        """Queue → sentences on keys that stand where the library keeps one of another type."""
        notes: dict[int, list[str]] = {}
        for reserved in (r for r in RESERVED if r.names_base):
            _, wrong = self._queue_keys(reserved.suffix, reserved.type)
            for queue in np.flatnonzero(wrong >= 0).tolist():
                note = f"`{reserved.suffix.decode()}` is no {reserved.type}"
                order = [structure for structure, _ in (BULL_ORDER if self.bull[queue] else BULLMQ_ORDER)]
                if reserved.role in order:
                    before = order[: order.index(reserved.role)]
                    spared = f" not found in {', '.join(before)}" if before else ""
                    note += f": the library's own getState fails for every job{spared}"
                notes.setdefault(queue, []).append(note)
        return notes

    def _read_strings(self) -> None:
        reading = self._reading
        tally = self._tally
        for role in ("id", "pc", "limiter", "stalled-check"):
            rows = reading.rows_of(role)
            rows = rows[reading.table.is_type("string", rows)]
            expiry = reading.table.expiry_of(rows)
            ends = dict(zip(rows.tolist(), np.where(valid(expiry), milliseconds(expiry), -1).tolist(), strict=True))
            tails = dict(zip(rows.tolist(), reading.remainders(rows).to_pylist(), strict=True))
            for batch in reading.keyspace.strings(rows, 32):
                for row, stored in zip(batch.column("row").to_pylist(), batch.column("value").to_pylist(), strict=True):
                    value = _integer(stored)
                    queue = int(reading.claims.queue[row])
                    if value is None:
                        continue
                    if role == "stalled-check":
                        if EARLIEST_MS <= value <= LATEST_MS:
                            tally.activity(np.array([queue], np.int32), pa.array([value]), worker=True)
                    elif role == "limiter":
                        name = from_bytes(tails[row])
                        self._limits[queue][name] = value
                        if ends[row] >= 0 and reading.as_of is not None:
                            self._limits[queue][f"{name}_ttl_ms"] = ends[row] - reading.as_of
                    else:
                        self._counters[queue][role] = value

    def _note_keys(self) -> None:
        reading = self._reading
        queue_of = reading.claims.queue
        for role, sign in _SIGN_OF_ROLE.items():
            self._tally.sign(sign, queue_of[reading.rows_of(role)])
        self._meta_paused[queue_of[reading.rows_of("meta-paused")]] = True
        for role, there in self._in_list.items():
            there[queue_of[reading.rows_of(role)]] = True
        limits = reading.rows_of("limiter")
        self._tally.sign("limiter index", queue_of[limits[reading.table.is_type("hash", limits)]])

    def _relay_prefixes(self) -> set[tuple[int, bytes]]:
        rows = self._reading.rows_of("relay")
        names = self._reading.table.names_of(rows).to_pylist()
        return {
            (int(db), name.partition(b"::relay:")[0])
            for db, name in zip(self._reading.table.db[rows], names, strict=True)
        }

    def _facts(self, queue: int) -> Facts:
        fields = self.meta[queue]
        reference = self._reading.claims.queues[queue]
        return Facts(
            version=version_of(fields.get(b"version", b"")),
            has_options=any(field.startswith(b"opts.") for field in fields),
            concurrency=b"concurrency" in fields,
            rate=b"max" in fields,
            paused_with_wait=b"paused" in fields
            and bool(self._in_list["wait"][queue])
            and not self._in_list["paused"][queue],
            relay=(reference.db, reference.namespace) in self._relays,
        )

    def _which_are_bull(self) -> npt.NDArray[np.bool_]:
        queues = range(len(self.meta))
        bull = np.array([is_bull(self._tally, queue, self._facts(queue)) for queue in queues], np.bool_)
        # What only Bull writes settles it.
        silent = bull & ~np.array([self._tally.shows(queue, "meta-paused") for queue in queues], np.bool_)
        silent &= ~np.array([self._tally.shows(queue, "limiter index") for queue in queues], np.bool_)
        if silent.any():
            bull[self._with_jobs_of_bullmq(silent)] = False
        return bull

    def _with_jobs_of_bullmq(self, asked: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
        """Of the queues asked for, those with a job among their first that only BullMQ can have added or run."""
        reading = self._reading
        rows = reading.rows_of("job")
        queue = reading.claims.queue[rows]
        rows, queue = rows[asked[queue]], queue[asked[queue]]
        order = np.argsort(queue, kind="stable")
        nth = np.empty(len(rows), np.int64)
        nth[order] = np.arange(len(rows)) - np.searchsorted(queue[order], queue[order])
        found = [np.empty(0, np.int32)]
        for batch in reading.keyspace.records(rows[nth < _JOBS_TRIED], _TELLING, rest=False):
            telling = np.zeros(batch.num_rows, np.bool_)
            for field in _ONLY_BULLMQ:
                telling |= numbers(batch.column(field), np.bool_)
            undated = valid(batch.column("attempts")) & ~valid(batch.column("added"))
            telling |= undated & numbers(batch.column("name"), np.bool_)
            found.append(reading.claims.queue[numbers(batch.column("row"), np.int64)[telling]])
        return np.unique(np.concatenate(found))

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """Rows of `queues`. Last: they hold what the other tables added up."""
        for start in range(0, len(self.meta), _PIECE):
            queues = range(start, min(start + _PIECE, len(self.meta)))
            yield "queues", self._rows(np.array(queues, np.int32))

    def _rows(self, queue: npt.NDArray[np.int32]) -> pa.Table:
        tally = self._tally
        names = queue.tolist()
        layouts = [infer(tally, n, self._facts(n), bool(self.bull[n])) for n in names]
        notes = [
            self._reading.claims.notes.get(n, [])
            + ([] if layout.name == BEFORE_BULL_3 else self._clash_notes.get(n, []))
            for n, layout in zip(names, layouts, strict=True)
        ]
        versions = [self.meta[n].get(b"version") for n in names]
        return pa.table(
            {
                **self._reading.columns(queue),
                "layout": pa.array([layout.name for layout in layouts]),
                "layout_why": pa.array(
                    ["; ".join([layout.why, *more]) for layout, more in zip(layouts, notes, strict=True)]
                ),
                "library_version": pa.array([None if v is None else from_bytes(v) for v in versions], pa.string()),
                "paused": pa.array([bool(self._pause_flags(n)) for n in names]),
                "pause_flags": pa.array([self._pause_flags(n) for n in names], pa.list_(pa.string())),
                "counts": pa.array([self._states(n) for n in names], _COUNTS),
                "oldest_waiting_at": _times(tally.oldest_ready[queue], ALWAYS),
                "last_activity_at": _times(tally.last_activity[queue], NEVER),
                "last_worker_sign_at": _times(tally.last_worker_sign[queue], NEVER),
                "limits": pa.array([sorted(self._limits[n].items()) for n in names], _COUNTS),
                "counters": pa.array([sorted(self._counters[n].items()) for n in names], _COUNTS),
            }
        )

    def _pause_flags(self, queue: int) -> list[str]:
        """Where the pause is recorded: BullMQ writes the first, Bull before 3.18 the second, later both."""
        there = {"meta.paused": b"paused" in self.meta[queue], "meta-paused": bool(self._meta_paused[queue])}
        return [flag for flag, is_set in there.items() if is_set]

    def _states(self, queue: int) -> list[tuple[str, int]]:
        row = self._tally.counts[queue].tolist()
        return [(state, count) for state, count in zip(STATES, row, strict=True) if count]


def _integer(stored: bytes | None) -> int | None:
    """The stored decimal as int64, a fraction cut; None where it is none."""
    if stored is None or len(stored) > 20:
        return None
    whole = stored.split(b".")[0]
    if not whole.lstrip(b"-").isdigit():
        return None
    try:
        value = int(whole)
    except ValueError:
        return None
    return value if -(1 << 63) <= value < 1 << 63 else None


def _times(values: npt.NDArray[np.int64], none: Any) -> pa.Array:
    missing = values == none
    return pa.array(np.where(missing, 0, values), mask=missing).cast(MS)
