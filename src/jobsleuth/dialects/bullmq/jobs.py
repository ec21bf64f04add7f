"""Job hashes, batch by batch: rows of `jobs`, and the relations and workers that they name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from jobsleuth.dialects.bullmq.fields import (
    COMPLETE,
    COMPLETE_EARLY_BULL,
    GROUP_FIELDS,
    JOB_FIELDS,
    PARKED_FIELDS,
    SCHEDULE_FIELDS,
    Fields,
    job_projection,
)
from jobsleuth.dialects.bullmq.grammar import HASH_HEADS
from jobsleuth.dialects.bullmq.keytable import numbers, valid
from jobsleuth.dialects.bullmq.numerals import counter, parse_int, settle_numbers
from jobsleuth.dialects.bullmq.reading import Queues, Reading, SplitKeys
from jobsleuth.dialects.bullmq.relations import Side, relation_table
from jobsleuth.dialects.bullmq.states import STATES, state_codes
from jobsleuth.dialects.bullmq.structures import Memberships
from jobsleuth.dialects.bullmq.tally import Tally
from jobsleuth.keyspace import Rows

pc: Any = pa.compute

Pieces = Iterator[tuple[str, pa.Table]]

_PLAIN_COLUMNS = (
    "name",
    "payload_format",
    "created_at",
    "started_at",
    "finished_at",
    "priority",
    "delay_ms",
    "error",
    "stacktrace",
    "result",
    "progress",
    "worker_name",
    "deferred_failure",
    "schedule_id",
    "deduplication_id",
    "rest",
)
_SIGNS = {
    "attemptsMade": "attempts_made",
    "atm": "attempts_ended",
    "ats": "attempts_started",
    "stalledCounter": "stalled_counter",
    "stc": "stalled_count",
    "pb": "worker_name",
    "defa": "deferred_failure",
    "deid": "deduplication_id",
    "rjk": "schedule_id",
    "parent": "parent_id",
}
"""Sign of an era → column whose presence is the sign."""


_ZERO = pa.scalar(0, pa.int64())

Ids = tuple[pa.Array, pa.Array]
"""Ids as text, and their bytes where the text is not exact."""


class Jobs:
    """Streams the hashes that may be jobs, and settles what each is.

    Attributes:
        schedulers: rows that turned out to be definitions of schedules, ascending. After :meth:`tables`.
    """

    def __init__(self, reading: Reading, memberships: Memberships, tally: Tally, bull: npt.NDArray[np.bool_]) -> None:
        self._reading = reading
        self._memberships = memberships
        self._tally = tally
        self._bull = bull
        self._projection = job_projection(reading.options.payload_limit)
        self._schedulers: list[Rows] = []

    @property
    def schedulers(self) -> Rows:
        """Rows of schedule definitions."""
        return np.concatenate([np.empty(0, np.int64), *self._schedulers])

    def tables(self) -> Pieces:
        """Rows of `jobs`, `relations` and `workers`."""
        reading = self._reading
        for batch in reading.keyspace.records(reading.rows_of("job"), self._projection):
            keep = self._settle_roles(batch)
            if len(keep) < batch.num_rows:
                batch = batch.take(pa.array(keep))
            if batch.num_rows:
                yield from self._records(batch)
        for ghosts in self._memberships.ghosts():
            state = state_codes(ghosts.mask, self._bull[ghosts.queue])
            self._tally.count(ghosts.queue, state)
            ids, exact = reading.text(ghosts.member)
            base = pa.array([q.base for q in reading.claims.queues], pa.binary()).take(pa.array(ghosts.queue))
            key, exact_key = reading.text(pc.binary_join_element_wise(base, ghosts.member, b":"))
            yield (
                "jobs",
                pa.table(
                    {
                        **reading.columns(ghosts.queue),
                        "job_id": ids,
                        "job_id_bytes": exact,
                        "state": _states(state),
                        "has_record": pa.array(np.zeros(len(state), np.bool_)),
                        "scheduled_at": _where(state == STATES.index("delayed"), ghosts.due),
                        "key": key,
                        "key_bytes": exact_key,
                    }
                ),
            )

    def _settle_roles(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Positions of the batch that are jobs; the others get their role."""
        row = numbers(batch.column("row"), np.int64)
        has = {field: numbers(batch.column(f"has_{field}"), np.bool_) for field in COMPLETE}
        whole = has["timestamp"] & (has["name"] | has["data"] | has["opts"])
        odd = np.flatnonzero(~whole & (self._memberships.mask[row] == 0))
        if not len(odd):
            return np.arange(len(row))
        reading = self._reading
        head = reading.keyspace.find_prefix(reading.remainders(row[odd]), HASH_HEADS)
        fields = Fields(batch, odd)
        dated = has["timestamp"][odd]
        of_job = fields.only(JOB_FIELDS)
        schedule = (head == HASH_HEADS.index(b"repeat:")) & ~dated & fields.only(SCHEDULE_FIELDS)
        parked = (head == HASH_HEADS.index(b"dn:")) & ~dated & fields.only(PARKED_FIELDS)
        group = (head == HASH_HEADS.index(b"groups:")) & ~dated & (fields.only(GROUP_FIELDS) | ~of_job)
        roles = reading.claims.role
        places = [schedule, parked & ~schedule, group]
        other = ~(schedule | parked | group | of_job)
        for name, match in zip(("scheduler", "dedup-next", "groups", "unplaced"), [*places, other], strict=True):
            roles[row[odd[match]]] = reading.claims.role_code(name)
        queue = reading.claims.queue[row[odd]]
        self._schedulers.append(row[odd[schedule]])
        self._tally.sign("iteration count", queue[schedule & fields.any_of(("ic",))])
        self._tally.sign("parked", queue[parked])
        not_jobs = np.zeros(len(row), np.bool_)
        not_jobs[odd] = schedule | parked | group | other
        return np.flatnonzero(~not_jobs)

    def _records(self, batch: pa.RecordBatch) -> Pieces:
        reading = self._reading
        batch, unreadable = settle_numbers(batch)
        row = numbers(batch.column("row"), np.int64)
        queue = reading.claims.queue[row]
        state = state_codes(self._memberships.mask[row], self._bull[queue])
        ids = reading.remainders(row)
        job_id, exact = reading.text(ids)
        who = job_id, exact
        named = reading.key_columns(row)
        key = named["key"]
        parents = self._parents(batch, queue)
        parent_ns, parent_queue, parent_id, parent_exact = parents.spread(len(row))
        self._add_up(batch, queue, state)
        yield (
            "jobs",
            pa.table(
                {
                    **reading.columns(queue),
                    **{name: batch.column(name) for name in _PLAIN_COLUMNS},
                    "job_id": job_id,
                    "job_id_bytes": exact,
                    "state": _states(state),
                    "has_record": pa.array(np.ones(len(row), np.bool_)),
                    "record_complete": pa.array(self._whole(batch, queue)),
                    "payload": batch.column("payload")
                    if reading.options.payload_limit != 0
                    else pa.nulls(len(row), pa.binary()),
                    "payload_bytes": batch.column("payload_size"),
                    "scheduled_at": _where(state == STATES.index("delayed"), self._memberships.due(row)),
                    # The library takes `attemptsMade` first.
                    "attempts": counter(batch, unreadable, "attempts_made", "attempts_ended", missing=_ZERO),
                    "max_attempts": _max_attempts(batch),
                    # Bull has no such counter: null is "does not know", elsewhere an absent counter is 0.
                    "attempts_started": counter(
                        batch,
                        unreadable,
                        "attempts_started",
                        missing=pa.array(np.zeros(len(row), np.int64), mask=self._bull[queue]),
                    ),
                    "stalled_count": counter(batch, unreadable, "stalled_count", "stalled_counter", missing=_ZERO),
                    "parent_namespace": parent_ns,
                    "parent_queue": parent_queue,
                    "parent_id": parent_id,
                    "parent_id_bytes": parent_exact,
                    **named,
                }
            ),
        )
        yield from self._relations(batch, queue, who, key, parents)
        yield from self._named_workers(batch, queue, state, who, key)

    def _whole(self, batch: pa.RecordBatch, queue: Queues) -> npt.NDArray[np.bool_]:
        """Which records hold what every real job of their library has; notes queues with jobs of the oldest Bull."""
        bull = self._bull[queue]
        whole = _all_of(batch, COMPLETE)
        named = numbers(batch.column("has_name"), np.bool_)
        self._tally.sign("named job", queue[bull & named])
        doubtful = np.flatnonzero(bull & ~whole & _all_of(batch, COMPLETE_EARLY_BULL))
        if len(doubtful):
            attempts = pc.map_lookup(batch.column("rest").take(pa.array(doubtful)), pa.scalar("attempts"), "first")
            nameless = ~named[doubtful] & numbers(pc.is_valid(attempts), np.bool_)
            self._tally.sign("nameless job", queue[doubtful[nameless]])
            whole[doubtful] = named[doubtful] | nameless
        return whole

    def _parents(self, batch: pa.RecordBatch, queue: Queues) -> _Parents:
        """Parents by `parentKey`, which the library follows; `parent` tells where to divide it."""
        keys = pc.map_lookup(batch.column("rest"), pa.scalar("parentKey"), "first")
        # To the library an empty field is none.
        at = np.flatnonzero(numbers(pc.fill_null(pc.not_equal(keys, pa.scalar(b"", keys.type)), False), np.bool_))
        keys = keys.take(pa.array(at))
        base = batch.column("parent_base").take(pa.array(at)).cast(pa.binary())
        ids = batch.column("parent_id").take(pa.array(at))
        spelled = pc.binary_join_element_wise(base, ids.cast(pa.binary()), b":")
        agree = numbers(pc.fill_null(pc.equal(spelled, keys), False), np.bool_)
        db = self._reading.db_of(queue[at])
        parts = []
        for match, split in ((agree, True), (~agree, False)):
            some = np.flatnonzero(match)
            pick = pa.array(some)
            if len(some) and split:
                parts.append((at[some], self._reading.split_parents(db[some], base.take(pick), ids.take(pick))))
            elif len(some):
                parts.append((at[some], self._reading.split_keys(db[some], keys.take(pick))))
        return _Parents(parts)

    def _relations(self, batch: pa.RecordBatch, queue: Queues, who: Ids, key: pa.Array, parents: _Parents) -> Pieces:
        reading = self._reading
        for at, split in parents.parts:
            pick = pa.array(at)
            yield (
                "relations",
                relation_table(
                    reading,
                    "parent",
                    "parentKey",
                    queue[at],
                    source=(
                        reading.namespace_text(queue[at]),
                        reading.queue_text(queue[at]),
                        *(ids.take(pick) for ids in who),
                    ),
                    target=split.side,
                    key=key.take(pick),
                ),
            )
        scheduled = np.flatnonzero(valid(batch.column("schedule_id")))
        if len(scheduled):
            pick = pa.array(scheduled)
            names = reading.namespace_text(queue[scheduled]), reading.queue_text(queue[scheduled])
            yield (
                "relations",
                relation_table(
                    reading,
                    "schedule",
                    "rjk",
                    queue[scheduled],
                    source=(*names, batch.column("schedule_id").take(pick), pa.nulls(len(scheduled), pa.binary())),
                    target=(*names, *(ids.take(pick) for ids in who)),
                    key=key.take(pick),
                ),
            )

    def _named_workers(
        self, batch: pa.RecordBatch, queue: Queues, state: npt.NDArray[np.int8], who: Ids, key: pa.Array
    ) -> Pieces:
        """Workers that took a job that is active still, where they have a name."""
        some = np.flatnonzero((state == STATES.index("active")) & valid(batch.column("worker_name")))
        if len(some):
            pick = pa.array(some)
            yield (
                "workers",
                pa.table(
                    {
                        **self._reading.columns(queue[some]),
                        "kind": pa.array(["worker"] * len(some)),
                        "worker_id": batch.column("worker_name").take(pick),
                        "job_id": who[0].take(pick),
                        "job_id_bytes": who[1].take(pick),
                        "started_at": batch.column("started_at").take(pick),
                        "key": key.take(pick),
                    }
                ),
            )

    def _add_up(self, batch: pa.RecordBatch, queue: Queues, state: npt.NDArray[np.int8]) -> None:
        tally = self._tally
        tally.count(queue, state)
        tally.ready(queue, state, batch.column("created_at"))
        tally.activity(queue, batch.column("started_at"), worker=True)
        tally.activity(queue, batch.column("finished_at"), worker=True)
        for sign, column in _SIGNS.items():
            there = valid(batch.column(column))
            if there.any():
                tally.sign(sign, queue[there])


