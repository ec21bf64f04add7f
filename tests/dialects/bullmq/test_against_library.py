"""Every job of every dump against what the library itself answered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jobsleuth.dialects.bullmq.states import BULL_ORDER, BULLMQ_ORDER, LATEST_MS

from .conftest import text


def _answers(evidence: Any) -> dict[tuple[int, str, str, str], dict[str, Any]]:
    return {
        (queue["db"], queue["prefix"], queue["queue"], job_id): job
        for queue in evidence.library["queues"].values()
        for job_id, job in queue["jobs"].items()
    }


def test_every_id_has_the_state_the_library_gives(evidence: Any) -> None:
    """getState of the same release, for every id of every queue; where it raises the row says where the id is."""
    expected = {
        place: _by_place(evidence, place) if job["stateError"] else job["state"]
        for place, job in _answers(evidence).items()
    }
    actual = {place: evidence.jobs[place]["state"] for place in expected if place in evidence.jobs}
    assert expected == actual


def _by_place(evidence: Any, place: tuple[int, str, str, str]) -> str:
    """The first structure of the library's order that holds the id by raw replies; keys of a wrong type hold none."""
    db, prefix, queue, job_id = place
    for structure, state in BULL_ORDER if evidence.library["library"] == "bull" else BULLMQ_ORDER:
        stored = evidence.raw_values.get((db, f"{prefix}:{queue}:{structure}"))
        if stored is None or stored["type"] not in ("list", "zset"):
            continue
        if job_id in [m if stored["type"] == "list" else m[0] for m in stored["value"]]:
            return state
    return "stuck" if evidence.library["library"] == "bull" else "unknown"


def test_a_key_in_the_place_of_a_structure_is_told(evidence: Any) -> None:
    """Where getState raises, `layout_why` says which key makes it so."""
    for queue in evidence.library["queues"].values():
        if any(job["stateError"] for job in queue["jobs"].values()):
            place = (queue["db"], queue["prefix"], queue["queue"])
            row = next(q for q in evidence.rows("queues") if (q["db"], q["namespace"], q["queue"]) == place)
            assert "the library's own getState fails for every job" in row["layout_why"]


def test_is_finished_sees_what_membership_says(evidence: Any) -> None:
    """isFinished: no record (-1, until 2.x -5), 1 completed, 2 failed, else 0, whatever else holds the id."""
    missing = -5 if evidence.library["version"].startswith(("1.", "2.")) else -1
    inside = {
        (m["db"], m["namespace"], m["queue"], m["job_id"], m["structure"])
        for m in evidence.rows("membership")
        if m["structure"] in ("completed", "failed")
    }
    for place, job in _answers(evidence).items():
        if job.get("finished") is None:
            continue
        expected = 1 if (*place, "completed") in inside else 2 if (*place, "failed") in inside else 0
        assert job["finished"] == (expected if evidence.jobs[place]["has_record"] else missing), place


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
    if theirs not in evidence.library.get("properties", [theirs]):
        # This release's Job has no such property; the stored fields are compared with the server's replies.
        return
    if ours == "priority" and tuple(map(int, evidence.library["version"].split("."))) < (5, 41, 0):
        # Until 5.40 a Job shows the priority that it was added with, and the record holds what it was changed to.
        for job, row in _readable(evidence):
            assert job["priority"] == (job["opts"].get("priority") or 0)
            stored = dict(evidence.raw_values[row["db"], row["key"]]["value"])
            assert row["priority"] == int(stored["priority"])
        return
    pairs = [(job["name"], _as_read(ours, job[theirs], row[ours]), row[ours]) for job, row in _readable(evidence)]
    # Numbers that JavaScript could not parse came as null.
    assert [(name, expected) for name, expected, _ in pairs] == [(name, actual) for name, _, actual in pairs]


def _as_read(column: str, theirs: Any, ours: Any) -> Any:
    """The library's answer as a column can hold it, where JavaScript and a table differ by nature."""
    if isinstance(theirs, int | float):
        if column.endswith("_at") and abs(theirs) > LATEST_MS:
            return None
        if abs(theirs) >= 1 << 63:
            return None
        # A double cannot tell it from its neighbours; ours is as stored.
        if abs(theirs) >= 1 << 53 and ours is not None and float(ours) == theirs:
            return ours
    # To the library an empty text is none; a row keeps what is stored.
    return ours if theirs is None and ours == "" else theirs


def test_opts_attempts_is_max_attempts(evidence: Any) -> None:
    """`max_attempts` is the library's `job.opts.attempts`, 0 where the options do not name it."""
    for job, row in _readable(evidence):
        expected = job["opts"]["attempts"]
        assert (int(expected) if isinstance(expected, str) else expected) == row["max_attempts"]


def test_json_fields_parse_to_what_the_library_parsed(evidence: Any) -> None:
    """Return value, progress, stack traces and payload hold the JSON that the library read."""
    for job, row in _readable(evidence):
        if isinstance(job["data"], dict) and "omittedChars" in job["data"]:
            continue
        if row["payload_format"] == "json":
            raw = job["opts"].get("preventParsingData")
            assert (row["payload"].decode() if raw else json.loads(row["payload"])) == _json_like(
                job["data"], row["payload"]
            )
        if row["stacktrace"] is not None and job["stacktrace"]:
            assert json.loads(row["stacktrace"]) == job["stacktrace"]
        if row["progress"] is not None:
            assert json.loads(row["progress"] or "0") == job["progress"]
        if job["returnvalue"] is not None:
            assert row["result"] is not None
            try:
                assert json.loads(row["result"]) == job["returnvalue"]
            except ValueError:
                # What does not parse the library hands out as it is.
                assert row["result"].decode() == job["returnvalue"]


