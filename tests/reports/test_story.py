"""The paragraph that tells one job, for every state it can be in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jobsleuth.reports import JobRef, Picture, picture_lines, story

NOW = 1_772_417_647_000  # 2026-03-02 02:14:07 UTC
MINUTE = 60_000
RECORD = {"has_record": True, "created_at": NOW - 10 * MINUTE}


def told(job: dict[str, Any], **more: Any) -> str:
    ref = JobRef(0, 0, "bullmq", "bull", "emails", "48211")
    return story(Picture(ref=ref, as_of_ms=more.pop("as_of_ms", NOW), job={**RECORD, **job}, **more))


def place(structure: str, position: int = 0, size: int = 1) -> dict[str, Any]:
    return {"structure": structure, "position": position, "size": size, "decides_state": True}


def lock(until: int | None, valid: bool | None) -> dict[str, Any]:
    return {"kind": "lock", "worker_id": "9f2c", "valid_until": until, "valid": valid}


def test_active_under_a_lock_that_ran_out() -> None:
    """Who started it, when, and how long before the snapshot its lock ended."""
    job = {"state": "active", "started_at": NOW - 9 * MINUTE, "worker_name": "worker-7"}
    assert told(job, holders=[lock(NOW - 6 * MINUTE, False)]) == (
        "Added 2026-03-02 02:04:07, last started 2026-03-02 02:05:07 by worker-7; active, but its lock ran out 6 min"
        " before the snapshot and nobody has taken it since."
    )


@pytest.mark.parametrize(
    ("holders", "telling"),
    [
        ([], "active, but no lock or lease on it exists: nobody is working on it."),
        ([lock(NOW + MINUTE, True)], "active, its lock is valid for 1 min more."),
        ([lock(None, True)], "active under a lock that never runs out."),
    ],
)
def test_active(holders: list[dict[str, Any]], telling: str) -> None:
    """Without a lock, under a valid one, under one for ever."""
    assert told({"state": "active", "started_at": NOW}, holders=holders).endswith(telling)


def test_active_when_the_snapshot_has_no_time() -> None:
    """Without the snapshot's time nothing is called valid or run out."""
    text = told({"state": "active", "started_at": NOW}, holders=[lock(NOW, None)], as_of_ms=None)
    assert text.endswith("active under a lock valid until 2026-03-02 02:14:07.")


@pytest.mark.parametrize(
    ("position", "size", "telling"),
    [(4, 5, "waiting, next to be taken."), (0, 5, "waiting, number 5 to be taken.")],
)
def test_waiting_tells_the_turn(position: int, size: int, telling: str) -> None:
    """Both libraries push at the head and take from the tail: the last of five is next, the first is fifth."""
    assert told({"state": "waiting"}, places=[place("wait", position, size)]).endswith(telling)


@pytest.mark.parametrize("state", ["delayed", "scheduled", "retry"])
def test_due(state: str) -> None:
    """Overdue and yet to come, measured from the snapshot."""
    assert told({"state": state, "scheduled_at": NOW - 5 * MINUTE}).endswith("02:09:07 (5 min overdue).")
    assert told({"state": state, "scheduled_at": NOW + 5 * MINUTE}).endswith("02:19:07 (in 5 min).")


def test_failed_says_why() -> None:
    """When, how often, and the error's beginning with what is hostile escaped."""
    job = {
        "state": "failed",
        "finished_at": NOW,
        "attempts": 3,
        "max_attempts": 3,
        "error": "boom\x1b[2J\n" + "x" * 500,
    }
    text = told(job)
    assert ", 3 attempts made of 3; failed 2026-03-02 02:14:07: boom\\x1b[2J\\nxxx" in text
    assert len(text) < 350


def test_completed_says_how_long_it_took() -> None:
    """From the latest start to the end."""
    text = told({"state": "completed", "started_at": NOW - 2000, "finished_at": NOW})
    assert text.endswith("completed 2026-03-02 02:14:07, 2 s after it started.")


def test_parent_counts_its_children() -> None:
    """Children by state; one that is in no queue of the case is gone."""
    children = [{"state": s} for s in ("completed", "failed", "completed", None)]
    text = told({"state": "waiting-children"}, children=children)
    assert text.endswith("it waits for its children (2 completed, 1 failed and 1 gone).")


def test_orphan() -> None:
    """A record that no structure holds."""
    assert told({"state": "unknown"}).endswith("no structure that decides a state holds it, so no worker will find it.")