class _Parents:
    """Parents of some jobs of a batch: (positions, parents) once or twice."""

    def __init__(self, parts: list[tuple[npt.NDArray[np.int64], SplitKeys]]) -> None:
        self.parts = parts

    def spread(self, rows: int) -> Side:
        """namespace, queue, id and its bytes over all rows of the batch, null where there is no parent."""
        if not self.parts:
            none = pa.nulls(rows, pa.string())
            return none, none, none, pa.nulls(rows, pa.binary())
        place = np.full(rows, -1, np.int64)
        count = 0
        for at, _ in self.parts:
            place[at] = np.arange(count, count + len(at))
            count += len(at)
        pick = pa.array(place, mask=place < 0)
        columns = zip(*(s.side for _, s in self.parts), strict=True)
        namespace, name, job_id, exact = (pa.concat_arrays(arrays).take(pick) for arrays in columns)
        return namespace, name, job_id, exact


def _all_of(batch: pa.RecordBatch, fields: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    out = np.ones(batch.num_rows, np.bool_)
    for field in fields:
        out &= numbers(batch.column(f"has_{field}"), np.bool_)
    return out


def _max_attempts(batch: pa.RecordBatch) -> pa.Array:
    """`opts.attempts`; 0 where there are no options or they do not name it, as the library takes it."""
    named = batch.column("max_attempts")
    missing = np.flatnonzero(~valid(named))
    if not len(missing):
        return named
    stored = pc.map_lookup(batch.column("rest").take(pa.array(missing)), pa.scalar("opts"), "first")
    stored = pc.fill_null(stored, pa.scalar(b"", stored.type)).dictionary_encode()
    meant = pa.array([_attempts_of(text) for text in stored.dictionary.to_pylist()], pa.int64())
    mask = np.zeros(len(named), np.bool_)
    mask[missing] = True
    return pc.replace_with_mask(named, pa.array(mask), meant.take(stored.indices))


def _attempts_of(text: bytes) -> int | None:
    try:
        # The library takes an empty text for no options.
        options = json.loads(text or b"{}")
    except (ValueError, RecursionError):
        return None
    if not isinstance(options, dict):
        return None if options is None else 0
    attempts = options.get("attempts", 0)
    # JavaScript compares with a text as with the number that it spells.
    if isinstance(attempts, str) and attempts.isdecimal():
        return parse_int(attempts.encode())
    return 0 if "attempts" not in options else None


def _states(codes: npt.NDArray[np.int8]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(STATES))


def _where(condition: npt.NDArray[np.bool_], values: Any) -> Any:
    return pc.if_else(pa.array(condition), values, pa.scalar(None, values.type))
