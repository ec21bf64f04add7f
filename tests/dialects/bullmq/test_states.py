"""States, markers, eras and options on keys that no single release would write."""

from __future__ import annotations

from typing import Any

import pytest

from jobsleuth.dialects import Options

NOW = 1_700_000_000_000


def _states(evidence: Any) -> dict[str, str]:
    return {row["job_id"]: row["state"] for row in evidence.rows("jobs")}


def test_expired_keys_are_gone(rdb: Any) -> None:
    """A record, a list and a lock whose time had passed are in the file and no longer there."""
    rdb.db(0)
    rdb.queue(b"bull:q")
    rdb.job(b"bull:q:1", expire_at=NOW - 1)
    rdb.job(b"bull:q:2")
    rdb.put(b"bull:q:active", [b"1", b"2"])
    rdb.put(b"bull:q:wait", [b"2", b"3"], expire_at=NOW)
    rdb.put(b"bull:q:1:lock", b"old", expire_at=NOW - 1)
    rdb.put(b"bull:q:2:lock", b"new", expire_at=NOW + 1)
    evidence = rdb.read()
    assert {row["job_id"]: (row["state"], row["has_record"]) for row in evidence.rows("jobs")} == {
        "1": ("active", False),
        "2": ("active", True),
    }
    assert {m["structure"] for m in evidence.rows("membership")} == {"active"}
    assert {w["worker_id"]: w["valid"] for w in evidence.rows("workers")} == {"old": False, "new": True}
    assert evidence.role("bull:q:1") == "job"


def test_list_markers_are_no_jobs_unless_a_whole_job_is_so_named(rdb: Any) -> None:
    """`0` and `0:<ms>` in lists and in `stalled` are wake-ups of 2.x to 4.x; Bull, 1.x and 2.x allow such ids."""
    rdb.db(0)
    rdb.queue(b"bull:marked")
    rdb.put(b"bull:marked:wait", [b"0", b"1", b"0:1699999999000"])
    rdb.put(b"bull:marked:active", [b"0:0"])
    rdb.put(b"bull:marked:stalled", {b"0:0"})
    rdb.job(b"bull:marked:1")
    rdb.queue(b"bull:real")
    rdb.put(b"bull:real:wait", [b"0", b"0:9"])
    rdb.job(b"bull:real:0")
    rdb.job(b"bull:real:0:9")
    evidence = rdb.read()
    assert {(q, i): row["state"] for (_, _, q, i), row in evidence.jobs.items()} == {
        ("marked", "1"): "waiting",
        ("real", "0"): "waiting",
        ("real", "0:9"): "waiting",
    }
    markers = [
        (m["key"], m["position"], m["job_id"]) for m in evidence.rows("membership") if m["structure"] == "marker"
    ]
    assert sorted(markers, key=str) == [
        ("bull:marked:active", 0, "0:0"),
        ("bull:marked:stalled", None, "0:0"),
        ("bull:marked:wait", 0, "0"),
        ("bull:marked:wait", 2, "0:1699999999000"),
    ]


def test_ids_named_by_helper_structures_only_are_unknown(rdb: Any) -> None:
    """`stalled` and 3.x's `priority` decide nothing, yet the id is seen; `repeat` names schedules, not jobs."""
    rdb.db(0)
    rdb.queue(b"bull:q")
    rdb.put(b"bull:q:stalled", {b"7"})
    rdb.put(b"bull:q:priority", {b"8": 3.0})
    rdb.put(b"bull:q:repeat", {b"nightly": 1.7e12})
    evidence = rdb.read()
    assert _states(evidence) == {"7": "unknown", "8": "unknown"}
    assert {m["structure"]: m["decides_state"] for m in evidence.rows("membership")} == {
        "stalled": False,
        "priority": False,
        "repeat": False,
    }


def test_bull_queues_answer_in_bulls_words(rdb: Any) -> None:
    """Nothing of BullMQ in the queue: `paused` is a state and an orphan is `stuck` (Bull 4 getState)."""
    rdb.db(0)
    rdb.put(b"bull:old:meta-paused", b"1")
    rdb.put(b"bull:old:id", b"3")
    rdb.put(b"bull:old:paused", [b"1"])
    rdb.job(b"bull:old:1")
    rdb.job(b"bull:old:2", attemptsMade=b"2")
    evidence = rdb.read()
    assert _states(evidence) == {"1": "paused", "2": "stuck"}
    row = evidence.rows("queues")[0]
    assert (row["layout"], row["paused"], dict(row["counts"])) == ("bull 3.x-4.x", True, {"paused": 1, "stuck": 1})
    assert [(r["attempts"], r["attempts_started"]) for r in evidence.rows("jobs")] == [(0, None), (2, None)]


def test_an_id_lost_in_several_structures_is_one_row(rdb: Any) -> None:
    """No record, three structures: one row, the library's order, the due time of `delayed`."""
    rdb.db(0)
    rdb.queue(b"bull:q")
    rdb.put(b"bull:q:wait", [b"x", b"x"])
    rdb.put(b"bull:q:delayed", {b"x": float(1_700_000_050_000 * 4096 + 9)})
    evidence = rdb.read()
    assert [(r["job_id"], r["state"], r["scheduled_at"], r["key"]) for r in evidence.rows("jobs")] == [
        ("x", "delayed", 1_700_000_050_000, "bull:q:x")
    ]
    assert len(evidence.rows("membership")) == 3


def test_impossible_scores_are_kept_as_scores(rdb: Any) -> None:
    """Infinite or beyond any calendar: no due time, the score as stored, the state unharmed."""
    rdb.db(0)
    rdb.queue(b"bull:q")
    rdb.put(b"bull:q:delayed", {b"a": float("inf"), b"b": float("-inf"), b"c": 1e300})
    evidence = rdb.read()
    assert {m["job_id"]: (m["score"], m["due_at"]) for m in evidence.rows("membership")} == {
        "a": (float("inf"), None),
        "b": (float("-inf"), None),
        "c": (1e300, None),
    }
    assert set(_states(evidence).values()) == {"delayed"}


