"""The story of jobs in real dumps: every state that the library can bring a job into, and every planted fault."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from jobsleuth.case import Case
from jobsleuth.pipeline import AnalyzeOptions, analyze
from jobsleuth.reports import JobRef, find_jobs, picture, picture_lines, story

FIXTURES = Path(__file__).parents[2] / "fixtures" / "bullmq"
_HELD: list[TemporaryDirectory[str]] = []

FAULTS: dict[str, tuple[str, ...]] = {
    "ghost-in-wait": ("no record of this job", "wait still names it", "will find an empty job", "the event waiting"),
    "ghost-in-delayed": ("no record of this job", "delayed still names it", "will find an empty job"),
    "ghost-in-prioritized": ("no record of this job", "prioritized still names it", "will find an empty job"),
    "ghost-in-active": ("no record of this job", "active still names it", "the event active"),
    "ghost-in-completed": ("no record of this job", "completed still names it", "the event completed"),
    "ghost-in-failed": ("no record of this job", "failed still names it", "the event failed"),
    "ghost-in-waiting-children": ("no record of this job", "waiting-children still names it"),
    "orphan-from-wait": ("no worker will find it", "the event waiting"),
    "orphan-from-delayed": ("no worker will find it", "the event delayed"),
    "orphan-from-active": ("no worker will find it", "A lock on it is held", "the event active"),
    "orphan-from-completed": ("no worker will find it", "says that it finished", "the event completed"),
    "duplicate-in-wait": ("waiting, number 3 to be taken", "The list wait names it 2 times"),
    "duplicate-in-active": ("active, its lock is valid", "The list active names it 2 times"),
    "wait-and-completed": ("completed 20", "It is in completed and wait at once"),
    "wait-and-active": ("active, its lock is valid", "It is in active and wait at once"),
    "active-and-failed": ("failed 20", "It is in active and failed at once"),
    "delayed-and-prioritized": ("delayed, due 20", "It is in delayed and prioritized at once"),
    "id-behind": ("It is in prioritized and wait at once",),
    "skeleton-completed": ("completed 20", "lacks fields that every job has, as one that was written anew"),
    "skeleton-promoted": ("Waiting, next to be taken", "lacks fields that every job has"),
    "skeleton-orphan": ("no worker will find it", "lacks fields that every job has"),
    "type-clash": ("no worker will find it", "`wait` is no list: the library's own getState fails"),
    "active-without-lock": ("no lock or lease on it exists",),
    "active-stalled-without-lock": ("no lock or lease on it exists", "the next one puts it back to wait"),
    "maxed-by-dead": ("no lock or lease on it exists",),
    "lock-without-ttl": ("under a lock that never runs out",),
    "active-not-started": ("Its record does not say that it was started",),
    "lock-on-waiting": ("waiting, next to be taken", "A lock on it is held, although it is not active"),
    "stalled-not-active": ("although it is not active",),
    "overdue-delayed": ("delayed, due 20", " overdue)"),
    "delayed-unpacked": ("due 1970-01-06", "its score is none that the library writes"),
    "paused-stranded": ("the queue is not paused: no worker looks there",),
    "double-pause-loss": ("no worker will find it", "the event waiting"),
    "paused-and-wait": ("Its queue is paused", "in wait all the same, and resuming the queue could drop it"),
    "opts-undecodable": ("Its options are no JSON object",),
    "opts-not-object": ("Its options are no JSON object",),
    "data-undecodable": ("Its data is no JSON",),
    "data-not-json": ("Its data is no JSON",),
    "finished-score-mismatch": ("completed dates its end 20",),
    "finished-elsewhere": ("waiting, next to be taken", "says that it finished 20"),
    "completed-without-result": ("does not say that it finished",),
    "priority-mismatch": ("ranked with priority 3, while its record says 9",),
    "parent-without-dependencies": ("None of them is pending, so nothing will release it",),
    "dependency-without-child": ("Child kid-1 no longer exists, so nothing will release it",),
    "dependency-on-completed": ("Child kid-1 is completed and still counted as pending",),
    "unsuccessful-not-released": ("Child kid-1 failed and should have released it to fail",),
    "child-without-parent": ("Its parent parent in bull/child-without-parent no longer exists",),
    "dedup-finished": ("Deduplication id once names it", "with nothing left to end that"),
}
"""Fault → what its job's story says. Faults that are not here harm no single job, or show in findings only."""

ELSEWHERE = {
    "active-without-lock",
    "marker-missing-asleep",
    "marker-foreign-member",
    "timestamp-not-number",
    "returnvalue-undecodable",
    "stacktrace-undecodable",
}

