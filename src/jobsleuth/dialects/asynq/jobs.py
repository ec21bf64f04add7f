"""`jobs` rows: one per task record, one per id that only a structure names."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jobsleuth.dialects.asynq.columns import (
    NO_TIME,
    Bools,
    Ints,
    bools,
    coded,
    filled,
    ints,
    ms_of_seconds,
    named,
    nulled,
    one,
    times,
    with_entries,
)
from jobsleuth.dialects.asynq.fields import task_projection
from jobsleuth.dialects.asynq.membership import Places
from jobsleuth.dialects.asynq.messages import JSON_HINT
from jobsleuth.dialects.asynq.site import Site
from jobsleuth.dialects.asynq.states import NOWHERE, RANKS, STATES, STRUCTURES

_RANK = {name: rank for rank, name in enumerate(STATES)}
_DUE = (_RANK["scheduled"], _RANK["retry"])
_GHOSTS_AT_ONCE = 1 << 16
_SHORTEST_NS = 10**18
"""Nanoseconds since 1970 have 19 digits from 2001 on; fewer are another unit, from another writer."""


class Jobs:
    """Makes the rows; the site's facts are filled on the way."""

    def __init__(self, site: Site, places: Places, started: dict[int, int]) -> None:
        """Args:
        site: the reading.
        places: where tasks are, complete.
        started: task record → when the run in progress began, Unix ms.
        """
        self._site = site
        self._places = places
        self._started = np.full(len(site.job_rows), NO_TIME, np.int64) if started else None
        for job, ms in started.items():
            if self._started is not None:
                self._started[job] = ms

    def rows(self) -> Iterator[tuple[str, pa.Table]]:
        """All `jobs` rows: records in the order of the evidence, then ids without a record."""
        site = self._site
        hashes = site.job_rows[site.keys.has_type(site.job_rows, "hash")]
        for batch in site.keyspace.records(hashes, task_projection(site.options.payload_limit)):
            yield "jobs", self._of_records(batch)
        if len(hashes) < len(site.job_rows):
            yield "jobs", self._of_wrong_type(np.setdiff1d(site.job_rows, hashes))
        ghosts = self._places.ghosts
        for start in range(0, ghosts.num_rows, _GHOSTS_AT_ONCE):
            yield "jobs", self._of_ghosts(ghosts.slice(start, _GHOSTS_AT_ONCE))

    # -- records ------------------------------------------------------------------------------------------------------

    def _of_records(self, batch: pa.RecordBatch) -> pa.Table:
        message = _Message(batch)
        site = self._site
        head, job, queue, rank = self._heads(batch.column("row").to_numpy())
        score_ms = self._places.score_ms[job]
        group = batch.column("group")
        has_group_key = filled(message.column("group_key"))
        odd_group = has_group_key & ~_same(group, message.column("group_key"))

        pending_since = batch.column("pending_since")
        pending_ns = ints(pending_since)
        pending_ms = np.where(pending_ns > 0, pending_ns // 1_000_000, NO_TIME)
        archived = (rank == _RANK["archived"]) & (score_ms != NO_TIME)
        completed_ms, odd_completed = message.unix("completed_at")
        failed_ms, odd_failed = message.unix("last_failed_at")
        deadline_ms, odd_deadline = message.unix("deadline")
        finished_ms = np.where(archived, score_ms, completed_ms)
        started_ms = self._started[job] if self._started is not None else np.full(len(job), NO_TIME, np.int64)

        rest = with_entries(
            batch.column("rest"),
            [
                named("msg.group_key", odd_group, message.column("group_key")),
                named(
                    "msg.completed_at",
                    odd_completed | (archived & (completed_ms != NO_TIME)),
                    message.column("completed_at"),
                ),
                named("msg.last_failed_at", odd_failed, message.column("last_failed_at")),
                named("msg.deadline", odd_deadline, message.column("deadline")),
                named(
                    "pending_since",
                    (pending_ns < _SHORTEST_NS) & pending_since.is_valid().to_numpy(zero_copy_only=False),
                    pending_since,
                ),
                message.headers(),
                named("msg.bytes", message.cut(site.options.payload_limit), batch.column("msg_size")),
            ],
        )
        self._note(
            queue, rank, job, pending_ms, (finished_ms, failed_ms, pending_ms, started_ms), (finished_ms, failed_ms)
        )
        facts = site.facts
        facts.show("timeout", queue, bools(batch.column("has_timeout")))
        facts.show("pending_since", queue, pending_ns > 0)
        facts.show("result", queue, batch.column("result").is_valid().to_numpy(zero_copy_only=False))
        facts.show("completed_at", queue, completed_ms != NO_TIME)
        facts.show("group", queue, has_group_key | group.is_valid().to_numpy(zero_copy_only=False))
        facts.show("headers", queue, message.has_headers)
        facts.show("message", queue, message.decoded)
        return pa.table(
            {
                **head,
                "claimed_state": batch.column("state"),
                "record_complete": pa.array(message.stored & batch.column("state").is_valid().to_numpy(False)),
                "name": message.said("type"),
                "payload": message.column("payload"),
                "payload_bytes": message.column("payload_size"),
                "payload_format": message.column("payload_format"),
                "scheduled_at": times(np.where(np.isin(rank, _DUE), score_ms, NO_TIME)),
                "started_at": times(started_ms),
                "finished_at": times(finished_ms),
                "last_failed_at": times(failed_ms),
                "attempts": message.column("retried"),
                "max_attempts": message.column("retry"),
                "timeout_s": message.column("timeout"),
                "deadline": times(deadline_ms),
                "retention_s": message.column("retention"),
                "error": message.said("error_msg"),
                "result": batch.column("result"),
                "deduplication_id": message.said("unique_key"),
                "group": group,
                "pending_since": times(pending_ms),
                "record_id": message.said("id"),
                "record_queue": message.said("queue"),
                "decode_error": message.error(),
                "unknown_fields": nulled(message.column("unknown_fields"), message.has_unknown),
                "message_rest": nulled(message.column("unknown"), message.has_unknown),
                "undecoded": message.raw(site.options.payload_limit),
                "rest": rest,
            }
        )

    def _heads(
        self, rows: Ints
    ) -> tuple[
        dict[str, pa.Array | pa.ChunkedArray], npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int8]
    ]:
        """Columns that need only the key, with index, queue and rank of each task record."""
        site = self._site
        job, queue = site.jobs_of(rows), site.claims.queue[rows]
        decider = self._places.decider[job]
        rank = RANKS[decider]
        keys = site.keys.names(rows)
        ids = site.keyspace.cut(keys, site.task_prefix_length[queue], np.zeros(len(rows), np.int64))
        text, exact = site.text(ids)
        np.add.at(site.facts.counts, (queue, rank), 1)
        head = {
            **site.heads(queue),
            "job_id": text,
            "job_id_bytes": exact,
            "state": coded(rank, STATES),
            "decided_by": decided_by(decider),
            "has_record": pa.array(np.ones(len(rows), bool)),
            "key": site.text(keys)[0],
        }
        return head, job, queue, rank

    def _note(
        self,
        queue: npt.NDArray[np.int32],
        rank: npt.NDArray[np.int8],
        job: npt.NDArray[np.int32],
        pending_ms: Ints,
        activity: tuple[Ints, ...],
        signs: tuple[Ints, ...],
    ) -> None:
        facts = self._site.facts
        for ms in activity:
            np.maximum.at(facts.last_activity, queue, ms)
        by_worker = rank != _RANK["archived"]  # the inspector archives too, so that time is no worker's
        for ms in signs:
            np.maximum.at(facts.last_sign, queue[by_worker], ms[by_worker])
        next_ones = np.isin(job, self._places.tails)
        facts.tail_pending_since[queue[next_ones]] = pending_ms[next_ones]

    # -- oddities -----------------------------------------------------------------------------------------------------

    def _of_wrong_type(self, rows: Ints) -> pa.Table:
        head, *_ = self._heads(rows)
        kinds = [self._site.keys.type_of(int(row)) for row in rows]
        return pa.table(
            {
                **head,
                "record_complete": pa.array(np.zeros(len(rows), bool)),
                "decode_error": pa.array([f"the key is of type {kind}, a task is a hash" for kind in kinds]),
            }
        )

    def _of_ghosts(self, ghosts: pa.Table) -> pa.Table:
        site = self._site
        queue = ghosts.column("queue").to_numpy()
        decider, score_ms = ghosts.column("decider").to_numpy(), ghosts.column("score_ms").to_numpy()
        rank = RANKS[decider]
        np.add.at(site.facts.counts, (queue, rank), 1)
        text, exact = site.text(ghosts.column("member"))
        prefixes = pa.array([prefix for _, prefix in site.task_prefixes], pa.binary()).take(pa.array(queue))
        keys = pc.binary_join_element_wise(prefixes, one(ghosts.column("member")), b"")
        return pa.table(
            {
                **site.heads(queue),
                "job_id": text,
                "job_id_bytes": exact,
                "state": coded(rank, STATES),
                "decided_by": decided_by(decider),
                "has_record": pa.array(np.zeros(len(queue), bool)),
                "scheduled_at": times(np.where(np.isin(rank, _DUE), score_ms, NO_TIME)),
                "finished_at": times(np.where(rank == _RANK["archived"], score_ms, NO_TIME)),
                "key": site.text(keys)[0],
            }
        )


