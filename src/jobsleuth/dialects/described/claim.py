"""Which key plays which role, by the patterns of the layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from jobsleuth.dialects.description import FIELD, JSON, Layout, Pattern
from jobsleuth.dialects.rows import is_type, take
from jobsleuth.errors import UsageError
from jobsleuth.keyspace import Claims, Keyspace, QueueRef, Rows
from jobsleuth.safetext import from_bytes, terminal

pc: Any = pa.compute

RECORD, RECORDS, LOCK = "job", "jobs", "lock"
"""Roles of keys: the record of one job, a hash that holds many, a lock."""


@dataclass(frozen=True)
class Match:
    """Keys that one pattern found: rows ascending, and the parts of each as bytes (None: the pattern has no such)."""

    rows: Rows
    parts: dict[str, list[bytes]]


@dataclass
class DescribedClaims(Claims):
    """Claims, and what the patterns found.

    Attributes:
        layouts: the layouts in use.
        layout_of: per queue, the number of its layout.
        structures: per layout and structure (numbers), what it found.
        records: per layout and pattern of its records (numbers), what it found.
        locks: per layout, its locks.
        twice: key row → patterns that fit it besides the one that took it.
        rest: layout (number) and database → the queue of records that neither a structure nor their key gives one: the
            only queue there is, else one that is called as the layout.
        made_up: queues that are there for those only.
    """

    layouts: Sequence[Layout] = ()
    layout_of: list[int] = field(default_factory=list)
    structures: dict[tuple[int, int], Match] = field(default_factory=dict)
    records: dict[tuple[int, int], Match] = field(default_factory=dict)
    locks: dict[int, Match] = field(default_factory=dict)
    twice: dict[int, list[Pattern]] = field(default_factory=dict)
    rest: dict[tuple[int, int], int] = field(default_factory=dict)
    made_up: set[int] = field(default_factory=set)


class Finder:
    """Finds keys by pattern, each key once; a type's names are taken from the table only where a pattern asks."""

    def __init__(self, keyspace: Keyspace, free: npt.NDArray[np.bool_]) -> None:
        self._keyspace = keyspace
        self._free = free
        self._by_type: dict[str, tuple[Rows, pa.ChunkedArray]] = {}
        self.taken: npt.NDArray[np.bool_] = np.zeros(len(free), np.bool_)
        self.twice: dict[int, list[Pattern]] = {}

    def fitting(self, pattern: Pattern, type_: str) -> tuple[Rows, pa.ChunkedArray]:
        """Rows and names of all keys of the type that fit the pattern."""
        if type_ not in self._by_type:
            rows = np.flatnonzero(is_type(self._keyspace, type_) & self._free).astype(np.int64)
            self._by_type[type_] = (rows, take(self._keyspace.keys.column("key"), rows))
        rows, names = self._by_type[type_]
        near = np.flatnonzero(pc.starts_with(names, pattern=pattern.head).to_numpy())
        some = take(names, near)
        fits = np.flatnonzero(pc.match_substring_regex(some, pattern=pattern.regex).to_numpy())
        return rows[near[fits]], take(some, fits)

    def find(self, pattern: Pattern, type_: str) -> Match:
        """Keys of the type that fit the pattern and that no earlier pattern took."""
        hits, names = self.fitting(pattern, type_)
        for row in hits[self.taken[hits]].tolist():
            self.twice.setdefault(row, []).append(pattern)
        fresh = ~self.taken[hits]
        self.taken[hits] = True
        chosen = take(names, np.flatnonzero(fresh))
        parts: dict[str, list[bytes]] = {name: [] for name in pattern.parts}
        if pattern.parts and len(chosen):
            found = pc.extract_regex(chosen, pattern=pattern.regex)
            parts = {name: pc.struct_field(found, name).to_pylist() for name in pattern.parts}
        return Match(hits[fresh], parts)