STATES: list[tuple[str, str, str, tuple[str, ...]]] = [
    ("states", "1", "completed", ("1 attempt made of 2; completed 20", " after it started")),
    ("states", "5", "failed", ("1 attempt made of 1; failed 20", ": card declined")),
    ("states", "15", "delayed", ("delayed, due 20", "(in ")),
    ("states", "backoff", "delayed", ("delayed, due 20", ": rate limited upstream")),
    ("states", "delayed-20-years", "delayed", ("(in 7,",)),
    ("states", "active-named", "active", ("by press-2; active, its lock is valid for ",)),
    ("states", "active-second-try", "active", ("1 attempt made of 3; active",)),
    ("states", "28", "waiting", ("waiting, next to be taken",)),
    ("states", "prio-5-second", "prioritized", ("prioritized, number 4 of 6 with a priority",)),
    ("lost-lock", "recovered", "waiting", ("recovered 1 time after its lock was lost; waiting",)),
    ("parents", "one-of-two-done", "waiting-children", ("its children (1 completed and 1 waiting)",)),
    ("parents", "kid-failed-plain", "waiting-children", ("-kid-1 failed: it waits until that is retried or removed",)),
    ("parents", "kid-failed-fpof", "waiting", ("will fail it: child bull:kids-kid-failed-fpof:",)),
    ("judged", "failed-by-child", "failed", (": child bull:judged-kids:bad-kid failed",)),
    ("tree", "leaf", "waiting", ("Its parent branch in bull/tree is waiting-children",)),
    ("on-hold", "5", "waiting", ("next to be taken", "Its queue is paused")),
    ("limited", "3", "waiting", ("2 starts counted in the window that runs for another",)),
    ("limited-by-hand", "1", "waiting", ("Its queue is rate limited by hand for another",)),
    ("capped", "2", "waiting", ("The one slot of its queue's global concurrency is taken",)),
    ("dedup", "owner", "waiting", ("Deduplication id simple names it, so that new jobs",)),
    ("dedup", "ttl-finished", "completed", ("are dropped until 20",)),
]
"""Queue, job, state and what the story says, of the dump with every state."""


@cache
def _case(name: str) -> Case:
    folder = TemporaryDirectory()
    _HELD.append(folder)
    return analyze([FIXTURES / name / "evidence.rdb"], Path(folder.name) / "case", AnalyzeOptions())


def _stories(name: str, queue: str, job_id: str, db: int = 0) -> list[str]:
    case = _case(name)
    return [story(picture(case, ref)) for ref in find_jobs(case, job_id, queue) if ref.db == db]


@pytest.mark.parametrize("name", ["v5-faults", "v6-faults"])
def test_every_planted_fault_is_in_its_jobs_story(name: str) -> None:
    """What was done to the job can be read in plain words, and no fault is without a telling."""
    planted = tomllib.loads((FIXTURES / name / "case.toml").read_text())["planted"]
    told = set()
    for fault in planted:
        for text in _stories(name, fault["queue"], fault["job_id"]) if fault.get("job_id") else ():
            if fault["fault"] not in FAULTS:
                assert fault["fault"] in ELSEWHERE, (fault["fault"], text)
                continue
            told.add(fault["fault"])
            for words in FAULTS[fault["fault"]]:
                assert words in text, (fault["fault"], text)
    # 6.x leaves jobs in `wait` while a queue is paused.
    assert told == FAULTS.keys() - ({"paused-and-wait", "double-pause-loss"} if name == "v6-faults" else set())


@pytest.mark.parametrize("name", ["v5-every-state", "v6-every-state"])
@pytest.mark.parametrize(("queue", "job_id", "state", "words"), STATES)
def test_every_state_is_told(name: str, queue: str, job_id: str, state: str, words: tuple[str, ...]) -> None:
    """How the job began and where it is, in the words for its state; nothing is called wrong."""
    case = _case(name)
    (ref,) = find_jobs(case, job_id, f"bull/{queue}")
    one = picture(case, ref)
    assert one.job["state"] == state
    for expected in words:
        assert expected in story(one)
    assert "lacks" not in story(one)
    assert "at once" not in story(one)


@pytest.mark.parametrize(
    "name",
    ["bull3-every-structure", "bull4-every-structure", "v1-every-structure", "v4-every-structure", "v6-precision"],
)
def test_every_job_of_other_ages_has_a_story(name: str) -> None:
    """Every fifth id is told and drawn: the state stands in the first line, the queue's pause is said."""
    case = _case(name)
    refs = case.query("select evidence, db, dialect, namespace, queue, job_id from jobs order by all", {}).to_pylist()
    assert len(refs) > 20
    for values in refs[::5]:
        one = picture(case, JobRef(**values))
        text, drawn = story(one), list(picture_lines(one))
        assert text.endswith(".")
        assert "".join(span for span, _ in drawn[0]).endswith(str(one.job["state"]))
        paused = one.queue["paused"] and one.job["state"] in ("waiting", "paused", "prioritized")
        assert ("Its queue is paused." in text) == bool(paused)


