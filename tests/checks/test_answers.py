"""What a finding answers beyond what is wrong: when it heals, and what each statement rests on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jobsleuth.checks import find_check, run_checks
from jobsleuth.pipeline import AnalyzeOptions, analyze
from tests.tables import T, build, evidence, rows_of


def ms(moment: Any) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1000)


def test_a_stalled_check_to_come_says_when_an_unheld_job_is_put_back(tmp_path: Path) -> None:
    """The key that a check leaves expires when the next one may be made; that one is made within the interval (30 s),
    moves what is marked, and marks the rest for the one after it. Where no check was made nothing is promised."""
    keys = [
        {"queue": "q", "key": "bull:q:stalled-check", "type": "string", "role": "stalled-check", "expire_at": "T+10s"}
    ]
    places = [("q", "new"), ("q", "marked"), ("dead", "new")]
    membership = [{"queue": q, "job_id": j, "structure": "active", "decides_state": True} for q, j in places]
    membership.append({"job_id": "marked", "structure": "stalled", "kind": "set"})
    queues = [{"queue": q, "layout": "bullmq 5.x"} for q in ("q", "dead")]
    tables = {"keys": keys, "membership": membership, "queues": queues}
    case = build(tmp_path / "case", {n: rows_of(n, rows) for n, rows in tables.items()}, [evidence(0)])
    found = run_checks(case, checks=[find_check("LV002")]).findings.to_pylist()
    assert {(f["queue"], f["job_id"]): (ms(f["heals_at"]), f["heals_basis"]) for f in found} == {
        ("q", "marked"): (T + 40_000, "inferred"),
        ("q", "new"): (T + 70_000, "inferred"),
        ("dead", "new"): (None, "derived"),
    }


def test_what_ends_with_an_expiry_heals_then(tmp_path: Path) -> None:
    """A lock on a deleted job, a deduplication key of one, a rate limit: each says the moment of its end."""
    tables = {
        "workers": [{"kind": "lock", "job_id": "gone", "valid": True, "valid_until": "T+20s"}],
        "relations": [
            {"kind": "deduplication", "source_id": "d", "target_id": "lost", "valid_until": "T+1h"},
            {"kind": "deduplication", "source_id": "e", "target_id": "lost"},
        ],
        "queues": [{"layout": "bullmq 5.x", "limits": {"limiter": 5, "max": 5, "limiter_ttl_ms": 3_000}}],
        "membership": [{"job_id": "1", "structure": "wait", "decides_state": True}],
    }
    case = build(tmp_path / "case", {n: rows_of(n, rows) for n, rows in tables.items()}, [evidence(0)])
    checks = [find_check(c) for c in ("LV007", "LV014", "UQ002")]
    found = run_checks(case, checks=checks).findings.to_pylist()
    assert sorted((f["check_id"], ms(f["heals_at"]) or 0) for f in found) == [
        ("LV007", T + 20_000), ("LV014", T + 3_000), ("UQ002", 0), ("UQ002", T + 3_600_000),
    ]  # fmt: skip


def test_every_statement_says_what_it_rests_on(tmp_path: Path) -> None:
    """Where something is said of since when, by whom, healing or retry, so is its basis, of jobs and of queues."""
    tables = {
        "queues": [
            {"paused": True, "paused_at": "T-9d", "layout": "bullmq 5.x", "counts": {"waiting": 1},
             "oldest_waiting_at": "T-9d"}
        ],
        "jobs": [{"job_id": "ghost", "has_record": False, "state": "waiting"}],
        "membership": [{"job_id": "ghost", "structure": "paused", "decides_state": True}],
    }  # fmt: skip
    case = build(tmp_path / "case", {n: rows_of(n, rows) for n, rows in tables.items()}, [evidence(0)])
    found = run_checks(case).findings.to_pylist()
    assert {f["check_id"] for f in found} >= {"LV021", "MB001"}
    words = {"observed", "derived", "inferred"}
    for f in found:
        assert f["basis"] in words
        for said, basis in (("since_from", "since"), ("since_to", "since"), ("held_by", "held_by"), ("heals", "heals")):
            assert f[said] is None or f[f"{basis}_basis"] in words, (f["check_id"], said)
        assert f["retry"] is None or f["retry_basis"] in words


def test_several_holders_are_told_in_one_order(tmp_path: Path) -> None:
    """A lease and a server both hold these tasks: whatever the order of the rows, the sentence is the same."""
    dump = Path(__file__).parents[2] / "fixtures/asynq/crash-servers-gone-0.13.1/evidence.rdb"
    case = analyze([dump], tmp_path / "case", AnalyzeOptions())
    told = [f["held_by"].split("; ") for f in case.arrow("findings").to_pylist() if f["job_id"]]
    assert [len(holders) for holders in told] == [2, 2, 2]
    assert all(holders == sorted(holders, reverse=True) for holders in told)


def test_an_interval_does_not_end_before_it_begins(tmp_path: Path) -> None:
    """The snapshot's time has whole seconds, and clients' clocks may be ahead: what was seen 700 ms after it was
    so before that second was over. Where the snapshot's time is not known, nothing bounds it."""
    tables = {
        "jobs": [
            {"job_id": "1", "has_record": True, "record_complete": True, "state": "unknown", "created_at": "T+700ms"}
        ],
        "queues": [{"layout": "bullmq 5.x"}],
    }
    rows = {n: rows_of(n, r) for n, r in tables.items()}
    timed = build(tmp_path / "timed", rows, [evidence(0)])
    untimed = build(tmp_path / "untimed", rows, [evidence(0, as_of_ms=None)])
    told = [run_checks(case, checks=[find_check("MB002")]).findings.to_pylist()[0] for case in (timed, untimed)]
    assert [(ms(f["since_from"]), ms(f["since_to"])) for f in told] == [(T + 700, T + 1_000), (T + 700, None)]


