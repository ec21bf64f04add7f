"""Lines that fit and commands that can be pasted."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobsleuth.case import Case
from jobsleuth.reports import Document, document, lines, queue_lines, render
from jobsleuth.reports.text import cells, flow, plain
from jobsleuth.reports.words import oddity
from tests.reports.conftest import build, queue, rows

WORDS = st.lists(st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=40), min_size=1, max_size=30)


@given(words=WORDS, width=st.integers(30, 120), hang=st.integers(0, 4), indent=st.integers(0, 6))
def test_folding_fits_and_loses_nothing(words: list[str], width: int, hang: int, indent: int) -> None:
    """Every line fits; put together without the spaces they are the text."""
    text = " " * indent + " ".join(words)
    folded = [plain(line) for line in flow(((text, "plain"),), width, hang=hang)]
    assert "".join("".join(folded).split()) == "".join(text.split())
    narrow = all(cells(w) == len(w) for w in words)
    assert not narrow or all(len(line) <= width for line in folded)


def test_no_line_ends_with_blanks() -> None:
    """A blank more than the terminal is wide makes an empty line there."""
    line = (("one two · ", "plain"), ("three", "error"), ("  ", "plain"))
    for width in range(3, 30):
        told = ["".join(text for text, _ in folded) for folded in flow(line, width)]
        assert told == [text.rstrip() for text in told] and "".join("".join(told).split()) == "onetwo·three"


@pytest.mark.parametrize("width", [50, 60, 80, 120])
def test_the_table_of_queues_fits_and_says_what_it_has_no_room_for(tmp_path: Path, width: int) -> None:
    """A queue of each library with jobs in every state: no row is wider than the window, each state that has jobs is
    a column or named below, and those without jobs go first."""
    states = {
        "bullmq": ("waiting", "active", "delayed", "completed", "failed", "waiting-children"),
        "asynq": ("pending", "active", "scheduled", "retry", "archived", "completed", "unknown"),
    }
    queues = [
        {**queue("a-long-name-of-a-queue", dict.fromkeys(found, 1_234)), "dialect": name, "namespace": name}
        for name, found in states.items()
    ]
    shown = [
        plain(line)
        for line in queue_lines(document(build(tmp_path / "case", {"queues": rows("queues", *queues)})), width)
    ]
    heads = shown[0].split()
    left_out = " ".join(shown[3:]).removeprefix("no room for ").partition(": a wider window")[0].split(", ")
    assert all(cells(line) <= width for line in shown)
    every = {"waiting", "active", "delayed", "retry", "failed", "done", "blocked", "unknown"}
    assert sorted(every) == sorted([name for name in [*heads, *left_out] if name in every])
    assert (left_out == [""]) == (width == 120)


def test_a_command_stays_whole() -> None:
    """A command longer than the width gets a line of its own, unbroken."""
    command = "jobsleuth job " + "x" * 100
    folded = [plain(line) for line in flow((("    e.g. 1, 2, 3   ", "plain"), (command, "command")), 40)]
    assert folded == ["    e.g. 1, 2, 3", f"    {command}"]


def offered(report: Document) -> list[str]:
    """The commands that a report offers."""
    return [text for line in lines(report, width=10_000) for text, style in line if style == "command"]


@pytest.mark.parametrize(
    "job_id", ["1; rm -rf ~", "$(reboot)", "`id`", "a b", "it's", "--queue=x", "-rf", "*", "é", "x" * 300]
)
def test_an_id_stays_one_argument_of_the_offered_command(small_case: Case, job_id: str) -> None:
    """A shell that gets the command pasted passes the id as one word, and the parser takes it for no option."""
    report = document(small_case)
    cause = report.causes[0]
    hostile = replace(cause, examples=(replace(cause.examples[0], job_id=job_id, queue="q $(x)"),))
    words = shlex.split(offered(replace(report, causes=(hostile,)))[0])
    assert words[:2] == ["jobsleuth", "job"]
    assert words.count(job_id) == 1
    assert words[words.index("--queue") + 1] == "q $(x)"
    if job_id.startswith("-"):
        assert words.index("--") < words.index(job_id)


def test_an_id_that_cannot_be_typed_is_not_offered(small_case: Case) -> None:
    """An id with control characters leads to the list of jobs instead."""
    report = document(small_case)
    cause = report.causes[0]
    hostile = replace(cause, examples=(replace(cause.examples[0], job_id="\x1b[2J"),))
    assert offered(replace(report, causes=(hostile,)))[0].startswith("jobsleuth jobs ")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_many_queues_do_not_scroll_for_ever(small_case: Case, width: int) -> None:
    """A thousand queues are 6 rows, those with findings first, and the way to the rest."""
    report = document(small_case)
    quiet = [replace(report.queues[1], queue=f"quiet-{n:04}") for n in range(1000)]
    text = [plain(line) for line in lines(replace(report, queues=(*quiet, report.queues[0])), width=width)]
    rows = [line for line in text if line.startswith("bull/")]
    assert len(rows) == 6
    assert rows[0].startswith("bull/emai")
    assert any(line.startswith("995 more queues") for line in text)
    assert any("jobsleuth queues " in line for line in text)


@pytest.mark.parametrize("width", [80, 120])
def test_one_screen_tells_the_story(small_case: Case, width: int) -> None:
    """Thirty causes and fifty queues fit 40 lines of 80 columns: the worst of them, and the way to the rest."""
    report = document(small_case)
    one = replace(report.causes[0], examples=report.causes[0].examples[:1])
    many = tuple(replace(one, kind=f"MB{n:03}", title=f"Title {n} " + "of a cause " * 3) for n in range(30))
    queues = [replace(report.queues[1], queue=f"quiet-{n:04}") for n in range(50)]
    text = [plain(line) for line in lines(replace(report, causes=many, queues=tuple(queues)), width=width)]
    assert len(text) <= 40
    assert sum(line.startswith(" ") and " MB0" in line for line in text) >= 2
    assert any("more findings of" in line for line in text)
    everything = [plain(line) for line in lines(replace(report, causes=many), width=width, everything=True)]
    assert all(any(f"MB{n:03} Title {n}" in line for line in everything) for n in range(30))


def test_checks_that_one_thing_keeps_from_running_are_one_sentence(small_case: Case) -> None:
    """Evidence without a time silences dozens of checks: one sentence on the screen, every id where all is asked."""
    report = document(small_case)
    silent = [check for check in report.checks if check.status == "could_not_run"]
    many = tuple(replace(silent[0], id=f"LV{n:03}", reason="no time") for n in range(36))
    other = replace(silent[0], id="ZZ001", reason="no such column")
    report = replace(report, checks=(*many, other))
    text = [plain(line) for line in lines(report)]
    told = [line for line in text if "could not run" in line]
    assert told == [
        "LV000, LV001, LV002 and 33 more checks could not run: no time",
        "ZZ001 could not run: no such column",
    ]
    everything = " ".join(plain(line) for line in lines(report, everything=True))
    assert all(f"LV{n:03}" in everything for n in range(36))
    # GitHub shows ten notices of a run: 36 of one reason would hide the other.
    notices = [line for line in "".join(render(report, "github")).splitlines() if line.startswith("::notice")]
    assert len(notices) == 2
    assert notices[0].startswith("::notice title=LV000%2C LV001%2C ") and "and 24 more checks could not" in notices[0]
    assert notices[1] == "::notice title=ZZ001 could not run::no such column"
    summary = "".join(render(report, "markdown"))
    assert "LV034, LV035: no time\n- ZZ001: no such column\n" in summary


@pytest.mark.parametrize(
    ("message", "count", "told"),
    [
        ("13 bytes behind the end of the snapshot were not looked at", 13, ""),
        ("1,213 bytes behind the end", 1213, ""),
        ("13 bytes of 1,213", 213, " (213 in all)"),
        ("an expiry time or the like belongs to no key", 3, " (3 in all)"),
        ("an expiry time or the like belongs to no key", 1, ""),
        ("a wrong checksum", None, ""),
    ],
)
def test_a_count_is_told_once(message: str, count: int | None, told: str) -> None:
    """A number that the note says already is not said again; one that is part of another number does not count."""
    assert oddity(message, count) == message + told