def test_attempts_made_goes_before_atm(rdb: Any) -> None:
    """A job of 4.x that 5.x took up has both: the library's own reader takes `attemptsMade` first."""
    rdb.db(0)
    rdb.queue(b"bull:q")
    rdb.job(b"bull:q:both", attemptsMade=b"2", atm=b"5")
    rdb.job(b"bull:q:new", atm=b"5", ats=b"6")
    rdb.job(b"bull:q:fresh")
    evidence = rdb.read()
    assert {r["job_id"]: (r["attempts"], r["attempts_started"]) for r in evidence.rows("jobs")} == {
        "both": (2, 0),
        "new": (5, 6),
        "fresh": (0, 0),
    }


@pytest.mark.parametrize(("limit", "kept"), [(None, b'{"a":1}'), (3, b'{"a'), (0, None)])
def test_payloads_are_cut_and_their_size_is_not(rdb: Any, limit: int | None, kept: bytes | None) -> None:
    """`--payload`: bytes kept; the size is always the whole."""
    rdb.db(0)
    rdb.queue(b"bull:q")
    rdb.job(b"bull:q:1", data=b'{"a":1}')
    row = rdb.read(Options(payload_limit=limit)).rows("jobs")[0]
    assert (row["payload"], row["payload_bytes"], row["payload_format"]) == (kept, 7, "json")


def test_parents_of_other_queues_and_of_none(rdb: Any) -> None:
    """`parentKey` divides by the known base, by `parent`, or at its last colon where the queue is not in the file."""
    rdb.db(0)
    rdb.queue(b"bull:kids")
    rdb.queue(b"app:prod:parents")
    rdb.job(b"bull:kids:1", parentKey=b"app:prod:parents:p:1:x")
    rdb.job(b"bull:kids:2", parentKey=b"gone:away:9")
    rdb.job(b"bull:kids:3", parentKey=b"gone:a:b:c", parent=b'{"id":"b:c","queueKey":"gone:a"}')
    evidence = rdb.read()
    assert {
        row["job_id"]: (row["parent_namespace"], row["parent_queue"], row["parent_id"]) for row in evidence.rows("jobs")
    } == {"1": ("app:prod", "parents", "p:1:x"), "2": ("gone", "away", "9"), "3": ("gone", "a", "b:c")}
    assert {(r["source_id"], r["target_queue"], r["target_id"], r["via"]) for r in evidence.rows("relations")} == {
        ("1", "parents", "p:1:x", "parentKey"),
        ("2", "away", "9", "parentKey"),
        ("3", "a", "b:c", "parentKey"),
    }


def test_repeatables_of_every_era_find_their_job(rdb: Any) -> None:
    """Ids by digest (md5 of name, id and md5 of the key), as runs of BullMQ 1.91 to 4.18 and of Bull 4 showed them."""
    rdb.db(0)
    rdb.queue(b"bull:rep")
    next_run = 1_796_043_600_000.0
    keys = {
        b"tick::::3600000": b"repeat:1a892f5984030862ecd0cd60b9cc4ec9:1796043600000",
        # Bull's own keys and ids.
        b"ev:jid::3600000": b"repeat:b2b0117332648b5047595ee69c5cb324:1796043600000",
    }
    rdb.put(b"bull:rep:repeat", dict.fromkeys(keys, next_run))
    for job in keys.values():
        rdb.job(b"bull:rep:" + job)
    evidence = rdb.read()
    assert {s["schedule_id"].encode(): s["job_id"].encode() for s in evidence.rows("schedules")} == keys
    assert {s["spec"] for s in evidence.rows("schedules")} == {"every 3600000"}
    assert not any(s["has_record"] for s in evidence.rows("schedules"))


def test_groups_of_the_paid_edition_are_membership_without_a_state(rdb: Any) -> None:
    """Pro keeps grouped jobs in lists of their own; the open-source getState knows nothing of them."""
    rdb.db(0)
    rdb.queue(b"bull:q")
    rdb.put(b"bull:q:groups:eu:1", [b"5"])
    rdb.put(b"bull:q:groups:eu:1:p", {b"6": 1.0})
    rdb.job(b"bull:q:5")
    rdb.job(b"bull:q:6")
    evidence = rdb.read()
    assert {(m["job_id"], m["structure"], m["group"]) for m in evidence.rows("membership")} == {
        ("5", "group", "eu:1"),
        ("6", "group", "eu:1"),
    }
    assert _states(evidence) == {"5": "unknown", "6": "unknown"}


def test_a_mixed_queue_says_so(rdb: Any) -> None:
    """`meta.version` names the era; signs of another are told in `layout_why`."""
    rdb.db(0)
    rdb.queue(b"bull:q", b"bullmq:6.7.0")
    rdb.put(b"bull:q:wait", [b"0:1699999999000"])
    row = rdb.read().rows("queues")[0]
    assert row["layout"] == "bullmq 6.x"
    assert "older releases: markers `0:<ms>` in a list" in row["layout_why"]
    assert dict(row["counts"]) == {}


def test_two_readings_are_the_same(fixture: Any, reread: Any) -> None:
    """Same input, same output: every table of a dump with all kinds of faults, read twice."""
    first, second = fixture("v6-faults"), reread("v6-faults")
    assert first.claims.roles == second.claims.roles
    assert first.claims.role.tolist() == second.claims.role.tolist()
    for name, table in first.tables.items():
        assert table.equals(second.tables[name]), name
