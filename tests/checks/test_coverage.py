"""Nothing that must hold is forgotten: every invariant and every incident has its check, or a reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jobsleuth.checks import all_checks
from jobsleuth.checks.coverage import INCIDENTS, INVARIANTS, check_ids

REFERENCE = Path(__file__).parents[3] / "shared/reference"
needs_reference = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the storage references are not there")


def entries() -> list[tuple[str, str]]:
    named = [(name, checks) for rows in INVARIANTS.values() for name, _, checks in rows]
    return named + [row for rows in INCIDENTS.values() for row in rows]


def test_every_entry_names_checks_that_exist_or_says_why_none_does() -> None:
    """A check that is gone would leave a hole that nobody sees."""
    known = {c.id for c in all_checks()}
    for name, text in entries():
        assert set(check_ids(text)) <= known, name
        assert check_ids(text) or re.match(r"(never a fault|healthy|not judged): ", text), name
    names = [name for name, _ in entries()]
    assert len(set(names)) == len(names)


@needs_reference
def test_every_invariant_of_the_references_is_there() -> None:
    """The tables of both storage references, row by row."""
    text = (REFERENCE / "bullmq.md").read_text(encoding="utf-8")
    table = text[text.index("### 7.3 Table") : text.index("### 7.4")]
    bullmq = re.findall(r"^\| ([A-Z][A-Z-]+) \|", table, re.MULTILINE)
    assert len(bullmq) > 50
    assert [name for name, _, _ in INVARIANTS["Bull and BullMQ"]] == bullmq
    text = (REFERENCE / "asynq.md").read_text(encoding="utf-8")
    asynq = re.findall(r"^\| (A\d\d) ", text, re.MULTILINE)
    assert [name for name, _, _ in INVARIANTS["Asynq"]] == sorted(set(asynq)) and len(asynq) == 55


@needs_reference
def test_every_incident_of_the_references_is_there() -> None:
    """Each row about Bull, BullMQ or Asynq, decoys included."""
    rows = re.findall(
        r"^\| (\d+\.\d+) \|(.*)\|$", (REFERENCE / "incidents.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    ours = r"(taskforcesh/bullmq|OptimalBits/bull|nestjs/bull|langwatch/langwatch|hibiken/asynq) ?(?:PRs )?(#\d+)"
    wanted = [m[1] + m[2] for _, row in rows if (m := re.search(ours, row.rsplit("|", 1)[1]))]
    assert len(wanted) > 60
    assert set(wanted) - {name for rows in INCIDENTS.values() for name, _ in rows} == set()
