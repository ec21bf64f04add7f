"""Evidence against descriptions of layouts: which keys fit, which do not, what is in doubt."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from jobsleuth.dialects import Described, Options, all_dialects
from jobsleuth.dialects.described.claim import DescribedClaims
from jobsleuth.dialects.described.tables import Tables
from jobsleuth.dialects.description import INSIDE, Layout, Pattern
from jobsleuth.dialects.layouts.units import require_units
from jobsleuth.errors import UsageError
from jobsleuth.keyspace import Keyspace
from jobsleuth.safetext import from_bytes
from jobsleuth.sources import ReadOptions, open_keyspace, snapshot

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
        near: keys that begin like it, are free and fit no pattern; with how many there are.
        near_count: how many of those there are.
    """

    line: int
    what: str
    text: str
    keys: int
    examples: tuple[str, ...]
    near: tuple[str, ...]
    near_count: int


@dataclass(frozen=True)
class LayoutFact:
    """One layout: its patterns, and what came of them.

    Attributes:
        states: state → jobs.
        without_record: ids that structures hold and that have no record.
    """

    name: str
    line: int
    patterns: tuple[PatternFact, ...]
    queues: int
    states: dict[str, int] = field(default_factory=dict)
    without_record: int = 0


@dataclass(frozen=True)
class LayoutTest:
    """All layouts, and keys in doubt: fitted by several patterns (key → the others), or taken by a library."""

    layouts: tuple[LayoutFact, ...]
    ambiguous: tuple[tuple[str, str], ...]
    ambiguous_count: int
    foreign: tuple[tuple[str, str], ...]
    foreign_count: int


def explain_layouts(evidence: Path, described: Described, reading: ReadOptions) -> LayoutTest:
    """Claims the evidence's keys by the layouts, reads the jobs, and tells what came of each pattern.

    Raises:
        EvidenceError: the evidence cannot be read.
        UsageError: nothing is described, or a unit gives years outside 2000 to 2100.
    """
    if not described.layouts:
        raise UsageError("no layout is described", hint="write [[layout]] in jobsleuth.toml, or give --layout FILE")
    options = Options(payload_limit=0, layouts=described.layouts)
    with snapshot(evidence, spool=reading.spool) as source, open_keyspace(source, reading) as keyspace:
        free = np.ones(keyspace.keys.num_rows, np.bool_)
        taken_by: list[tuple[str, npt.NDArray[np.bool_]]] = []
        claims: DescribedClaims | None = None
        for dialect in all_dialects():
            made = dialect.claim(keyspace, free, options)
            if isinstance(made, DescribedClaims) and dialect.name == "layouts":
                claims = made
                break
            taken_by.append((dialect.title, made.role >= 0))
            free &= made.role < 0
        assert claims is not None
        tables = Tables(keyspace, claims, options)
        states: list[dict[str, int]] = [{} for _ in described.layouts]
        lost = [0] * len(described.layouts)
        number = {(q.db, from_bytes(q.namespace), from_bytes(q.queue)): n for n, q in enumerate(claims.queues)}
        for table, rows in tables.rows() if claims.queues else ():
            if table != "jobs":
                continue
            for row in rows.select(["db", "namespace", "queue", "state", "has_record"]).to_pylist():
                layout = claims.layout_of[number[row["db"], row["namespace"], row["queue"]]]
                states[layout][row["state"]] = states[layout].get(row["state"], 0) + 1
                lost[layout] += not row["has_record"]
        require_units(described.layouts, tables.times)
        show = _Names(keyspace)
        facts = tuple(
            LayoutFact(
                form.name,
                form.line,
                _patterns(keyspace, claims, show, free, nth, form),
                claims.layout_of.count(nth),
                states[nth],
                lost[nth],
            )
            for nth, form in enumerate(described.layouts)
        )
        twice = [(show.of(row), ", ".join(others)) for row, others in sorted(claims.twice.items())[:_EXAMPLES]]
        foreign = _foreign(keyspace, show, described, taken_by)
        return LayoutTest(facts, tuple(twice), len(claims.twice), tuple(foreign[:_EXAMPLES]), len(foreign))


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
    if form.record_key is not None:
        kind = "hash" if form.record == "hash" else "string"
        found.append((form.record_line, f"{kind}, records", form.record_key, kind))
    return found


def _patterns(
    keyspace: Keyspace, claims: DescribedClaims, show: _Names, free: npt.NDArray[np.bool_], nth: int, form: Layout
) -> tuple[PatternFact, ...]:
    matches = [claims.structures[nth, number] for number in range(len(form.structures))]
    if form.lock is not None:
        matches.append(claims.locks[nth])
    if form.record != INSIDE and form.record_key is not None:
        matches.append(claims.records[nth])
    out = []
    for (line, what, pattern, _), match in zip(_parts(form), matches, strict=True):
        near = _near(keyspace, pattern, free & (claims.role < 0)) if pattern.head else []
        out.append(
            PatternFact(
                line,
                what,
                pattern.text,
                len(match.rows),
                tuple(show.of(row) for row in match.rows[:_EXAMPLES].tolist()),
                tuple(show.of(row) for row in near[:_EXAMPLES]),
                len(near),
            )
        )
    return tuple(out)


def _near(keyspace: Keyspace, pattern: Pattern, free: npt.NDArray[np.bool_]) -> list[int]:
    """Rows of free keys that begin like the pattern and that no pattern took."""
    begins = keyspace.find_prefix(keyspace.keys.column("key"), [pattern.head]) == 0
    rows: list[int] = np.flatnonzero(begins & free).tolist()
    return rows


def _foreign(
    keyspace: Keyspace, show: _Names, described: Described, taken_by: list[tuple[str, npt.NDArray[np.bool_]]]
) -> list[tuple[str, str]]:
    """Keys that fit a pattern, but belong to a library: (key, library)."""
    from jobsleuth.dialects.described.claim import Finder

    found: dict[int, str] = {}
    for title, taken in taken_by:
        if not taken.any():
            continue
        finder = Finder(keyspace, taken & keyspace.live)
        for form in described.layouts:
            for _, _, pattern, type_ in _parts(form):
                rows: list[Any] = finder.find(pattern, type_).rows.tolist()
                found |= dict.fromkeys(rows, title)
    return [(show.of(row), title) for row, title in sorted(found.items())]
