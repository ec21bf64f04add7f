"""Lists, zsets and sets that name jobs: membership rows, and for each id the structures it is in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from jobsleuth.dialects.bullmq.grammar import DECIDING, STRUCTURES
from jobsleuth.dialects.bullmq.keytable import numbers
from jobsleuth.dialects.bullmq.reading import MS, Queues, Reading, times
from jobsleuth.dialects.bullmq.states import bit, decode_scores
from jobsleuth.dialects.bullmq.tally import Tally
from jobsleuth.keyspace import Projected, Rows

pc: Any = pa.compute

_KINDS = ("list", "zset", "set")
_MARKER = STRUCTURES.index("marker")
_REPEAT = STRUCTURES.index("repeat")
_GROUP = STRUCTURES.index("group")
_DELAYED = STRUCTURES.index("delayed")
_TIMESTAMP = (Projected("timestamp", "timestamp", "present"),)
_PIECE = 1 << 16


class Memberships:
    """Where every id is.

    Attributes:
        mask: per key row, the structures that name this job hash (a bit each, see :func:`.states.bit`).
    """

    def __init__(self, reading: Reading, tally: Tally) -> None:
        self._reading = reading
        self._tally = tally
        self.mask: npt.NDArray[np.uint16] = np.zeros(len(reading.table), np.uint16)
        self._due_rows: list[Rows] = []
        self._due_values: list[npt.NDArray[np.int64]] = []
        self._ghosts = _Ghosts()
        self._full: dict[int, bool] = {}
        self._structure_of_role = np.full(len(reading.claims.roles), -1, np.int8)
        for code, name in enumerate(STRUCTURES):
            self._structure_of_role[reading.claims.role_code(name)] = code

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """Membership rows, one per element, in file order."""
        reading = self._reading
        for batch in reading.keyspace.elements(reading.rows_of(*STRUCTURES)):
            if batch.num_rows:
                yield "membership", self._rows(batch)
        self._seal()

    def _rows(self, batch: pa.RecordBatch) -> pa.Table:
        reading = self._reading
        row = numbers(batch.column("row"), np.int64)
        queue = reading.claims.queue[row]
        member = batch.column("member")
        score_known = numbers(batch.column("score").is_valid(), np.bool_)
        score = np.where(score_known, numbers(batch.column("score"), np.float64), np.nan)
        structure = self._structure_of_role[reading.claims.role[row]].copy()
        kind = np.select([reading.table.is_type(k, row) for k in _KINDS], range(len(_KINDS)), 0).astype(np.int32)

        job = reading.jobs(queue, member)
        self._set_markers_apart(structure, kind, queue, member, job)
        due, due_known, sequence, sequence_known = decode_scores(structure, score)
        self._note(structure, queue, member, job, due, due_known)

        job_id, exact = reading.text(member)
        position = numbers(batch.column("position"), np.int64)
        return pa.table(
            {
                **reading.columns(queue),
                "structure": pa.DictionaryArray.from_arrays(pa.array(structure.astype(np.int32)), pa.array(STRUCTURES)),
                "kind": pa.DictionaryArray.from_arrays(pa.array(kind), pa.array(_KINDS)),
                "position": pa.array(position, mask=kind == _KINDS.index("set")),
                "job_id": job_id,
                "job_id_bytes": exact,
                "score": batch.column("score"),
                "due_at": times(due, due_known),
                "sequence": pa.array(sequence, mask=~sequence_known),
                "decides_state": pa.array(structure < DECIDING),
                "group": self._groups(structure, row),
                **reading.key_columns(row),
            }
        )

    def _set_markers_apart(
        self, structure: npt.NDArray[np.int8], kind: npt.NDArray[np.int32], queue: Queues, member: pa.Array, job: Rows
    ) -> None:
        """Entries `0` and `0:<ms>` of 2.x to 4.x lists (and of `stalled`) are wake-ups unless a whole job is so named.

        Bull, BullMQ 1.x and 2.x accept such ids for real jobs.
        """
        places = [STRUCTURES.index(s) for s in ("wait", "paused", "active", "stalled")]
        plain = numbers(pc.equal(member, pa.scalar(b"0", member.type)), np.bool_)
        timed = numbers(pc.starts_with(member, pattern="0:"), np.bool_)
        suspects = np.flatnonzero((plain | timed) & np.isin(structure, places))
        if len(suspects):
            suspects = suspects[~self._is_full(job[suspects])]
            structure[suspects] = _MARKER
            self._tally.sign("old marker", queue[suspects[plain[suspects]]])
            self._tally.sign("old timed marker", queue[suspects[timed[suspects]]])
        current = (structure == _MARKER) & (kind == _KINDS.index("zset"))
        if current.any():
            self._tally.sign("marker", queue[current])
            one = numbers(pc.equal(member, pa.scalar(b"1", member.type)), np.bool_)
            self._tally.sign("marker 1", queue[current & one])

    def _is_full(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Per row of a job hash (-1: none), whether it has a `timestamp`."""
        asked = np.array(sorted({int(r) for r in rows if r >= 0} - self._full.keys()), np.int64)
        for batch in self._reading.keyspace.records(asked, _TIMESTAMP, rest=False) if len(asked) else ():
            found = numbers(batch.column("timestamp"), np.bool_)
            self._full.update(zip(batch.column("row").to_pylist(), found.tolist(), strict=True))
        return np.array([self._full.get(int(r), False) for r in rows], np.bool_)

    def _note(
        self,
        structure: npt.NDArray[np.int8],
        queue: Queues,
        member: pa.Array,
        job: Rows,
        due: npt.NDArray[np.int64],
        due_known: npt.NDArray[np.bool_],
    ) -> None:
        """Keeps for each id that it is in the structure."""
        names_job = (structure != _MARKER) & (structure != _REPEAT)
        for code in np.unique(structure[names_job]).tolist():
            here = job[(structure == code) & (job >= 0)]
            self.mask[here] |= np.uint16(bit(STRUCTURES[code]))
        delayed = (structure == _DELAYED) & due_known
        known = np.flatnonzero(delayed & (job >= 0))
        if len(known):
            self._due_rows.append(job[known])
            self._due_values.append(due[known])
        lost = np.flatnonzero(names_job & (job < 0))
        if len(lost):
            bits = (1 << structure[lost].astype(np.uint16)).astype(np.uint16)
            self._ghosts.add(queue[lost], member.take(pa.array(lost)), bits, due[lost], delayed[lost])

    def _groups(self, structure: npt.NDArray[np.int8], row: Rows) -> pa.Array:
        """Names of the groups whose lists and zsets these are (``groups:<id>``, ``groups:<id>:p``)."""
        some = np.flatnonzero(structure == _GROUP)
        if not len(some):
            return pa.nulls(len(structure), pa.string())
        unique, back = np.unique(row[some], return_inverse=True)
        reading = self._reading
        heads = reading.lengths[reading.claims.queue[unique]] + len(b"groups:")
        tails = np.where(reading.table.is_type("zset", unique), len(b":p"), 0).astype(np.int64)
        names, _ = reading.text(reading.keyspace.cut(reading.table.names_of(unique), heads, tails))
        at = np.full(len(structure), -1, np.int64)
        at[some] = back
        return names.take(pa.array(at, mask=at < 0))

    def _seal(self) -> None:
        rows = np.concatenate([np.empty(0, np.int64), *self._due_rows])
        values = np.concatenate([np.empty(0, np.int64), *self._due_values])
        order = np.argsort(rows, kind="stable")
        self._sorted_due_rows, self._sorted_due = rows[order], values[order]
        self._due_rows, self._due_values = [], []

    def due(self, rows: Rows) -> pa.Array:
        """Due times of the job hashes that are in `delayed`, else null. After :meth:`tables`."""
        at = np.searchsorted(self._sorted_due_rows, rows)
        found = at < len(self._sorted_due_rows)
        found[found] = self._sorted_due_rows[at[found]] == rows[found]
        values = np.zeros(len(rows), np.int64)
        values[found] = self._sorted_due[at[found]]
        return times(values, found)

    def ghosts(self) -> Iterator[Ghosts]:
        """Ids that structures name and that have no job hash, by queue, in pieces. After :meth:`tables`."""
        return self._ghosts.pieces()


