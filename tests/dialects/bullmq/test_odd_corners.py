"""What only some releases write, or only some names bring about; the bytes are those that real runs left behind."""

from __future__ import annotations

from typing import Any

import pytest

REPEATABLES = {
    "1.0.1": [
        ("b:c::::7200000", "repeat:b:c:a85922748de78b877cb08a74668f298d", "every 7200000"),
        ("tz:x:::Asia/Tokyo:0 4 * * *", "repeat:tz:x:f074ce6e64129d5fe10a7770d742cfa2", "0 4 * * *"),
    ],
    "1.23.0 and 5.1.5": [
        ("b:c::::7200000", "repeat:f1b80f12fd055cd650cffcf2b2082398", "every 7200000"),
        ("jid:id:with:::10800000", "repeat:625d3484a335f12b418e99b15bba8451", "every 10800000"),
        ("tz:x:::Asia/Tokyo:0 4 * * *", "repeat:d6d2c0a4122113021a49b9b85a844e14", "0 4 * * *"),
    ],
    "Bull 3.10.0 and 4.16.5": [
        ("b:c:::7200000", "repeat:694ce8c5b12ab9441c80c6c53e029365", "every 7200000"),
        ("b:c:x:y::7200000", "repeat:a8887eed47f83b61cfe854b8e45de1d3", "every 7200000"),
        ("t:z:k:l::Asia/Tokyo:0 4 * * *", "repeat:8894d47bac6fcaecf8d880f891594643", "0 4 * * *"),
    ],
}
"""Release → (member of `repeat`, job that it made without its time, spec) of names and ids that hold colons."""


@pytest.mark.parametrize("release", REPEATABLES)
def test_repeatable_jobs_whose_names_hold_colons_find_their_job(rdb: Any, release: str) -> None:
    """Name and id share the member's colons, and the job's id is a digest: the job that the library made is found."""
    rdb.db(0)
    if not release.startswith("Bull"):
        rdb.queue(b"bull:q")
    rdb.put(b"bull:q:id", b"9")
    rdb.put(b"bull:q:repeat", {member.encode(): 1796054400000.0 for member, _, _ in REPEATABLES[release]})
    jobs = [f"{job}:1796054400000" for _, job, _ in REPEATABLES[release]]
    for job in jobs:
        rdb.job(b"bull:q:" + job.encode(), opts=b'{"attempts":1,"delay":0,"timestamp":1699999990000}')
    rdb.put(b"bull:q:delayed", {job.encode(): 1796054400000.0 * 4096 for job in jobs})
    rdb.put(b"bull:q:wait", [b"other"])
    rows = {s["schedule_id"]: s for s in rdb.read().rows("schedules")}
    assert {member: (rows[member]["job_id"], rows[member]["spec"]) for member, _, _ in REPEATABLES[release]} == {
        member: (f"{job}:1796054400000", spec) for member, job, spec in REPEATABLES[release]
    }


@pytest.mark.parametrize("release", ["bull3", "bull4", "v4"])
def test_a_schedule_whose_job_is_gone_still_names_the_id_that_its_library_gave(
    rdb: Any, fixture: Any, release: str
) -> None:
    """Bull digests the same member to another id than BullMQ: without any job the queue's own library decides."""
    evidence = fixture(f"{release}-every-structure")
    given = {}
    for queue in evidence.library["queues"].values():
        for repeatable in queue.get("repeatables") or []:
            ids = [job_id for job_id, job in queue["jobs"].items() if job_id.endswith(f":{repeatable['next']}")]
            if len(ids) == 1:
                given[repeatable["key"]] = (float(repeatable["next"]), ids[0])
    assert len(given) >= 3
    rdb.db(0)
    if release == "v4":
        rdb.queue(b"bull:q")
    rdb.put(b"bull:q:id", b"9")
    rdb.put(b"bull:q:wait", [b"1"])
    rdb.job(b"bull:q:1", opts=b'{"attempts":1,"delay":0,"timestamp":1699999990000}')
    rdb.put(b"bull:q:repeat", {member.encode(): at for member, (at, _) in given.items()})
    rows = rdb.read().rows("schedules")
    assert {s["schedule_id"]: s["job_id"] for s in rows} == {member: job_id for member, (_, job_id) in given.items()}


def test_a_parents_own_stream_makes_no_queue_of_it(fixture: Any) -> None:
    """Up to 1.24 the release of a parent is told in `<parent>:events`: an event of that job, which stays a job."""
    evidence = fixture("v1.23-every-structure")
    streams = [
        key
        for (_, key), stored in evidence.raw_values.items()
        if stored["type"] == "stream" and key.startswith("bull:parents:")
    ]
    assert len(streams) == 3
    assert {evidence.role(key) for key in streams} == {"parent-events"}
    assert not [q for q in evidence.rows("queues") if q["queue"].startswith("parents:")]
    told = {e["job_id"] for e in evidence.rows("events") if e["queue"] == "parents"}
    assert told == {key.split(":")[2] for key in streams}
    results = {r["target_id"] for r in evidence.rows("relations") if r["via"] == "processed"}
    assert told <= results


