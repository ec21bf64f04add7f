"""Which structure holds which task: membership rows, leases, and the place of every task."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jobsleuth.dialects.asynq.columns import NO_TIME, Ints, coded, constant, ms_of_seconds, one, times
from jobsleuth.dialects.asynq.site import Site
from jobsleuth.dialects.asynq.states import LISTS, RANKS, STRUCTURES, UNKNOWN

_CODE = {name: code for code, name in enumerate(STRUCTURES)}
_UUID_TAIL = 37  # `:` and a UUID, what an aggregation set's name adds to its group's
_LEASE_MS = 30_000
"""A lease is set to this much after the pop or the latest heartbeat."""


class Places:
    """Where each task is, filled while :meth:`rows` runs.

    Attributes:
        rank: per task record the rank of its state (see `states.STATES`).
        score_ms: per task record the time in the score of the structure that makes the state; `NO_TIME`: none.
        ghosts: ids that only structures name: queue, member, rank, score_ms; sorted by queue and id.
        tails: task records that run next, one of each pending list that is not empty.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        claims = site.claims
        self.rank = np.full(len(site.job_rows), UNKNOWN, np.int8)
        self.score_ms = np.full(len(site.job_rows), NO_TIME, np.int64)
        self.ghosts = _GHOST.empty_table()
        self.tails = np.empty(0, np.int32)
        rows = claims.rows_of(*STRUCTURES)
        code_of_role = np.array([_CODE.get(name, -1) for name in claims.roles] or [-1], np.int8)
        codes = code_of_role[claims.role[rows]]
        is_list = np.isin(codes, [_CODE[name] for name in LISTS])
        usable = site.keys.live[rows] & np.where(
            is_list, site.keys.has_type(rows, "list"), site.keys.has_type(rows, "zset")
        )
        self._rows, self._codes = rows[usable], codes[usable]
        self._lease_code = self._lease_of_queue()
        self._key_text = one(site.text(site.keys.names(self._rows))[0])
        self._group_text = self._groups()

    def _lease_of_queue(self) -> npt.NDArray[np.int8]:
        """Per queue the structure its recoverer reads: `lease`, but `deadlines` where 0.12 to 0.21 left no lease."""
        has_lease = np.zeros(len(self._site.claims.queues), bool)
        has_lease[self._site.claims.queue[self._rows[self._codes == _CODE["lease"]]]] = True
        return np.where(has_lease, _CODE["lease"], _CODE["deadlines"]).astype(np.int8)

    def _groups(self) -> pa.Array:
        """Per structure key the group it belongs to, null for structures without one."""
        site, claims = self._site, self._site.claims
        grouped = np.isin(self._codes, (_CODE["group"], _CODE["aggregation_set"]))
        rows = self._rows[grouped]
        head = np.array([len(q.base) + 3 for q in claims.queues], np.int64)[claims.queue[rows]]
        tail = np.where(self._codes[grouped] == _CODE["aggregation_set"], _UUID_TAIL, 0).astype(np.int64)
        names = one(site.text(site.keyspace.cut(site.keys.names(rows), head, tail))[0])
        where = np.full(len(self._rows), -1, np.int64)
        where[grouped] = np.arange(len(rows))
        return names.take(pa.array(where, mask=where < 0))

    def rows(self) -> Iterator[tuple[str, pa.Table]]:
        """`membership` rows of all structures, `workers` rows of kind lease; fills the attributes on the way."""
        site = self._site
        ghosts: list[pa.Table] = []
        tails: dict[int, int] = {}
        for batch in site.keyspace.elements(self._rows):
            row = batch.column("row").to_numpy()
            local = np.searchsorted(self._rows, row)
            code, queue = self._codes[local], site.claims.queue[row]
            member = batch.column("member")
            score = batch.column("score").to_numpy(zero_copy_only=False)
            score_ms = ms_of_seconds(score)
            job = site.jobs_named(queue, member)
            self._place(job, RANKS[code], score_ms)
            lost = job < 0
            if lost.any():
                at = pa.array(lost)
                facts = [
                    pa.array(queue[lost]),
                    member.filter(at),
                    pa.array(RANKS[code[lost]]),
                    pa.array(score_ms[lost]),
                ]
                ghosts.append(pa.Table.from_arrays(facts, schema=_GHOST))
            self._note_tails(tails, row, job, code == _CODE["pending"])
            yield from self._tables(batch, local, code, queue, score_ms)
        self.tails = np.array(sorted(job for job in tails.values() if job >= 0), np.int32)
        self.ghosts = _first_of_each(ghosts)

    def _place(self, job: npt.NDArray[np.int32], rank: npt.NDArray[np.int8], score_ms: Ints) -> None:
        known = job >= 0
        job, rank, score_ms = job[known], rank[known], score_ms[known]
        np.minimum.at(self.rank, job, rank)
        deciding = (self.rank[job] == rank) & (rank != UNKNOWN)
        self.score_ms[job[deciding]] = score_ms[deciding]

    @staticmethod
    def _note_tails(
        tails: dict[int, int], row: Ints, job: npt.NDArray[np.int32], pending: npt.NDArray[np.bool_]
    ) -> None:
        at = np.flatnonzero(pending)[::-1]
        lists, last = np.unique(row[at], return_index=True)
        for key_row, index in zip(lists.tolist(), at[last].tolist(), strict=True):
            tails[key_row] = int(job[index])  # a later batch of the same list overwrites

    def _tables(
        self,
        batch: pa.RecordBatch,
        local: npt.NDArray[np.int64],
        code: npt.NDArray[np.int8],
        queue: npt.NDArray[np.int32],
        score_ms: Ints,
    ) -> Iterator[tuple[str, pa.Table]]:
        site = self._site
        is_lease = code == self._lease_code[queue]
        text, exact = site.text(batch.column("member"))
        index = pa.array(local)
        due_at, key = times(score_ms), self._key_text.take(index)
        columns = {
            **site.heads(queue),
            "structure": coded(np.where(is_lease, _CODE["lease"], code), STRUCTURES),
            "kind": coded(np.isin(code, [_CODE[name] for name in LISTS]).astype(np.int32), ("zset", "list")),
            "position": batch.column("position"),
            "job_id": text,
            "job_id_bytes": exact,
            "score": batch.column("score"),
            "due_at": due_at,
            "decides_state": pa.array(RANKS[code] != UNKNOWN),
            "group": self._group_text.take(index),
            "key": key,
        }
        yield "membership", pa.table(columns)
        if not is_lease.any():
            return
        at = pa.array(np.flatnonzero(is_lease))
        until = score_ms[is_lease]
        leases = {
            **site.heads(queue[is_lease]),
            "kind": constant("lease", len(until)),
            "job_id": text.take(at),
            "valid_until": due_at.take(at),
            "valid": pa.nulls(len(until), pa.bool_()) if site.as_of_ms is None else pa.array(until > site.as_of_ms),
            "key": key.take(at),
        }
        signs = np.where((until != NO_TIME) & (code[is_lease] == _CODE["lease"]), until - _LEASE_MS, NO_TIME)
        np.maximum.at(site.facts.last_sign, queue[is_lease], signs)
        np.maximum.at(site.facts.last_activity, queue[is_lease], signs)
        yield "workers", pa.table(leases)


_GHOST = pa.schema([("queue", pa.int32()), ("member", pa.binary()), ("rank", pa.int8()), ("score_ms", pa.int64())])


def _first_of_each(ghosts: list[pa.Table]) -> pa.Table:
    """One row per id: the structure that acts first."""
    if not ghosts:
        return _GHOST.empty_table()
    order = [("queue", "ascending"), ("member", "ascending"), ("rank", "ascending")]
    table = pa.concat_tables(ghosts).sort_by(order)
    first = table.group_by(["queue", "member"], use_threads=False).aggregate([("rank", "first"), ("score_ms", "first")])
    renamed = first.select(["queue", "member", "rank_first", "score_ms_first"]).rename_columns(_GHOST.names)
    return renamed.cast(_GHOST).combine_chunks()