def test_a_lease_tells_when_its_task_was_last_held(tmp_path: Path) -> None:
    """Asynq sets a lease 30 s ahead at each beat: the last one was half a minute before its end. A deadline tells
    nothing of the kind."""
    tables = {
        "jobs": [
            {"job_id": j, "has_record": True, "record_complete": False, "state": "active", "queue": j}
            for j in ("new", "old")
        ],
        "workers": [
            {"kind": "lease", "queue": "new", "job_id": "new", "key": "asynq:{new}:lease", "valid_until": "T-10s"},
            {"kind": "lease", "queue": "old", "job_id": "old", "key": "asynq:{old}:deadlines", "valid_until": "T-10s"},
        ],
    }  # fmt: skip
    case = build(tmp_path / "case", {n: rows_of(n, rows, "asynq") for n, rows in tables.items()}, [evidence(0)])
    found = {f["job_id"]: f for f in run_checks(case, checks=[find_check("CN003")]).findings.to_pylist()}
    assert (ms(found["new"]["since_from"]), ms(found["new"]["since_to"])) == (T - 40_000, T)
    assert found["new"]["since_why"] == "after the last renewal of its lease"
    assert (found["old"]["since_from"], ms(found["old"]["since_to"])) == (None, T)


def test_a_queue_that_nobody_serves_says_since_when(tmp_path: Path) -> None:
    """Not before its oldest job was ready, and not before the last sign of a worker."""
    queues = [
        {"queue": "stopped", "layout": "bullmq 4.x", "last_worker_sign_at": "T-10m"},
        {"queue": "never", "layout": "bullmq 4.x"},
    ]
    jobs = [{"queue": q, "job_id": "1", "state": "waiting", "created_at": "T-20m"} for q in ("stopped", "never")]
    membership = [{"queue": q, "job_id": "1", "structure": "wait", "decides_state": True} for q in ("stopped", "never")]
    rows = {"queues": queues, "jobs": jobs, "membership": membership}
    case = build(tmp_path / "case", {n: rows_of(n, r) for n, r in rows.items()}, [evidence(0)])
    found = {f["queue"]: f for f in run_checks(case, checks=[find_check("LV008")]).findings.to_pylist()}
    assert {q: (ms(f["since_from"]), ms(f["since_to"]), f["since_why"]) for q, f in found.items()} == {
        "stopped": (T - 600_000, T, "after the latest sign of a worker"),
        "never": (T - 1_200_000, T, "after the oldest of its jobs became ready"),
    }


def test_of_a_finished_job_without_a_record_its_place_tells_that_it_ran(tmp_path: Path) -> None:
    """There is no record that could hold anything; the set of failed jobs names it."""
    tables = {
        "jobs": [{"job_id": "1", "has_record": False, "state": "failed"}],
        "membership": [{"job_id": "1", "structure": "failed", "kind": "zset", "decides_state": True}],
    }
    case = build(tmp_path / "case", {n: rows_of(n, rows) for n, rows in tables.items()}, [evidence(0)])
    found = run_checks(case, checks=[find_check("MB001")]).findings.to_pylist()[0]
    assert (found["retry"], found["retry_why"]) == ("unsafe", "it stands among the failed jobs")


def test_what_a_servers_beat_decides_is_told_by_its_registration(tmp_path: Path) -> None:
    """A server says everything anew before its registration ends; then it has done so, or it is dead."""
    workers = [
        {"kind": "server", "queue": None, "worker_id": "s", "host": "h", "pid": 1, "valid": True, "valid_until": "T+7s",
         "details": {"active_worker_count": "2", "record": "missing", "listed_until_ms": "1"}, "key": "k"},
    ]  # fmt: skip
    case = build(tmp_path / "case", {"workers": rows_of("workers", workers, "asynq")}, [evidence(0)])
    found = run_checks(case, checks=[find_check("CT006"), find_check("LV029")]).findings.to_pylist()
    assert {f["check_id"]: ms(f["heals_at"]) for f in found} == {"CT006": T + 7_000, "LV029": T + 7_000}


def test_a_task_of_a_group_may_have_been_aggregated(tmp_path: Path) -> None:
    """An aggregator adds the task that it made of a group before it deletes the members: where it died in between, both
    are there. A scheduled task that holds no attempt has not started."""
    jobs = [
        {"job_id": state, "state": "unknown", "claimed_state": state, "has_record": True, "record_complete": True}
        for state in ("aggregating", "scheduled")
    ]
    case = build(tmp_path / "case", {"jobs": rows_of("jobs", jobs, "asynq")}, [evidence(0)])
    found = {f["job_id"]: f for f in run_checks(case, checks=[find_check("MB002")]).findings.to_pylist()}
    assert {job: f["retry"] for job, f in found.items()} == {"aggregating": "unknown", "scheduled": "safe"}
    assert found["aggregating"]["retry_why"] == "whether a task was made of its group, and run, is not known"