def decided_by(decider: npt.NDArray[np.int8]) -> pa.Array:
    """The names of the structures that make states, null for none."""
    return pa.DictionaryArray.from_arrays(pa.array(decider.astype(np.int32), mask=decider == NOWHERE), STRUCTURES)


class _Message:
    """The columns of the decoded `msg` of one batch."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._error = self.column("error")
        size = batch.column("msg_size")
        self.stored: Bools = ints(size) > 0
        present = size.is_valid().to_numpy(zero_copy_only=False)
        self.decoded: Bools = present & self._error.is_null().to_numpy(zero_copy_only=False)
        self.has_unknown: Bools = filled(self.column("unknown"))
        headers = self.column("headers")
        self.has_headers: Bools = _sizes(headers) > 0

    def column(self, name: str) -> pa.Array:
        return self._batch.column(f"msg.{name}")

    def said(self, name: str) -> pa.Array:
        """A text column in which proto3's empty text is null."""
        column = self.column(name)
        return nulled(column, filled(column))

    def unix(self, name: str) -> tuple[Ints, Bools]:
        """Unix seconds as milliseconds, 0 being none; and where the number is no time we can show."""
        seconds = ints(self.column(name))
        ms = np.where(seconds == 0, NO_TIME, ms_of_seconds(seconds))
        return ms, (seconds != 0) & (ms == NO_TIME)

    def raw(self, limit: int | None) -> pa.Array:
        """The bytes of messages that could not be decoded: a payload may be among them, so no more than of payloads."""
        raw = self.column("raw")
        if limit is None or raw.null_count == len(raw):
            return raw
        return pa.array([None if value is None else value[:limit] for value in raw.to_pylist()], pa.binary())

    def cut(self, limit: int | None) -> Bools:
        """Where that is not all of them."""
        return bools(pc.greater(pc.binary_length(self.column("raw")), pc.binary_length(self.raw(limit))))

    def error(self) -> pa.Array:
        """Why the message could not be decoded, with a hint where it is JSON."""
        if self._error.null_count == len(self._error):
            return self._error
        json = pc.starts_with(self.column("raw"), b"{")
        return pc.if_else(json.fill_null(False), pc.binary_join_element_wise(self._error, JSON_HINT, ""), self._error)

    def headers(self) -> tuple[Ints, pa.Array, pa.Array]:
        """The headers as entries `msg.headers.<name>`."""
        headers = self.column("headers")
        rows = np.repeat(np.arange(len(headers)), _sizes(headers))
        if not len(rows):
            return rows, pa.array([], pa.string()), pa.array([], pa.binary())
        offsets = headers.offsets
        span = slice(offsets[0].as_py(), offsets[-1].as_py())
        names = pc.binary_join_element_wise("msg.headers.", headers.keys[span].cast(pa.string()), "")
        return rows, names, headers.items[span]


def _sizes(column: pa.MapArray) -> Ints:
    sizes: Ints = np.diff(column.offsets.to_numpy().astype(np.int64))
    return sizes


def _same(left: pa.Array, right: pa.Array) -> Bools:
    return bools(pc.equal(left, right))