def claim(dialect: str, keyspace: Keyspace, free: npt.NDArray[np.bool_], layouts: Sequence[Layout]) -> DescribedClaims:
    """Claims of all layouts, the first one first. Structures make a queue, and records where there is
    none; locks alone make none.

    Raises:
        UsageError: two layouts give queues of one database the same namespace and name.
    """
    empty = Claims.empty(dialect, len(free))
    claims = DescribedClaims(dialect, [], [], empty.queue, empty.role, layouts=layouts)
    finder = Finder(keyspace, free & keyspace.live)
    claims.twice = finder.twice
    db = keyspace.keys.column("db")
    known: dict[tuple[int, int, bytes, bytes], int] = {}
    owner: dict[tuple[int, bytes, bytes], int] = {}

    def named(layout: int, row: int, parts: dict[str, list[bytes]], nth: int) -> tuple[int, int, bytes, bytes]:
        form = layouts[layout]
        name = parts["queue"][nth] if "queue" in parts else (form.queue or form.name).encode()
        namespace = parts["namespace"][nth] if "namespace" in parts else form.namespace.encode()
        if form.place is not None:
            namespace, name = form.place(namespace, name)
        return layout, db[row].as_py(), namespace, name

    def is_free(layout: int, row: int, parts: dict[str, list[bytes]], nth: int) -> bool:
        return owner.get(named(layout, row, parts, nth)[1:], layout) == layout

    def queue(layout: int, row: int, parts: dict[str, list[bytes]], nth: int, make: bool) -> int:
        place = named(layout, row, parts, nth)
        _, _, namespace, name = place
        if place not in known and make:
            _require_own_name(dialect, layouts, layout, owner.setdefault(place[1:], layout), namespace, name)
            known[place] = len(claims.queues)
            base = namespace + b":" + name if namespace else name
            claims.queues.append(QueueRef(place[1], namespace, name, base))
            claims.layout_of.append(layout)
        return known.get(place, -1)

    def place(layout: int, match: Match, role: str, make: bool) -> None:
        claims.role[match.rows] = claims.role_code(role)
        for nth, row in enumerate(match.rows.tolist()):
            claims.queue[row] = queue(layout, row, match.parts, nth, make)

    def find(number: int, form: Layout, late: bool) -> None:
        for nth, structure in enumerate(form.structures):
            if structure.late == late:
                match = finder.find(structure.pattern, structure.type)
                claims.structures[number, nth] = match
                place(number, match, structure.name, make=True)

    for number, form in enumerate(layouts):
        find(number, form, late=False)
        if form.lock is not None:
            claims.locks[number] = finder.find(form.lock, "string")
            place(number, claims.locks[number], LOCK, make=False)
        for nth, key in enumerate(form.record_keys):
            match = claims.records[number, nth] = finder.find(key, "string" if form.record == JSON else "hash")
            place(number, match, RECORDS if form.record == FIELD else RECORD, make="queue" in key.parts)
    for number, form in enumerate(layouts):
        find(number, form, late=True)
    for (number, _), match in claims.records.items():
        queues: dict[int, list[int]] = {}
        for n, ref in enumerate(claims.queues):
            if claims.layout_of[n] == number:
                queues.setdefault(ref.db, []).append(n)
        for nth, row in enumerate(match.rows.tolist()):
            where = db[row].as_py()
            if (number, where) in claims.rest:
                continue
            # Redis keeps no empty list: where all work is taken, records are all there is of the queue.
            some = queues.get(where, [])
            if len(some) != 1 and is_free(number, row, match.parts, nth):
                before = len(claims.queues)
                claims.rest[number, where] = queue(number, row, match.parts, nth, True)
                claims.made_up |= set(range(before, len(claims.queues)))
            elif some:
                claims.rest[number, where] = some[0]
    return claims


def _require_own_name(
    dialect: str, layouts: Sequence[Layout], layout: int, first: int, namespace: bytes, name: bytes
) -> None:
    if layout == first:
        return
    form, other = layouts[layout], layouts[first]
    called = f"{terminal(from_bytes(name), 60)} in namespace {terminal(from_bytes(namespace), 60)}"
    raise UsageError(
        f"line {form.line}: its queue {called} is called as one of the layout at line {other.line}",
        file=form.file,
        hint="give one of them a namespace of its own" + (", in a [[layout]]" if dialect == "lists" else ""),
    )
