"""Every job of every dump against what the library itself answered."""

from __future__ import annotations

import json
from typing import Any

import pytest


def _answers(evidence: Any) -> dict[tuple[int, str, str, str], dict[str, Any]]:
    return {
        (queue["db"], queue["prefix"], queue["queue"], job_id): job
        for queue in evidence.library["queues"].values()
        for job_id, job in queue["jobs"].items()
    }


def test_every_id_has_the_state_the_library_gives(evidence: Any) -> None:
    """getState of the same release, for every id of every queue; where it raises there is no state to give."""
    expected = {place: "unknown" if job["stateError"] else job["state"] for place, job in _answers(evidence).items()}
    actual = {place: evidence.jobs[place]["state"] for place in expected if place in evidence.jobs}
    assert expected == actual


def test_no_id_is_made_up(evidence: Any) -> None:
    """Rows of `jobs` are the library's ids, those it cannot be asked for, and what other structures name."""
    from_structures = {
        (queue["db"], queue["prefix"], queue["queue"], job_id)
        for queue in evidence.library["queues"].values()
        for job_id, other in queue["otherIds"].items()
        if set(other["namedBy"]) & {"stalled"}
    }
    extra = evidence.jobs.keys() - _answers(evidence).keys() - from_structures
    # Bytes that are no UTF-8: only jobs with such ids may remain.
    assert all(evidence.jobs[place]["job_id_bytes"] is not None for place in extra)
    assert from_structures <= evidence.jobs.keys()


def test_records_are_told_from_ghosts(evidence: Any) -> None:
    """`has_record` is whether the hash exists."""
    expected = {place: job["hasRecord"] for place, job in _answers(evidence).items()}
    assert expected == {place: evidence.jobs[place]["has_record"] for place in expected}


def _readable(evidence: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [(job, evidence.jobs[place]) for place, job in _answers(evidence).items() if job["readable"]]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("name", "name"),
        ("created_at", "timestamp"),
        ("started_at", "processedOn"),
        ("finished_at", "finishedOn"),
        ("delay_ms", "delay"),
        ("priority", "priority"),
        ("attempts", "attemptsMade"),
        ("attempts_started", "attemptsStarted"),
        ("stalled_count", "stalledCounter"),
        ("error", "failedReason"),
        ("worker_name", "processedBy"),
        ("deferred_failure", "deferredFailure"),
        ("schedule_id", "repeatJobKey"),
        ("deduplication_id", "deduplicationId"),
    ],
)
def test_fields_read_as_the_library_reads_them(evidence: Any, ours: str, theirs: str) -> None:
    """One column against one property of the library's own Job, for every job that it can read."""
    pairs = [(job["name"], job[theirs], row[ours]) for job, row in _readable(evidence)]
    # Numbers that JavaScript could not parse came as null.
    assert [(name, expected) for name, expected, _ in pairs] == [(name, actual) for name, _, actual in pairs]


def test_opts_attempts_is_max_attempts(evidence: Any) -> None:
    """`max_attempts` is the library's `job.opts.attempts`, 0 where the options do not name it; null without options."""
    for job, row in _readable(evidence):
        stored = dict(row["rest"]).get("opts", b"")
        expected = job["opts"]["attempts"] if stored.startswith(b"{") else None
        assert expected == row["max_attempts"]


def test_json_fields_parse_to_what_the_library_parsed(evidence: Any) -> None:
    """Return value, progress, stack traces and payload hold the JSON that the library read."""
    for job, row in _readable(evidence):
        if isinstance(job["data"], dict) and "omittedChars" in job["data"]:
            continue
        if row["payload_format"] == "json":
            assert json.loads(row["payload"]) == _json_like(job["data"], row["payload"])
        if row["stacktrace"] is not None and job["stacktrace"]:
            assert json.loads(row["stacktrace"]) == job["stacktrace"]
        if row["progress"] is not None:
            assert json.loads(row["progress"]) == job["progress"]
        if job["returnvalue"] is not None:
            assert row["result"] is not None
            try:
                assert json.loads(row["result"]) == job["returnvalue"]
            except ValueError:
                # What does not parse the library hands out as it is.
                assert row["result"].decode() == job["returnvalue"]


def _json_like(parsed: Any, stored: bytes) -> Any:
    """The library's parse, but for numbers no double holds: JavaScript made null of them."""
    return json.loads(stored) if b"1e999" in stored else parsed


def test_parents_are_divided_as_the_library_divides_them(evidence: Any) -> None:
    """Parent queue and id spell the stored parentKey and match the library's `parent`."""
    for job, row in _readable(evidence):
        if job["parentKey"] is None:
            assert row["parent_id"] is None
            continue
        assert f"{row['parent_namespace']}:{row['parent_queue']}:{row['parent_id']}" == job["parentKey"]
        if job["parent"]:
            assert row["parent_id"] == job["parent"]["id"]