def _drawn(name: str, queue: str, job_id: str) -> list[str]:
    case = _case(name)
    (ref,) = find_jobs(case, job_id, queue)
    return ["".join(span for span, _ in line) for line in picture_lines(picture(case, ref))]


def test_the_whole_picture_of_one_job() -> None:
    """Claimed and derived state, places with scores decoded, schedule, events in order and log of jobs of all kinds."""
    text = _drawn("v6-every-state", "states", "1")
    assert text[0] == "1 in bull/states (db 0): completed"
    assert "  by its own record: finished, completed" in text
    log = text.index("Log, oldest first")
    assert text[log + 1 : log + 3] == ["  rendering", "  sent <b>ok</b>"]
    events = [line.split("  ")[2] for line in text[text.index("Events, oldest first") + 1 : log - 1]]
    assert events == ["added", "waiting", "active", "progress", "progress", "completed"]
    text = _drawn("v6-every-state", "states", "prio-5-second")
    assert any("= priority 5, counter " in line for line in text)
    text = _drawn("v6-every-state", "states", "delayed-same-ms")
    assert any(" UTC (in " in line and ", tie-breaker 1" in line for line in text)
    polls = _case("v6-every-state").query("select job_id from jobs where schedule_id = 'eu:west:7'", {}).to_pylist()
    text = _drawn("v6-every-state", "schedules", polls[0]["job_id"])
    assert any(line.startswith("  eu:west:7: */15 * * * *, next 20") for line in text)


def test_kin_with_their_states() -> None:
    """Parents and children, each with its state and what the parent knows of it."""
    text = _drawn("v6-every-state", "parents", "kid-failed-idof")
    children = text[text.index("Children: 2") + 1 :]
    assert "  kid-failed-idof-kid-1 in bull/kids-kid-failed-idof: failed (its failure is ignored)" in children
    assert "  kid-failed-idof-kid-2 in bull/kids-kid-failed-idof: waiting (pending)" in children
    text = _drawn("v6-every-state", "tree", "branch")
    assert text[text.index("Parents") + 1] == "  root in bull/tree: waiting-children (pending)"
    assert "  leaf in bull/tree: waiting (pending)" in text


def test_a_log_of_many_lines_is_cut_at_its_beginning() -> None:
    """The newest lines are shown and the number of the others said."""
    (ref,) = find_jobs(_case("v6-every-state"), "1", "states")
    logs = [{"position": n, "line": f"line {n}"} for n in range(3000, 4000)]
    one = replace(picture(_case("v6-every-state"), ref), logs=logs, log_lines=4000)
    text = ["".join(span for span, _ in line) for line in picture_lines(one)]
    log = text.index("Log, oldest first")
    assert text[log + 1 : log + 3] == ["  (3,950 older lines not shown)", "  line 3950"]
    assert "  line 3999" in text


def test_json_holds_the_same_facts() -> None:
    """The picture for machines: queue, log, relatives, decoded scores."""
    case = _case("v6-every-state")
    (ref,) = find_jobs(case, "1", "states")
    facts: dict[str, Any] = picture(case, ref).facts()
    assert [line["line"] for line in facts["logs"]] == ["rendering", "sent <b>ok</b>"]
    assert facts["log_lines"] == 2
    assert facts["queue"]["library_version"] == "bullmq:6.7.0"


def test_what_next_of_a_job_whose_worker_was_killed() -> None:
    """It may not run again unseen, since the library says when it was started; LV002 tells what to do."""
    answers = json.loads((FIXTURES / "v5-crash-locks-expired" / "expect" / "library.json").read_text())
    started = answers["queues"]["bull:press"]["jobs"]["held-1"]["processedOn"]
    case = _case("v5-crash-locks-expired")
    (ref,) = find_jobs(case, "held-1", "press")
    text = ["".join(span for span, _ in line) for line in picture_lines(picture(case, ref))]
    told = text[text.index("What next") + 1 :]
    when = datetime.fromtimestamp(started // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    assert told[0] == f"  run again: may do its work twice: it was started at {when} UTC"
    assert told[-1] == "  what to do: jobsleuth explain LV002"
    (ref,) = find_jobs(case, "1", "press")
    assert all("What next" not in "".join(span for span, _ in line) for line in picture_lines(picture(case, ref)))
