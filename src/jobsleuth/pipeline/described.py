"""Evidence against descriptions of layouts: which keys fit, which do not, what is in doubt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from jobsleuth.dialects import Described, Options, all_dialects
from jobsleuth.dialects.described.claim import DescribedClaims, Finder, Match
from jobsleuth.dialects.described.tables import Tables
from jobsleuth.dialects.description import FIELD, JSON, Layout, Pattern
from jobsleuth.dialects.layouts.units import require_units
from jobsleuth.dialects.rows import is_type, take
from jobsleuth.errors import UsageError
from jobsleuth.keyspace import Keyspace
from jobsleuth.safetext import from_bytes
from jobsleuth.sources import ReadOptions, open_keyspace, snapshot

pc: Any = pa.compute

_EXAMPLES = 3


@dataclass(frozen=True)
class PatternFact:
    """What one pattern found.

    Attributes:
        line: where it stands in the file.
        what: `list, waiting`, `hash, records`, …
        text: the pattern.
        keys: how many keys it took.
        examples: some of them.
        near: keys that begin like it, belong to nobody and fit no pattern.
        near_count: how many of those there are.
        other: keys that belong to nobody and fit, but are of another type, each with its type.
        other_count: how many of those there are.
    """

    line: int
    what: str
    text: str
    keys: int
    examples: tuple[str, ...]
    near: tuple[str, ...]
    near_count: int
    other: tuple[tuple[str, str], ...]
    other_count: int


@dataclass(frozen=True)
class LayoutFact:
    """One layout: its patterns, and what came of them.

    Attributes:
        states: state → jobs.
        without_record: ids that structures hold and that have no record.
        unread: (line, what is wrong) of described fields and ids that no record has.
    """

    name: str
    line: int
    patterns: tuple[PatternFact, ...]
    queues: int
    states: dict[str, int]
    without_record: int
    unread: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class LayoutTest:
    """All layouts, and keys in doubt: taken by one pattern and fitted by others (key, the one, the others), or taken by
    a library (key, library)."""

    layouts: tuple[LayoutFact, ...]
    ambiguous: tuple[tuple[str, str, str], ...]
    ambiguous_count: int
    foreign: tuple[tuple[str, str], ...]
    foreign_count: int


def explain_layouts(evidence: Path, described: Described, reading: ReadOptions) -> LayoutTest:
    """Claims the evidence's keys by the layouts, reads the jobs, and tells what came of each pattern.

    Raises:
        EvidenceError: the evidence cannot be read.
        UsageError: nothing is described, or a unit gives years outside 2000 to 2100.
    """
    if not described.layouts and not described.lists:
        hint = "write [[layout]] or [lists] in jobsleuth.toml, or give --layout FILE"
        raise UsageError("no layout is described", hint=hint)
    options = Options(payload_limit=0, layouts=described.layouts, lists=described.lists)
    with snapshot(evidence, spool=reading.spool) as source, open_keyspace(source, reading) as keyspace:
        free = np.ones(keyspace.keys.num_rows, np.bool_)
        taken_by: list[tuple[str, npt.NDArray[np.bool_]]] = []
        made: list[tuple[DescribedClaims, list[tuple[str, npt.NDArray[np.bool_]]]]] = []
        for dialect in all_dialects():
            if dialect.name == "lists" and described.lists is None:
                continue  # what names alone make a queue a description may mean, too
            claims = dialect.claim(keyspace, free, options)
            free &= claims.role < 0
            if isinstance(claims, DescribedClaims):
                made.append((claims, list(taken_by)))
            taken_by.append((dialect.title, claims.role >= 0))
        show = _Names(keyspace)
        free &= keyspace.live
        facts = [fact for claims, _ in made for fact in _facts(keyspace, claims, show, free, options)]
        twice = [one for claims, _ in made for one in _twice(claims, show)]
        foreign = [one for claims, taken in made for one in _foreign(keyspace, show, claims.layouts, taken)]
        return LayoutTest(tuple(facts), tuple(twice[:_EXAMPLES]), len(twice), tuple(foreign[:_EXAMPLES]), len(foreign))


def _facts(
    keyspace: Keyspace, claims: DescribedClaims, show: _Names, free: npt.NDArray[np.bool_], options: Options
) -> Iterator[LayoutFact]:
    tables = Tables(keyspace, claims, options)
    states: list[dict[str, int]] = [{} for _ in claims.layouts]
    lost = [0] * len(claims.layouts)
    number = {(q.db, from_bytes(q.namespace), from_bytes(q.queue)): n for n, q in enumerate(claims.queues)}
    queues = [0] * len(claims.layouts)
    for table, rows in tables.rows() if claims.queues else ():
        if table == "queues":
            for row in rows.select(["db", "namespace", "queue"]).to_pylist():
                queues[claims.layout_of[number[row["db"], row["namespace"], row["queue"]]]] += 1
        if table != "jobs":
            continue
        for row in rows.select(["db", "namespace", "queue", "state", "has_record"]).to_pylist():
            layout = claims.layout_of[number[row["db"], row["namespace"], row["queue"]]]
            states[layout][row["state"]] = states[layout].get(row["state"], 0) + 1
            lost[layout] += not row["has_record"]
    if claims.dialect == "layouts":
        require_units(claims.layouts, tables.tallies)
    unread = list(tables.unread())
    for nth, form in enumerate(claims.layouts):
        yield LayoutFact(
            form.name,
            form.line,
            _patterns(keyspace, claims, show, free, nth, form),
            queues[nth],
            states[nth],
            lost[nth],
            tuple((line, what) for layout, line, what, _ in unread if layout == nth),
        )


def _twice(claims: DescribedClaims, show: _Names) -> list[tuple[str, str, str]]:
    """Keys that several patterns fit: (key, the one that took it, the others). One that takes what would fit a later
    one, too, and can take no more, is an exception of it: there is no doubt."""
    taken = {
        row: pattern
        for nth, form in enumerate(claims.layouts)
        for (_, _, pattern, _), match in zip(_parts(form), _matches(claims, nth, form), strict=True)
        for row in match.rows[np.isin(match.rows, list(claims.twice))].tolist()
    }
    found = []
    for row, fitting in sorted(claims.twice.items()):
        others = [other.text for other in fitting if not taken[row].is_case_of(other) or other.is_case_of(taken[row])]
        if others:
            found.append((show.of(row), taken[row].text, ", ".join(others)))
    return found


class _Names:
    def __init__(self, keyspace: Keyspace) -> None:
        self._keys = keyspace.keys.column("key")

    def stored(self, row: int) -> bytes:
        name: bytes = self._keys[row].as_py()
        return name

    def of(self, row: int) -> str:
        return from_bytes(self.stored(row))


def _parts(form: Layout) -> list[tuple[int, str, Pattern, str]]:
    """(line, what, pattern, type of its keys) of every pattern of a layout."""
    found = [(s.line, f"{s.type}, {s.state or s.name}", s.pattern, s.type) for s in form.structures]
    if form.lock is not None:
        found.append((form.lock_line, "string, locks", form.lock, "string"))
    kind = "string" if form.record == JSON else "hash"
    what = f"{kind}, {'a record in each field' if form.record == FIELD else 'records'}"
    found += [(line, what, key, kind) for line, key in zip(form.record_lines, form.record_keys, strict=True)]
    return found


def _matches(claims: DescribedClaims, nth: int, form: Layout) -> list[Match]:
    """What the patterns of a layout found, in the order of :func:`_parts`."""
    matches = [claims.structures[nth, number] for number in range(len(form.structures))]
    if form.lock is not None:
        matches.append(claims.locks[nth])
    return [*matches, *(claims.records[nth, number] for number in range(len(form.record_keys)))]


def _patterns(
    keyspace: Keyspace, claims: DescribedClaims, show: _Names, free: npt.NDArray[np.bool_], nth: int, form: Layout
) -> tuple[PatternFact, ...]:
    out = []
    for (line, what, pattern, type_), match in zip(_parts(form), _matches(claims, nth, form), strict=True):
        near, other = _near(keyspace, pattern, type_, free)
        out.append(
            PatternFact(
                line,
                what,
                pattern.text,
                len(match.rows),
                tuple(show.of(row) for row in match.rows[:_EXAMPLES].tolist()),
                tuple(show.of(row) for row in near[:_EXAMPLES]),
                len(near),
                tuple((show.of(row), keyspace.keys.column("type")[row].as_py()) for row in other[:_EXAMPLES]),
                len(other),
            )
        )
    return tuple(out)


def _near(keyspace: Keyspace, pattern: Pattern, type_: str, free: npt.NDArray[np.bool_]) -> tuple[list[int], list[int]]:
    """Rows of free keys that begin like the pattern and do not fit, and of those that fit but are of another type."""
    begins = free & (keyspace.find_prefix(keyspace.keys.column("key"), [pattern.head]) == 0)
    rows = np.flatnonzero(begins)
    if not len(rows):
        return [], []
    names = take(keyspace.keys.column("key"), rows)
    fits = pc.match_substring_regex(names, pattern=pattern.regex).to_numpy()
    other = fits & ~is_type(keyspace, type_)[rows]
    return rows[~fits].tolist() if pattern.head else [], rows[other].tolist()


def _foreign(
    keyspace: Keyspace,
    show: _Names,
    layouts: Sequence[Layout],
    taken_by: list[tuple[str, npt.NDArray[np.bool_]]],
) -> list[tuple[str, str]]:
    """Keys that fit a pattern, but belong to somebody else: (key, library)."""
    found: dict[int, str] = {}
    for title, taken in taken_by:
        if not taken.any():
            continue
        finder = Finder(keyspace, taken & keyspace.live)
        for form in layouts:
            for _, _, pattern, type_ in _parts(form):
                rows: list[Any] = finder.find(pattern, type_).rows.tolist()
                found |= dict.fromkeys(rows, title)
    return [(show.of(row), title) for row, title in sorted(found.items())]