def test_a_stream_that_tells_of_others_is_a_queues(rdb: Any) -> None:
    """Only events of the name's own end are a parent's: a queue `q:7` whose stream names other jobs stays a queue."""
    rdb.db(0)
    rdb.queue(b"p:q")
    rdb.put(b"p:q:7:wait", [b"7", b"8"])
    rdb.put(b"p:q:7:id", b"8")
    assert {(q["namespace"], q["queue"]) for q in rdb.read().rows("queues")} == {("p", "q"), ("p:q", "7")}


@pytest.mark.parametrize(
    ("fields", "layout"),
    [
        # Written by BullMQ 6.7.0, 6.7.0 again (completed) and Bull 4.16.5.
        ({"opts": b'{"attempts":0}'}, "bullmq 1.x-6.x"),
        ({"opts": b'{"attempts":0}', "ats": b"1", "atm": b"1", "processedOn": b"1699999990001"}, "bullmq 5.x-6.x"),
        ({"opts": b'{"attempts":1,"delay":0,"timestamp":1699999990000}'}, "bull 3.x-4.x"),
    ],
)
def test_jobs_tell_whose_a_queue_is_when_its_own_keys_are_gone(rdb: Any, fields: dict[str, bytes], layout: str) -> None:
    """`meta` and `events` deleted or lost with the end of the file: Bull's options hold a time, BullMQ's do not."""
    rdb.db(0)
    rdb.put(b"bull:q:id", b"2")
    rdb.put(b"bull:q:wait", [b"1"])
    rdb.job(b"bull:q:1", **fields)
    rdb.job(b"bull:q:2", **fields)
    evidence = rdb.read()
    assert [q["layout"] for q in evidence.rows("queues")] == [layout]
    states = {row["job_id"]: row["state"] for row in evidence.rows("jobs")}
    assert states == {"1": "waiting", "2": "stuck" if layout.startswith("bull ") else "unknown"}


def test_children_of_a_job_called_metrics(rdb: Any) -> None:
    """Its ignored children share a hash with the queue's counters, as 6.7.0 wrote it: both are read."""
    rdb.db(0)
    rdb.queue(b"bull:q")
    rdb.job(b"bull:q:metrics")
    rdb.put(b"bull:q:waiting-children", {b"metrics": 1699999990000.0})
    counters = {b"count": b"3", b"prevTS": b"1699999980000", b"prevCount": b"1"}
    rdb.put(b"bull:q:metrics:failed", {b"bull:kids:ign:a:b": b"no ign", **counters})
    evidence = rdb.read()
    assert [(r["via"], r["source_queue"], r["source_id"], r["target_id"]) for r in evidence.rows("relations")] == [
        ("failed", "kids:ign:a", "b", "metrics")
    ]
    assert dict(evidence.rows("queues")[0]["counters"])["metrics_failed"] == 3
    assert evidence.role("bull:q:metrics:failed") == "metrics"


def test_a_lost_parent_is_enough_for_a_queue(rdb: Any) -> None:
    """1.x left `id` and `waiting-children` when the parent's record went: still a queue, with a ghost in it."""
    rdb.db(0)
    rdb.put(b"bull:pr:id", b"1")
    rdb.put(b"bull:pr:waiting-children", {b"gone": 1699999990000.0})
    rdb.put(b"bull:pr:gone:dependencies", {b"bull:prk:left"})
    evidence = rdb.read()
    assert [(r["job_id"], r["state"], r["has_record"]) for r in evidence.rows("jobs")] == [
        ("gone", "waiting-children", False)
    ]


PRIORITIES = {
    "five-2": 9, "plain-0": 7, "plain-1": 7, "plain-2": 2097151, "plain-3": 0, "five-0": 0, "five-1": 0, "plain-4": 0,
    "plain-5": 0, "delayed-four": 2, "delayed-none": 3,
}  # fmt: skip
"""Job of the scenario → the priority that it was changed to last."""


@pytest.mark.parametrize("release", ["v3", "v4", "v5.0", "v5.40", "v5", "v6"])
def test_changed_priorities(fixture: Any, release: str) -> None:
    """The last priority asked for is the job's, and the rank in `prioritized` is that priority."""
    evidence = fixture(f"{release}-priorities")
    for queue in ("changed", "changed-on-hold"):
        found = {job_id: row["priority"] for (_, _, q, job_id), row in evidence.jobs.items() if q == queue}
        assert found == PRIORITIES
        ranked = {
            row["job_id"]: int(row["score"]) >> 32
            for row in evidence.rows("membership")
            if (row["queue"], row["structure"]) == (queue, "prioritized")
        }
        assert ranked == {job_id: PRIORITIES[job_id] for job_id in ranked}
        assert {job_id for job_id in ranked if PRIORITIES[job_id]} == (
            set() if release == "v3" else {"five-2", "plain-0", "plain-1", "plain-2"}
        )
