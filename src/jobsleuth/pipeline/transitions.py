"""Moves of jobs: what an append-only file tells, in the words of the dialects.

The core tells that a member entered or left a key's structure, or that a key came or went. Here the keys get their
roles by claims over every key that ever was (a job that vanished has no key left), and what one command or transaction
does to a job becomes one step: out of one structure, into another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jobsleuth import safetext
from jobsleuth.dialects import Dialect, Options, Story
from jobsleuth.keyspace import Claims
from jobsleuth.sources import History

_Ints = npt.NDArray[np.int64]
_ENTERS, _LEAVES = 0, 1
_WAYS = {"added": _ENTERS, "created": _ENTERS, "removed": _LEAVES, "deleted": _LEAVES}


def transitions(history: History, dialects: Sequence[Dialect], options: Options) -> Iterator[pa.Table]:
    """Rows of the table `transitions`, in the order of the commands, a bounded piece at a time."""
    keyspace = history.keyspace
    claims: list[tuple[Claims, Story]] = []
    free = np.ones(keyspace.keys.num_rows, np.bool_)
    for dialect in dialects:
        made = dialect.claim(keyspace, free, options)
        free &= made.role < 0
        story = getattr(dialect, "story", None)
        if story is not None and made.queues:
            claims.append((made, story))
    if not claims:
        return
    tellers = [_Teller(history, made, story) for made, story in claims]
    held: list[pa.RecordBatch] = []
    for batch in history.moves():
        # Steps of one transaction must come together.
        unit = _units(batch)
        last = int(np.searchsorted(unit, unit[-1])) if len(unit) else 0
        if last == 0:
            held.append(batch)
            continue
        yield from _told(tellers, [*held, batch.slice(0, last)])
        held = [batch.slice(last)]
    yield from _told(tellers, held)


def _units(moves: pa.RecordBatch | pa.Table) -> _Ints:
    """A number, ascending, for each command or transaction."""
    step = moves.column("step").to_numpy()
    transaction = moves.column("transaction").to_numpy()
    fresh = np.ones(len(step), np.bool_)
    same = (transaction[1:] == transaction[:-1]) & (transaction[1:] > 0)
    fresh[1:] = (step[1:] != step[:-1]) & ~same
    return np.cumsum(fresh).astype(np.int64)


def _told(tellers: Sequence[_Teller], batches: list[pa.RecordBatch]) -> Iterator[pa.Table]:
    if not batches:
        return
    moves = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    found = [rows for teller in tellers if (rows := teller.tell(moves)) is not None]
    if found:
        yield pa.concat_tables(found).sort_by("step")


@dataclass(frozen=True)
class _Steps:
    """Changes that concern jobs: for each, the row in the moves, its queue, structure and way."""

    row: _Ints
    queue: _Ints
    structure: _Ints
    leaves: npt.NDArray[np.bool_]
    job: pa.Array


class _Teller:
    """One dialect's reading of the moves."""

    def __init__(self, history: History, claims: Claims, story: Story) -> None:
        self._history = history
        self._claims = claims
        self._story = story
        self._names = list(dict.fromkeys([*story.structures.values(), *(r.name for r in story.records.values())]))
        self._moving = np.array([name in story.moving for name in self._names])
        self._structure_of = np.full(len(claims.roles) + 1, -1, np.int64)
        self._record_of = np.full(len(claims.roles) + 1, -1, np.int64)
        self._records = list(story.records.values())
        for role, name in story.structures.items():
            if role in claims.roles:
                self._structure_of[claims.roles.index(role)] = self._names.index(name)
        for number, (role, _) in enumerate(story.records.items()):
            if role in claims.roles:
                self._record_of[claims.roles.index(role)] = number

    def tell(self, moves: pa.Table) -> pa.Table | None:
        """The moves of this dialect's jobs."""
        keyspace, claims = self._history.keyspace, self._claims
        dbs, code = np.unique(moves.column("db").to_numpy(), return_inverse=True)
        prefixes = [(int(db), b"") for db in dbs]
        row = keyspace.lookup(prefixes, code.reshape(-1).astype(np.int32), moves.column("key"))
        known = (row >= 0) & (claims.queue[row] >= 0)
        role = np.where(known, claims.role[row], -1)
        queue = np.where(known, claims.queue[row], -1).astype(np.int64)
        of_key = moves.column("member").is_null().to_numpy()
        structure = np.where(of_key, -1, self._structure_of[role])
        record = np.where(of_key, self._record_of[role], -1)
        steps = [s for s in (self._of_members(moves, queue, structure), self._of_records(moves, queue, record)) if s]
        if not steps:
            return None
        return self._rows(moves, _joined(steps))

    def _of_members(self, moves: pa.Table, queue: _Ints, structure: _Ints) -> _Steps | None:
        rows = np.flatnonzero(structure >= 0)
        if not len(rows):
            return None
        job = moves.column("member").take(pa.array(rows)).combine_chunks()
        real = ~self._story.is_marker(job)
        rows, job = rows[real], job.filter(pa.array(real))
        return _Steps(rows, queue[rows], structure[rows], _leaves(moves, rows), job) if len(rows) else None

    def _of_records(self, moves: pa.Table, queue: _Ints, record: _Ints) -> _Steps | None:
        rows = np.flatnonzero(record >= 0)
        if not len(rows):
            return None
        base = np.array([len(q.base) for q in self._claims.queues], np.int64)
        infix = np.array([len(r.infix) for r in self._records], np.int64)
        suffix = np.array([len(r.suffix) for r in self._records], np.int64)
        names = np.array([self._names.index(r.name) for r in self._records], np.int64)
        kind = record[rows]
        keys = moves.column("key").take(pa.array(rows))
        job = self._history.keyspace.cut(keys, base[queue[rows]] + infix[kind], suffix[kind]).combine_chunks()
        return _Steps(rows, queue[rows], names[kind], _leaves(moves, rows), job)

    def _rows(self, moves: pa.Table, steps: _Steps) -> pa.Table:
        """Pairs what a job left with what it entered in the same command or transaction."""
        unit = _units(moves)[steps.row]
        jobs = steps.job.dictionary_encode().indices.to_numpy().astype(np.int64)
        together = np.stack([unit, steps.queue, jobs], axis=1)
        _, group = np.unique(together, axis=0, return_inverse=True)
        group = group.reshape(-1).astype(np.int64)
        moving = self._moving[steps.structure]
        rank = _rank(group, steps.leaves, moving)
        # What is no place of a job (its record, a lock) is a step of its own.
        alone = np.arange(len(group), dtype=np.int64)
        first = np.where(moving, group, -1 - alone)
        pairs = np.stack([first, np.where(moving, rank, 0)], axis=1)
        _, pair = np.unique(pairs, axis=0, return_inverse=True)
        pair = pair.reshape(-1)
        count = int(pair.max()) + 1
        left, entered = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
        left[pair[steps.leaves]] = np.flatnonzero(steps.leaves)
        entered[pair[~steps.leaves]] = np.flatnonzero(~steps.leaves)
        begin = np.where(left < 0, entered, np.where(entered < 0, left, np.minimum(left, entered)))
        order = np.argsort(steps.row[begin], kind="stable")
        return self._table(moves, steps, left[order], entered[order], begin[order])

    def _table(self, moves: pa.Table, steps: _Steps, left: _Ints, entered: _Ints, begin: _Ints) -> pa.Table:
        queues = self._claims.queues
        row = pa.array(steps.row[begin])
        text, exact = self._history.keyspace.to_text(pa.chunked_array([steps.job.take(pa.array(begin))]))
        of_queue = pa.array(steps.queue[begin].astype(np.int32))
        part = moves.column("part").take(row).combine_chunks()
        parts = pa.array([safetext.from_bytes(n.encode("utf-8", "surrogateescape")) for n in self._history.parts])
        return pa.table(
            {
                "dialect": pa.repeat(pa.scalar(self._claims.dialect), len(begin)),
                "namespace": _labels(of_queue, [q.namespace for q in queues]),
                "queue": _labels(of_queue, [q.queue for q in queues]),
                "job_id": text,
                "job_id_bytes": exact,
                "at": moves.column("at_ms").take(row).cast(pa.timestamp("ms", tz="UTC")),
                "from_structure": self._structures(steps, left),
                "to_structure": self._structures(steps, entered),
                "command": self._commands(moves, steps, left, entered),
                "file": parts.take(part),
                "file_offset": moves.column("offset").take(row),
                "step": moves.column("step").take(row),
                "transaction_number": pa.array(_without_zero(moves.column("transaction").take(row).to_numpy())),
                "db": moves.column("db").take(row),
            }
        )

    def _structures(self, steps: _Steps, place: _Ints) -> pa.Array:
        code = np.where(place >= 0, steps.structure[place], -1).astype(np.int32)
        return pa.DictionaryArray.from_arrays(pa.array(code, mask=code < 0), pa.array(self._names)).cast(pa.string())

    def _commands(self, moves: pa.Table, steps: _Steps, left: _Ints, entered: _Ints) -> pa.Array:
        """The command, or the two in their order."""
        words = moves.column("command").cast(pa.string()).to_numpy(zero_copy_only=False)
        told = []
        for one, other in zip(left.tolist(), entered.tolist(), strict=True):
            rows = sorted(int(steps.row[at]) for at in (one, other) if at >= 0)
            told.append(", ".join(dict.fromkeys(words[r] for r in rows)))
        return pa.array(told, pa.string())


