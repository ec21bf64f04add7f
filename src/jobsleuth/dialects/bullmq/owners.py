"""Whose key it is where one queue's base begins with another's (``p:a`` and ``p:a:b``).

Queue names with a colon were legal before 5.12.12, and ids with colons are still: ``p:a:b:c`` is job ``c`` of one queue
or job ``b:c`` of the other. What decides, in this order: which queue lists the id; which one the job's own hash names
(`opts.jobId`, `rjk`); which one a child's `parent` names; else the longest base, and the queue's notes say so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from jobsleuth.dialects.bullmq.grammar import STRUCTURES, SUB_KEYS
from jobsleuth.dialects.bullmq.keytable import KeyTable, chunked, numbers
from jobsleuth.keyspace import Claims, Keyspace, Projected, Rows

pc: Any = pa.compute

_NAMED_BY_HASH = (
    Projected("job_id", "opts", "json_text", path="jobId"),
    Projected("schedule", "rjk", "text"),
    Projected("parent_queue", "parent", "json_text", path="queueKey"),
    Projected("parent_id", "parent", "json_text", path="id"),
)


def settle_nested(keyspace: Keyspace, table: KeyTable, claims: Claims) -> tuple[Rows, list[tuple[int, str]]]:
    """Gives keys under a nested base to the outer queue where the evidence says so.

    Returns:
        the rows whose queue changed (their role is stale), and notes as (queue, sentence).
    """
    outer = _outer_queues(claims)
    if not (outer >= 0).any():
        return np.empty(0, np.int64), []
    return _Nesting(keyspace, table, claims, outer).settle()


def _outer_queues(claims: Claims) -> npt.NDArray[np.int32]:
    """Per queue the queue with the longest base that its own begins with, -1 for none."""
    by_base = {(q.db, q.base): n for n, q in enumerate(claims.queues)}
    outer = np.full(len(claims.queues), -1, np.int32)
    for number, queue in enumerate(claims.queues):
        cut = queue.base.rfind(b":")
        while cut >= 0 and outer[number] < 0:
            outer[number] = by_base.get((queue.db, queue.base[:cut]), -1)
            cut = queue.base.rfind(b":", 0, cut)
    return outer


class _Nesting:
    def __init__(self, keyspace: Keyspace, table: KeyTable, claims: Claims, outer: npt.NDArray[np.int32]) -> None:
        self.keyspace = keyspace
        self.table = table
        self.claims = claims
        self.outer = outer
        self.prefixes = [(q.db, q.base + b":") for q in claims.queues]
        inner = outer >= 0
        self.family = inner.copy()
        self.family[outer[inner]] = True
        in_family = self.family[claims.queue] & (claims.queue >= 0)
        self.family_rows = np.flatnonzero(in_family)
        self.rows = np.flatnonzero((claims.queue >= 0) & inner[claims.queue])
        self.original = claims.queue[self.rows].copy()
        self.lengths = np.array([len(q.base) for q in claims.queues], np.int64)
        self.doubtful: dict[int, int] = {}

    def settle(self) -> tuple[Rows, list[tuple[int, str]]]:
        named = self._listed()
        self._give(named)
        open_rows = self._open(named)
        if len(open_rows):
            by_hash = self._named_by_hash(open_rows)
            self._give(by_hash)
            open_rows = self._without(open_rows, by_hash)
        if len(open_rows):
            by_child = self._named_by_children()
            self._give(by_child)
            open_rows = self._without(open_rows, by_child)
        self._doubt(open_rows)
        self._follow_jobs()
        moved = self.rows[self.claims.queue[self.rows] != self.original]
        return moved, self._notes()

    def _pairs(self, found: Rows, queue: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """(row, queue that names it) of the rows that are in question, once each."""
        keep = found >= 0
        at = np.searchsorted(self.rows, found)
        keep &= at < len(self.rows)
        keep[keep] = self.rows[at[keep]] == found[keep]
        return np.unique(np.stack([found[keep], queue[keep].astype(np.int64)], axis=1), axis=0)

    def _listed(self) -> npt.NDArray[np.int64]:
        """Rows that structures name."""
        parts = [np.empty((0, 2), np.int64)]
        roles = self.claims.role
        structures = self._of_roles(*(s for s in STRUCTURES if s != "marker"))
        repeat = self.claims.role_code("repeat")
        for batch in self.keyspace.elements(structures):
            row = numbers(batch.column("row"), np.int64)
            queue = self.claims.queue[row]
            member = chunked(batch.column("member"))
            parts.append(self._pairs(self.keyspace.lookup(self.prefixes, queue, member), queue))
            scheduled = np.flatnonzero(roles[row] == repeat)
            if len(scheduled):
                heads = [(db, base + b"repeat:") for db, base in self.prefixes]
                name = member.take(pa.array(scheduled))
                parts.append(self._pairs(self.keyspace.lookup(heads, queue[scheduled], name), queue[scheduled]))
                millis = pc.cast(pc.floor(batch.column("score").take(pa.array(scheduled))), pa.int64(), safe=False)
                run = pc.binary_join_element_wise(name, pc.cast(pc.cast(millis, pa.string()), pa.binary()), b":")
                parts.append(self._pairs(self.keyspace.lookup(heads, queue[scheduled], run), queue[scheduled]))
        for batch in self.keyspace.strings(self._of_roles("dedup")):
            queue = self.claims.queue[numbers(batch.column("row"), np.int64)]
            found = self.keyspace.lookup(self.prefixes, queue, chunked(batch.column("value")))
            parts.append(self._pairs(found, queue))
        return np.unique(np.concatenate(parts), axis=0)

    def _of_roles(self, *names: str) -> Rows:
        rows = self.family_rows
        codes = [self.claims.role_code(name) for name in names]
        return rows[np.isin(self.claims.role[rows], codes) & self.table.live[rows]]

    def _give(self, pairs: npt.NDArray[np.int64]) -> None:
        """Each named row to the queue that names it; the longest base where several do."""
        if not len(pairs):
            return
        depth = self.lengths[pairs[:, 1]]
        order = np.lexsort((depth, pairs[:, 0]))
        rows, queues = pairs[order, 0], pairs[order, 1]
        last = np.append(rows[1:] != rows[:-1], True)
        twice = np.flatnonzero(~last)
        for queue in self.claims.queue[rows[twice]].tolist():
            self.doubtful[queue] = self.doubtful.get(queue, 0) + 1
        self.claims.queue[rows[last]] = queues[last]

    def _open(self, named: npt.NDArray[np.int64]) -> Rows:
        """Job hashes in question that nothing names yet."""
        rows = self.rows
        rows = rows[(self.claims.role[rows] == self.claims.role_code("job")) & self.table.live[rows]]
        return self._without(rows, named)

    @staticmethod
    def _without(rows: Rows, named: npt.NDArray[np.int64]) -> Rows:
        return rows[~np.isin(rows, named[:, 0])]

    def _named_by_hash(self, rows: Rows) -> npt.NDArray[np.int64]:
        parts = [np.empty((0, 2), np.int64)]
        for batch in self.keyspace.records(rows, _NAMED_BY_HASH, rest=False):
            row = numbers(batch.column("row"), np.int64)
            job_id = batch.column("job_id").cast(pa.binary())
            run = pc.binary_join_element_wise(b"repeat", batch.column("schedule").cast(pa.binary()), b"", b":")
            names = self.table.names_of(row)
            queue = self.claims.queue[row]
            while (queue >= 0).any():
                heads = np.where(queue >= 0, self.lengths[queue] + 1, 0)
                rest = self.keyspace.cut(names, heads, np.zeros(len(row), np.int64)).combine_chunks()
                same = numbers(pc.equal(rest, job_id), np.bool_) | _starts(rest, run)
                same &= queue >= 0
                parts.append(self._pairs(row[same], queue[same]))
                queue = np.where(queue >= 0, self.outer[queue], -1).astype(np.int32)
        return np.unique(np.concatenate(parts), axis=0)

    def _named_by_children(self) -> npt.NDArray[np.int64]:
        parts = [np.empty((0, 2), np.int64)]
        by_base = {(q.db, q.base): n for n, q in enumerate(self.claims.queues) if self.family[n]}
        jobs = np.flatnonzero((self.claims.role == self.claims.role_code("job")) & self.table.live)
        for batch in self.keyspace.records(jobs, _NAMED_BY_HASH, rest=False):
            some = np.flatnonzero(numbers(batch.column("parent_queue").is_valid(), np.bool_))
            if not len(some):
                continue
            row = numbers(batch.column("row"), np.int64)[some]
            base = batch.column("parent_queue").take(pa.array(some)).cast(pa.binary()).dictionary_encode()
            parent = batch.column("parent_id").take(pa.array(some)).cast(pa.binary())
            known = np.full((len(base.dictionary), 1), -1, np.int32)
            for db in np.unique(self.table.db[row]).tolist():
                known[:, 0] = [by_base.get((db, name), -1) for name in base.dictionary.to_pylist()]
                queue = np.where(self.table.db[row] == db, known[numbers(base.indices, np.int64), 0], -1)
                queue = queue.astype(np.int32)
                parts.append(self._pairs(self.keyspace.lookup(self.prefixes, queue, chunked(parent)), queue))
        return np.unique(np.concatenate(parts), axis=0)

    def _doubt(self, rows: Rows) -> None:
        queues, counts = np.unique(self.claims.queue[rows], return_counts=True)
        for queue, count in zip(queues.tolist(), counts.tolist(), strict=True):
            self.doubtful[queue] = self.doubtful.get(queue, 0) + count

    def _follow_jobs(self) -> None:
        """Locks, logs and the like go where their job went."""
        for sub in SUB_KEYS:
            rows = self.rows[self.claims.role[self.rows] == self.claims.role_code(sub.role)]
            if not len(rows):
                continue
            names = self.table.names_of(rows)
            job_key = self.keyspace.cut(
                names, np.zeros(len(rows), np.int64), np.full(len(rows), len(sub.ending), np.int64)
            )
            whole = [(q.db, b"") for q in self.claims.queues]
            job = self.keyspace.lookup(whole, self.claims.queue[rows], job_key)
            known = job >= 0
            known[known] = self.claims.queue[job[known]] >= 0
            self.claims.queue[rows[known]] = self.claims.queue[job[known]]

    def _notes(self) -> list[tuple[int, str]]:
        notes = []
        for queue, count in sorted(self.doubtful.items()):
            other = self.claims.queues[self.outer[queue]].base.decode("utf-8", "backslashreplace")
            keys = "1 key" if count == 1 else f"{count} keys"
            notes.append((queue, f"{keys} would fit the queue at {other} as well"))
        return notes


def _starts(values: pa.Array, heads: pa.Array) -> npt.NDArray[np.bool_]:
    """Per value, whether it starts with the head at the same place (a null head: no)."""
    out = np.zeros(len(values), np.bool_)
    some = np.flatnonzero(numbers(heads.is_valid(), np.bool_))
    pairs = zip(values.take(pa.array(some)).to_pylist(), heads.take(pa.array(some)).to_pylist(), strict=True)
    out[some] = [value.startswith(head) for value, head in pairs]
    return out
