"""Which structure holds which task: membership rows, leases, and the place of every task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jobsleuth.dialects.asynq.columns import NO_TIME, Ints, bools, coded, constant, ms_of_seconds, one, times
from jobsleuth.dialects.asynq.site import Site
from jobsleuth.dialects.asynq.states import IDS, LISTS, NOWHERE, STRUCTURES
from jobsleuth.dialects.asynq.wholemessages import is_message
from jobsleuth.safetext import from_bytes

_CODE = {name: code for code, name in enumerate(STRUCTURES)}
_UUID_TAIL = 37  # `:` and a UUID, what an aggregation set's name adds to its group's
_LEASE_MS = 30_000
"""A lease is set to this much after the pop or the latest heartbeat."""


class Places:
    """Where each task is, filled while :meth:`rows` runs.

    Attributes:
        decider: per task record the index of the structure that makes its state, or `NOWHERE`.
        score_ms: per task record the time in the score of the structure that makes the state; `NO_TIME`: none.
        ghosts: ids that only structures name: queue, member, decider, score_ms; sorted by queue and id.
        tails: task records that run next, one of each pending list that is not empty.
        mixed: structures that hold whole messages beside ids; these messages are left to `whole.py`.
        lease_code: per queue the index of the structure that its recoverer reads.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        claims = site.claims
        self.decider = np.full(len(site.job_rows), NOWHERE, np.int8)
        self.score_ms = np.full(len(site.job_rows), NO_TIME, np.int64)
        self.ghosts = _GHOST.empty_table()
        self.tails = np.empty(0, np.int32)
        self.mixed = np.empty(0, np.int64)
        rows = claims.rows_of(*IDS)
        code_of_role = np.array([_CODE.get(name, -1) for name in claims.roles] or [-1], np.int8)
        codes = code_of_role[claims.role[rows]]
        is_list = np.isin(codes, [_CODE[name] for name in LISTS])
        usable = site.keys.live[rows] & np.where(
            is_list, site.keys.has_type(rows, "list"), site.keys.has_type(rows, "zset")
        )
        self._rows, self._codes = rows[usable], codes[usable]
        self.lease_code = self._lease_of_queue()
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
        mixed: set[int] = set()
        for batch in site.keyspace.elements(self._rows):
            batch, job = self._without_messages(batch, mixed)
            row = batch.column("row").to_numpy()
            local = np.searchsorted(self._rows, row)
            code, queue = self._codes[local], site.claims.queue[row]
            score_ms = ms_of_seconds(batch.column("score").to_numpy(zero_copy_only=False))
            self.place(job, code, score_ms)
            lost = job < 0
            if lost.any():
                facts = [
                    pa.array(queue[lost]),
                    batch.column("member").filter(pa.array(lost)),
                    pa.array(np.minimum(code[lost], NOWHERE)),
                    pa.array(score_ms[lost]),
                ]
                ghosts.append(pa.Table.from_arrays(facts, schema=_GHOST))
            self._note_tails(tails, row, job, code == _CODE["pending"])
            yield from self._tables(batch, local, code, queue, score_ms)
        self.tails = np.array(sorted(job for job in tails.values() if job >= 0), np.int32)
        self.mixed = np.array(sorted(mixed), np.int64)
        self.ghosts = _first_of_each(ghosts)

    def _without_messages(self, batch: pa.RecordBatch, mixed: set[int]) -> tuple[pa.RecordBatch, npt.NDArray[np.int32]]:
        """The batch without elements that are messages of releases before 0.18, and the task of each element."""
        row, member = batch.column("row").to_numpy(), batch.column("member")
        job = self._site.jobs_named(self._site.claims.queue[row], member)
        suspects = np.flatnonzero((job < 0) & bools(pc.starts_with(member, b"{")))
        found = [at for at in suspects.tolist() if is_message(member[at].as_py())]
        if not found:
            return batch, job
        mixed.update(row[found].tolist())
        keep = np.ones(len(job), bool)
        keep[found] = False
        return batch.filter(pa.array(keep)), job[keep]

    def place(self, job: npt.NDArray[np.int32], code: npt.NDArray[np.int8], score_ms: Ints) -> None:
        """Notes that the task records (-1: none) are in the structures, whose scores mean these times."""
        known = (job >= 0) & (code < NOWHERE)
        job, code, score_ms = job[known], code[known], score_ms[known]
        np.minimum.at(self.decider, job, code)
        deciding = self.decider[job] == code
        self.score_ms[job[deciding]] = score_ms[deciding]

    def drop_ghosts(self, seen: Sequence[set[str]]) -> None:
        """Forgets ids without a record that have one after all: per queue the ids that whole messages brought."""
        if not self.ghosts.num_rows or not any(seen):
            return
        queues, members = self.ghosts.column("queue").to_pylist(), self.ghosts.column("member").to_pylist()
        keep = [from_bytes(id) not in seen[queue] for queue, id in zip(queues, members, strict=True)]
        self.ghosts = self.ghosts.filter(pa.array(keep)).combine_chunks()

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
        is_lease = code == self.lease_code[queue]
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
            "decides_state": pa.array(code < NOWHERE),
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
            "job_id_bytes": exact.take(at),
            "valid_until": due_at.take(at),
            "valid": pa.nulls(len(until), pa.bool_()) if site.as_of_ms is None else pa.array(until > site.as_of_ms),
            "key": key.take(at),
        }
        signs = np.where((until != NO_TIME) & (code[is_lease] == _CODE["lease"]), until - _LEASE_MS, NO_TIME)
        np.maximum.at(site.facts.last_sign, queue[is_lease], signs)
        np.maximum.at(site.facts.last_activity, queue[is_lease], signs)
        yield "workers", pa.table(leases)


_GHOST = pa.schema([("queue", pa.int32()), ("member", pa.binary()), ("decider", pa.int8()), ("score_ms", pa.int64())])


def _first_of_each(ghosts: list[pa.Table]) -> pa.Table:
    """One row per id: the structure that acts first."""
    if not ghosts:
        return _GHOST.empty_table()
    order = [("queue", "ascending"), ("member", "ascending"), ("decider", "ascending")]
    table = pa.concat_tables(ghosts).sort_by(order)
    first = table.group_by(["queue", "member"], use_threads=False).aggregate(
        [("decider", "first"), ("score_ms", "first")]
    )
    renamed = first.select(["queue", "member", "decider_first", "score_ms_first"]).rename_columns(_GHOST.names)
    return renamed.cast(_GHOST).combine_chunks()