def _counts(queue: dict[str, Any]) -> dict[str, int] | None:
    """getJobCounts, `paused` put into `waiting` as getState does."""
    counts = queue["counts"]
    if counts is None:
        return None
    counts = dict(counts)
    counts["waiting"] += counts.pop("paused", 0)
    return counts


def test_queues_are_named_and_paused_as_the_library_says(evidence: Any) -> None:
    """Same queues, each with the library's isPaused."""
    expected = {(q["db"], q["prefix"], q["queue"]): q["paused"] for q in evidence.library["queues"].values()}
    actual = {(q["db"], q["namespace"], q["queue"]): q["paused"] for q in evidence.rows("queues")}
    assert expected == actual


def test_structure_sizes_are_the_librarys_counts(evidence: Any) -> None:
    """getJobCounts counts entries of structures: the same numbers of membership rows, markers aside."""
    for queue in evidence.library["queues"].values():
        counts = _counts(queue)
        if counts is None:
            continue
        rows = [
            m["structure"]
            for m in evidence.rows("membership")
            if (m["db"], m["namespace"], m["queue"]) == (queue["db"], queue["prefix"], queue["queue"])
        ]
        structures = {"waiting": ("wait", "paused")}
        # 6.x asks for `paused` no more: ids stranded there are counted nowhere.
        if evidence.library["version"].startswith("6."):
            structures["waiting"] = ("wait",)
        markers = sum(1 for s in rows if s == "marker")
        for state, count in counts.items():
            ours = sum(1 for s in rows if s in structures.get(state, (state,)))
            if state == "waiting" and markers and count != ours:
                # A list marker that is not the last entry is counted as a job by the library.
                assert ours < count <= ours + markers
            else:
                assert (queue["queue"], state, count) == (queue["queue"], state, ours)


def test_queue_counts_are_the_rows_of_jobs(evidence: Any) -> None:
    """`queues.counts` adds up to `jobs`."""
    expected: dict[tuple[int, str, str], dict[str, int]] = {
        (q["db"], q["namespace"], q["queue"]): {} for q in evidence.rows("queues")
    }
    for db, namespace, queue, _ in evidence.jobs:
        expected[db, namespace, queue] = {}
    for (db, namespace, queue, _), row in evidence.jobs.items():
        counts = expected[db, namespace, queue]
        counts[row["state"]] = counts.get(row["state"], 0) + 1
    actual = {(q["db"], q["namespace"], q["queue"]): dict(q["counts"]) for q in evidence.rows("queues")}
    assert expected == actual


def test_the_version_is_the_one_that_ran(evidence: Any) -> None:
    """`library_version` names the release, where a Queue object recorded one; the layout follows it."""
    version = evidence.library["version"]
    for queue in evidence.rows("queues"):
        assert queue["library_version"] in (None, f"bullmq:{version}")
        if queue["library_version"]:
            assert queue["layout"] == f"bullmq {version[0]}.x"
        else:
            assert queue["layout"].startswith("bullmq ")
        assert "meta.version" in queue["layout_why"]


def test_schedulers_are_the_librarys(evidence: Any) -> None:
    """getJobSchedulers: same ids, next times, patterns; the current job's id ends in the next time."""
    for queue in evidence.library["queues"].values():
        if queue["schedulers"] is None:
            continue
        ours = {
            row["schedule_id"]: row
            for row in evidence.rows("schedules")
            if (row["db"], row["namespace"], row["queue"]) == (queue["db"], queue["prefix"], queue["queue"])
        }
        assert {s["key"] for s in queue["schedulers"]} == ours.keys()
        for theirs in queue["schedulers"]:
            row = ours[theirs["key"]]
            assert theirs["next"] == row["next_at"]
            every = theirs.get("every")
            assert row["spec"] == (theirs.get("pattern") or f"every {every}")
            assert row["job_id"] == f"repeat:{theirs['key']}:{theirs['next']}"
            assert row["has_record"]
            if theirs.get("tz"):
                assert dict(row["details"])["tz"] == theirs["tz"]


def test_dependencies_are_as_many_as_the_library_counts(evidence: Any) -> None:
    """getDependenciesCount of every job: the same numbers of parent relations by each way."""
    ways = {"unprocessed": "dependencies", "processed": "processed", "ignored": "failed", "failed": "unsuccessful"}
    found: dict[tuple[Any, ...], int] = {}
    for relation in evidence.rows("relations"):
        if relation["kind"] == "parent":
            place = tuple(relation[c] for c in ("db", "target_namespace", "target_queue", "target_id", "via"))
            found[place] = found.get(place, 0) + 1
    for place, job in _answers(evidence).items():
        for theirs, count in (job["dependencies"] or {}).items():
            assert count == found.get((*place, ways[theirs]), 0), (place, theirs)