def test_ghost() -> None:
    """An id without a record, what still names it, and what comes of that."""
    job = {"state": "waiting", "has_record": False, "created_at": None}
    assert (
        told(job, places=[place("wait")])
        == "There is no record of this job: only its id is known; wait still names it. The next worker to take it will"
        " find an empty job."
    )


def test_claim_and_findings_are_marked() -> None:
    """A record that claims another state than the structure, and findings, are said at the end."""
    text = told({"state": "pending", "claimed_state": "active"}, findings=[{"check_id": "ST001"}])
    assert text.endswith("Its record says active, but where it really is says pending. 1 finding speaks of it.")


def test_parent_without_a_record() -> None:
    """A structure that still names the parent does not make it whole."""
    kin = {"namespace": "bull", "queue": "pr", "job_id": "gone", "via": "parentKey", "state": "waiting-children"}
    text = told({"state": "waiting"}, parents=[{**kin, "has_record": False}])
    assert "Its parent gone in bull/pr is waiting-children, but its record is gone." in text
    text = told({"state": "waiting"}, parents=[{**kin, "has_record": True}])
    assert text.endswith("Its parent gone in bull/pr is waiting-children.")
    text = told({"state": "waiting"}, parents=[{**kin, "state": None, "has_record": None}])
    assert text.endswith("Its parent gone in bull/pr no longer exists.")


def test_parent_without_children() -> None:
    """Nobody will ever release it, said once."""
    assert told({"state": "waiting-children"}).endswith(
        "it waits for children, but none is recorded, so nothing will release it."
    )


def test_job_of_a_schedule_that_is_gone() -> None:
    """The job outlives its schedule; while the schedule is there nothing is said."""
    job = {"state": "delayed", "scheduled_at": NOW + MINUTE, "schedule_id": "nightly"}
    assert told(job).endswith("Its schedule nightly no longer exists.")
    assert "no longer exists" not in told(job, schedules=[{"schedule_id": "nightly"}])


def test_release_of_a_parent_as_early_flows_tell_it() -> None:
    """BullMQ 1.16 to 1.24 wrote `active` for a parent that went to wait; after a real start it does not fit."""
    event = {"event": "active", "at": NOW, "fields": {"prev": "waiting-children"}}
    assert "The last that was heard" not in told({"state": "waiting"}, events=[event])
    event = {"event": "active", "at": NOW, "fields": {"prev": "waiting"}}
    assert "The last that was heard of it is the event active" in told({"state": "waiting"}, events=[event])


def test_schedule_that_names_its_job() -> None:
    """Before 1.86, and in Bull, only the schedule knows which job is its current one."""
    row = {"schedule_id": "poll::::60000", "job_id": "48211"}
    assert told({"state": "waiting"}, schedules=[row]).startswith(
        "Added 2026-03-02 02:04:07 by schedule poll::::60000;"
    )
    assert " by schedule" not in told({"state": "waiting"}, schedules=[{**row, "job_id": "1"}])


def test_what_next_is_told_of_what_findings_say() -> None:
    """The verdict on running it again with its evidence once, each remedy with its time, each check with the command
    that explains it; a check without a page is somebody's own. A job that no finding speaks of has no such part."""
    common = {"severity": "error", "certainty": "certain", "message": "m"}
    ran = {"retry": "unsafe", "retry_why": "it was started 2 times"}
    found = [
        {**common, **ran, "check_id": "LV002", "heals": "no: nobody looks", "heals_basis": "derived", "help_url": "x"},
        {**common, **ran, "check_id": "XX001", "heals": "soon", "heals_at": NOW, "heals_basis": "inferred"},
    ]
    ref = JobRef(0, 0, "bullmq", "bull", "emails", "48211")
    whole = Picture(ref=ref, as_of_ms=NOW, job={**RECORD, "state": "active"}, findings=found)
    text = ["".join(span for span, _ in line) for line in picture_lines(whole)]
    assert text[text.index("What next") + 1 :] == [
        "  run again: may do its work twice: it was started 2 times",
        "  heals by itself: no: nobody looks (derived)",
        "  heals by itself: soon, by 2026-03-02 02:14:07 UTC (inferred)",
        "  what to do: jobsleuth explain LV002",
        "  what to do: jobsleuth explain XX001 --checks FILE",
    ]
    alone = [line for line in picture_lines(replace(whole, findings=[])) if line]
    assert "What next" not in ["".join(span for span, _ in line) for line in alone]