def _leaves(moves: pa.Table, rows: _Ints) -> npt.NDArray[np.bool_]:
    words = moves.column("change").combine_chunks()
    way = np.array([_WAYS[word] for word in words.dictionary.to_pylist()])
    return np.asarray(way[words.indices.to_numpy()][rows] == _LEAVES)


def _joined(steps: list[_Steps]) -> _Steps:
    """All steps, in the order of the moves."""
    row = np.concatenate([s.row for s in steps])
    order = np.argsort(row, kind="stable")
    return _Steps(
        row[order],
        np.concatenate([s.queue for s in steps])[order],
        np.concatenate([s.structure for s in steps])[order],
        np.concatenate([s.leaves for s in steps])[order],
        pa.concat_arrays([s.job for s in steps]).take(pa.array(order)),
    )


def _rank(group: _Ints, leaves: npt.NDArray[np.bool_], moving: npt.NDArray[np.bool_]) -> _Ints:
    """How many of the same way a job has made before in the same unit."""
    key = group * 4 + leaves * 2 + moving
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    rank = np.empty(len(key), np.int64)
    sizes = np.diff(np.r_[begins, len(key)])
    rank[order] = np.arange(len(key)) - np.repeat(begins, sizes)
    return rank


def _labels(code: pa.Array, names: Sequence[bytes]) -> pa.Array:
    return pa.array([safetext.from_bytes(name) for name in names], pa.string()).take(code)


def _without_zero(values: _Ints) -> list[int | None]:
    return [int(value) or None for value in values]