class Ghosts:
    """Ids without a record: `queue`, `member` (bytes), `mask` as in :class:`Memberships`, `due` (null: not delayed)."""

    def __init__(self, queue: Queues, member: pa.Array, mask: npt.NDArray[np.uint16], due: pa.Array) -> None:
        self.queue = queue
        self.member = member
        self.mask = mask
        self.due = due


class _Ghosts:
    def __init__(self) -> None:
        self._queue: list[Queues] = []
        self._member: list[pa.Array] = []
        self._bits: list[npt.NDArray[np.uint16]] = []
        self._due: list[npt.NDArray[np.int64]] = []
        self._due_known: list[npt.NDArray[np.bool_]] = []

    def add(
        self,
        queue: Queues,
        member: pa.Array,
        bits: npt.NDArray[np.uint16],
        due: npt.NDArray[np.int64],
        due_known: npt.NDArray[np.bool_],
    ) -> None:
        self._queue.append(queue)
        self._member.append(member)
        self._bits.append(bits)
        self._due.append(due)
        self._due_known.append(due_known)

    def pieces(self) -> Iterator[Ghosts]:
        if not self._queue:
            return
        member = pa.chunked_array(self._member).dictionary_encode().unify_dictionaries()
        words = member.chunk(0).dictionary
        code = np.concatenate([numbers(c.indices, np.int64) for c in member.chunks])
        queue = np.concatenate(self._queue).astype(np.int64)
        unique, back = np.unique(queue * len(words) + code, return_inverse=True)
        mask = np.zeros(len(unique), np.uint16)
        np.bitwise_or.at(mask, back, np.concatenate(self._bits))
        due = np.zeros(len(unique), np.int64)
        due_known = np.zeros(len(unique), np.bool_)
        delayed = np.concatenate(self._due_known)
        due[back[delayed]] = np.concatenate(self._due)[delayed]
        due_known[back[delayed]] = True
        for start in range(0, len(unique), _PIECE):
            part = slice(start, start + _PIECE)
            yield Ghosts(
                (unique[part] // len(words)).astype(np.int32),
                words.take(pa.array(unique[part] % len(words))),
                mask[part],
                pa.array(due[part], mask=~due_known[part]).cast(MS),
            )