def _json_like(parsed: Any, stored: bytes) -> Any:
    """The library's parse, but for numbers no double holds: JavaScript rounded them, or made null of them."""
    rounded = json.loads(stored, parse_int=lambda digits: float(digits) if len(digits) > 16 else int(digits))
    return json.loads(stored) if b"1e999" in stored or rounded == parsed else parsed


def test_parents_are_divided_as_the_library_divides_them(evidence: Any) -> None:
    """Parent queue and id spell the stored parentKey and match the library's `parent`."""
    for job, row in _readable(evidence):
        if job["parentKey"] is None:
            assert row["parent_id"] is None
            continue
        assert f"{row['parent_namespace']}:{row['parent_queue']}:{row['parent_id']}".lstrip(":") == job["parentKey"]
        if job["parent"]:
            assert row["parent_id"] == job["parent"]["id"]


def test_queues_are_named_and_paused_as_the_library_says(evidence: Any) -> None:
    """Same queues, each with the library's isPaused."""
    expected = {(q["db"], q["prefix"], q["queue"]): q["paused"] for q in evidence.library["queues"].values()}
    actual = {(q["db"], q["namespace"], q["queue"]): q["paused"] for q in evidence.rows("queues")}
    assert expected == actual


_MEMBERS = {"waiting": ("wait",), "wait": ("wait",)}


def test_structure_sizes_are_the_librarys_counts(evidence: Any) -> None:
    """getJobCounts counts entries of structures: the same numbers of membership rows, markers by the release's rule."""
    rows: dict[tuple[Any, ...], int] = {}
    for m in evidence.rows("membership"):
        # Under the name of the key, so that markers are found in the lists that hold them.
        key = (m["db"], m["key"], m["structure"] == "marker")
        rows[key] = rows.get(key, 0) + 1
    for queue in evidence.library["queues"].values():
        for state, count in (queue["counts"] or {}).items():
            ours = 0
            for structure in _MEMBERS.get(state, (state,)):
                key = f"{queue['prefix']}:{queue['queue']}:{structure}"
                ours += rows.get((queue["db"], key, False), 0) + rows.get((queue["db"], key, True), 0)
                ours -= _uncounted(evidence, (queue["db"], key))
            assert (queue["queue"], state, count) == (queue["queue"], state, ours)


def _uncounted(evidence: Any, place: tuple[int, str]) -> int:
    """List markers that getJobCounts leaves out: 2.x a `0` at the head of `paused`, later releases one at the tail.

    2.x means to leave it out of `wait` as well, and looks for the count under another name.
    """
    stored = evidence.raw_values.get(place)
    if evidence.library["library"] == "bull" or stored is None or stored["type"] != "list":
        return 0
    major = int(evidence.library["version"].split(".")[0])
    if major == 2:
        return int(place[1].endswith(":paused") and stored["value"][0] == "0")
    return int(major > 2 and text(stored["value"][-1]).startswith("0:"))


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


def test_the_layout_is_of_the_release_that_ran(evidence: Any) -> None:
    """`library_version` names the release, where a Queue object recorded one; the layout is its era and says why."""
    library, version = evidence.library["library"], evidence.library["version"]
    for queue in evidence.rows("queues"):
        if library == "bull":
            assert queue["library_version"] is None
            assert queue["layout"] in ("bull 3.x-4.x", f"bull {version[0]}.x")
            assert "no events, markers or options of BullMQ" in queue["layout_why"]
            continue
        assert queue["library_version"] in (None, f"bullmq:{version}")
        if queue["library_version"]:
            assert queue["layout"] == f"bullmq {version[0]}.x"
        else:
            eras = [int(part[0]) for part in queue["layout"].removeprefix("bullmq ").split("-")]
            assert eras[0] <= int(version[0]) <= eras[-1], (queue["queue"], queue["layout"], queue["layout_why"])
        assert "meta.version" in queue["layout_why"]


def test_repeatable_jobs_are_the_librarys(evidence: Any) -> None:
    """getRepeatableJobs: same keys, next times, patterns; the current job is one that exists."""
    for queue in evidence.library["queues"].values():
        if not queue.get("repeatables"):
            continue
        place = (queue["db"], queue["prefix"], queue["queue"])
        rows = [s for s in evidence.rows("schedules") if (s["db"], s["namespace"], s["queue"]) == place]
        assert {(r["key"], r["next"]) for r in queue["repeatables"]} == {(r["schedule_id"], r["next_at"]) for r in rows}
        theirs = {r["key"]: r.get("pattern") or r.get("cron") or str(r["every"]) for r in queue["repeatables"]}
        # Until 5.0 the library gives the milliseconds of an `every` as its pattern.
        theirs = {key: f"every {spec}" if spec.isdigit() else spec for key, spec in theirs.items()}
        assert theirs == {r["schedule_id"]: r["spec"] for r in rows}
        assert {(*place, r["job_id"]) for r in rows} <= evidence.jobs.keys()


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


def test_logs_are_the_librarys(evidence: Any) -> None:
    """getJobLogs of every job: the same lines in the same order."""
    ours: dict[tuple[Any, ...], list[tuple[int, str]]] = {}
    for row in evidence.rows("logs"):
        place = (row["db"], row["namespace"], row["queue"], row["job_id"])
        ours.setdefault(place, []).append((row["position"], row["line"]))
    for place, job in _answers(evidence).items():
        if job["readable"]:
            lines = [line for _, line in sorted(ours.get(place, []))]
            assert (len(lines), lines) == (job["logs"]["count"], job["logs"]["logs"])
