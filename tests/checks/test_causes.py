"""One cause, one key: which findings are put down to the same thing, and which are left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jobsleuth.case import Case
from jobsleuth.checks import Accepted, Policy, all_checks, run_checks
from jobsleuth.checks.causes import BY_KIND, EVIDENCE_CUT, RULES
from jobsleuth.pipeline import AnalyzeOptions, analyze
from jobsleuth.reports import document
from tests.tables import T, build, evidence, rows_of

FIXTURES = Path(__file__).parents[2] / "fixtures"


def made(folder: Path, tables: dict[str, list[dict[str, Any]]], dialect: str = "bullmq", **info: Any) -> Case:
    folder.mkdir(exist_ok=True)
    return build(folder / "case", {n: rows_of(n, rows, dialect) for n, rows in tables.items()}, [evidence(0, **info)])


def explained(case: Case, policy: Policy | None = None) -> dict[str | None, list[tuple[str, str | None]]]:
    """Cause → (check, job) of its findings."""
    found: dict[str | None, list[tuple[str, str | None]]] = {}
    for row in run_checks(case, policy).findings.to_pylist():
        found.setdefault(row["cause"], []).append((row["check_id"], row["job_id"]))
    return found


def test_rules_name_checks_that_exist_and_kinds_are_unique() -> None:
    """A rule about a check that is gone would silently explain nothing."""
    ids = {check.id for check in all_checks()}
    for rule in RULES:
        assert rule.signs | rule.explains | rule.explains_idle <= ids, rule.kind
        assert rule.signs and ":" not in rule.kind
    assert len(BY_KIND) == len(RULES)


@pytest.mark.parametrize(
    ("fixture", "causes"),
    [
        ("bullmq/v5-crash-locks-expired", {"workers-died:bull/bindery": 2, "workers-died:bull/press": 3}),
        ("bullmq/v6-crash-locks-expired", {"workers-died:bull/bindery": 2, "workers-died:bull/press": 3}),
        ("asynq/crash-lease-expired-0.26.0", {"process-died": 6}),
        ("asynq/crash-servers-gone-0.26.0", {"process-died": 4}),
    ],
)
def test_a_killed_worker_explains_all_that_it_left(tmp_path: Path, fixture: str, causes: dict[str, int]) -> None:
    """Of dumps taken after a kill: the workers' jobs, locks and leases, the server's and scheduler's registration."""
    case = analyze([FIXTURES / fixture / "evidence.rdb"], tmp_path / "case", AnalyzeOptions())
    rows = case.arrow("causes").to_pylist()
    found = {r["cause"] if r["kind"] == "workers-died" else r["kind"]: r["findings"] for r in rows}
    assert found == causes
    assert case.arrow("findings").column("cause").null_count == 0


@pytest.mark.parametrize(
    ("dump", "causes"),
    [
        ("v5.40", {"keys-evicted": 4, "two-prefixes:mails": 1, "queue-abandoned:bull/moved": 3}),
        ("v5.0", {"job-stranded:bull/five-minutes": 2, "rate-limited:bull/lines": 2, "workers-died:bull/unwatched": 1}),
        ("bull3", {"schedules-lost:bull/crons": 7, "workers-died:bull/restarted": 1}),
    ],
)
def test_reported_incidents_have_the_cause_that_was_found_then(
    tmp_path: Path, dump: str, causes: dict[str, int]
) -> None:
    """What the reports say it was: an eviction policy, a prefix that was set twice or changed, a limiter without end, a
    queue emptied under its schedules, a worker that was restarted."""
    case = analyze([FIXTURES / "incidents" / f"{dump}.rdb"], tmp_path / "case", AnalyzeOptions())
    assert {r["cause"]: r["findings"] for r in case.arrow("causes").to_pylist()} == causes


def test_a_dead_worker_explains_the_jobs_that_wait_but_not_where_another_lives(tmp_path: Path) -> None:
    """Overdue jobs of a queue whose only worker died belong to its death; where a lock lives they stand alone, and a
    parent that waits for the dead worker's job is counted."""
    tables: dict[str, list[dict[str, Any]]] = {
        "jobs": [],
        "membership": [],
        "queues": [],
        "workers": [],
        "relations": [],
    }
    for queue in ("dead", "half"):
        tables["queues"].append({"queue": queue, "layout": "bullmq 5.x"})
        for job, structure in (("stuck", "active"), ("late", "delayed")):
            state = {"active": "active", "delayed": "delayed"}[structure]
            tables["jobs"].append(
                {"queue": queue, "job_id": job, "has_record": True, "state": state, "started_at": "T-1h"}
            )
            due = {"due_at": "T-1h"} if structure == "delayed" else {}
            tables["membership"].append(
                {"queue": queue, "job_id": job, "structure": structure, "decides_state": True, **due}
            )
    tables["workers"].append({"queue": "half", "kind": "lock", "job_id": "other", "valid": True, "valid_until": "T+9s"})
    tables["relations"].append(
        {
            "kind": "parent", "via": "dependencies", "source_queue": "dead", "source_id": "stuck",
            "target_queue": "flows", "target_id": "p",
        }
    )  # fmt: skip
    case = made(tmp_path, tables)
    found = explained(case)
    assert {("LV002", "stuck"), ("LV004", "late")} <= set(found["workers-died:bull/dead"])
    assert found["workers-died:bull/half"] == [("LV002", "stuck")]
    waiting = {r["cause"]: r["waiting_parents"] for r in run_checks(case).causes.to_pylist()}
    assert waiting == {"workers-died:bull/dead": 1, "workers-died:bull/half": 0}


def test_a_silent_consumer_explains_its_own_entries_and_no_other_s(tmp_path: Path) -> None:
    """Entries that were delivered long ago belong to the consumer that holds them; another's stand alone, and so do
    those of a consumer of that name in another group."""
    held = [("q", "dead", "1-0"), ("q", "slow", "2-0"), ("other", "dead", "3-0")]
    jobs = [
        {"queue": q, "job_id": j, "state": "pending", "has_record": True, "started_at": "T-1d", "worker_name": w}
        for q, w, j in held
    ]
    workers = [{"queue": "q", "kind": "consumer", "worker_id": "dead", "holds": 1, "seen_at": "T-1d", "key": "s"}]
    found = explained(made(tmp_path, {"jobs": jobs, "workers": workers}, "streams"))
    assert set(found["consumer-silent:orders/q/dead"]) == {("SM004", None), ("SM002", "1-0")}
    assert {j for c, j in found[None] if c == "SM002"} == {"2-0", "3-0"}


def test_findings_of_one_check_stand_alone(tmp_path: Path) -> None:
    """Two ghosts of which nothing else speaks have no other cause than what their check says."""
    jobs = [{"job_id": j, "has_record": False, "state": "waiting"} for j in ("a", "b")]
    places = [{"job_id": j, "structure": "wait", "decides_state": True} for j in ("a", "b")]
    case = made(tmp_path, {"jobs": jobs, "membership": places})
    assert explained(case) == {None: [("MB001", "a"), ("MB001", "b")]}
    (cause,) = document(case, **judged(case)).causes
    assert (cause.kind, cause.known, cause.count, cause.jobs) == ("MB001", False, 2, 2)


def judged(case: Case) -> dict[str, Any]:
    run = run_checks(case)
    return {"checks": run.checks, "findings": run.findings, "known": run.causes}


def test_a_lost_record_explains_what_still_names_it(tmp_path: Path) -> None:
    """The ghost, the deduplication key that it pins and the live lock on it are one loss; another ghost is not."""
    jobs = [{"job_id": j, "has_record": False, "state": "waiting"} for j in ("lost", "other")]
    places = [{"job_id": j, "structure": "wait", "decides_state": True} for j in ("lost", "other")]
    relation = {"kind": "deduplication", "source_id": "d", "target_id": "lost", "key": "bull:q:de:d"}
    case = made(
        tmp_path,
        {"jobs": jobs, "membership": places, "relations": [relation], "queues": [{"layout": "bullmq 5.x"}]},
    )
    found = explained(case)
    assert set(found["record-lost:bull/q"]) == {("MB001", "lost"), ("UQ002", "lost")}
    assert ("MB001", "other") in found[None]


def test_cut_evidence_is_one_cause_and_does_not_flood_the_screen(tmp_path: Path) -> None:
    """Three hundred records that a cut file does not show are one entry, possible, under what the cut explains; an id
    that was seen in two structures is not explained by it."""
    jobs = [{"job_id": str(n), "has_record": False, "state": "waiting"} for n in range(300)]
    places = [{"job_id": str(n), "structure": "wait", "key": "bull:q:wait", "decides_state": True} for n in range(300)]
    jobs.append({"job_id": "twin", "has_record": True, "record_complete": True, "state": "waiting"})
    places += [
        {"job_id": "twin", "structure": s, "key": f"bull:q:{s}", "decides_state": True} for s in ("wait", "delayed")
    ]
    fault = {"kind": "truncated", "message": "cut short", "offset": 50}
    case = made(tmp_path, {"jobs": jobs, "membership": places}, fault=fault)
    run = run_checks(case)
    cut = [f for f in run.findings.to_pylist() if f["cause"] == EVIDENCE_CUT.kind]
    assert {f["certainty"] for f in cut if f["check_id"] != "EV002"} == {"possible"}
    assert sum(f["check_id"] == "MB001" for f in cut) == 300
    assert [f["cause"] for f in run.findings.to_pylist() if f["check_id"] == "MB003"] == [None]
    first = document(case, **judged(case)).causes[0]
    assert (first.kind, first.severity, len(first.examples)) == ("evidence-cut", "error", 3)


def test_a_paused_queue_explains_parents_that_wait_for_it(tmp_path: Path) -> None:
    """The parent is in another queue: the cause is the one that is paused."""
    tables = {
        "queues": [
            {"queue": "kids", "paused": True, "layout": "bullmq 5.x", "counts": {"waiting": 1},
             "oldest_waiting_at": "T-9d"},
            {"queue": "flows", "layout": "bullmq 5.x"},
        ],
        "jobs": [
            {"queue": "kids", "job_id": "k", "has_record": True, "state": "waiting", "created_at": "T-9d"},
            {"queue": "flows", "job_id": "p", "has_record": True, "state": "waiting-children", "created_at": "T-9d"},
        ],
        "membership": [
            {"queue": "kids", "job_id": "k", "structure": "paused", "decides_state": True},
            {"queue": "flows", "job_id": "p", "structure": "waiting-children", "decides_state": True},
        ],
        "relations": [
            {
                "kind": "parent", "via": "dependencies", "source_queue": "kids", "source_id": "k",
                "target_queue": "flows", "target_id": "p",
            }
        ],
    }  # fmt: skip
    found = explained(made(tmp_path, tables))
    assert set(found["queue-paused:bull/kids"]) == {("LV021", None), ("RL009", "p")}


def test_a_prefix_set_twice_explains_the_record_that_nothing_names(tmp_path: Path) -> None:
    """The id under one prefix and its record under the other are one fault; another record in no structure is not."""
    tables = {
        "jobs": [
            {"namespace": "app:bull", "job_id": "1", "has_record": False, "state": "waiting"},
            {"job_id": "1", "has_record": True, "record_complete": True, "state": "unknown", "key": "bull:q:1"},
            {"job_id": "2", "has_record": True, "record_complete": True, "state": "unknown", "key": "bull:q:2"},
        ],
        "membership": [{"namespace": "app:bull", "job_id": "1", "structure": "wait", "decides_state": True}],
    }
    found = explained(made(tmp_path, tables))
    assert set(found["two-prefixes:q"]) == {("MB013", "1"), ("MB002", "1")}
    assert ("MB002", "2") in found[None]


def test_all_schedules_that_died_with_the_delayed_jobs_are_one_loss(tmp_path: Path) -> None:
    """Two schedules without next job in a queue without delayed jobs; with a delayed job left each stands alone."""
    schedules = [
        {
            "schedule_id": f"s{n}",
            "job_id": f"repeat:s{n}:1",
            "spec": "every 1000",
            "next_at": "T-1h",
            "has_record": True,
        }
        for n in (1, 2)
    ]
    queue = [{"layout": "bullmq 5.x", "library_version": "bullmq:5.50.0"}]
    case = made(tmp_path / "all", {"schedules": schedules, "queues": queue})
    assert [c for c, _ in explained(case)["schedules-lost:bull/q"]] == ["SC001", "SC001"]
    delayed = [{"job_id": "x", "structure": "delayed", "due_at": "T+1h", "decides_state": True}]
    left = made(tmp_path / "left", {"schedules": schedules, "queues": queue, "membership": delayed})
    assert [c for c, _ in explained(left)[None]].count("SC001") == 2


def test_what_is_accepted_still_explains_what_is_new(tmp_path: Path) -> None:
    """With the ghost in a baseline, the key that it pins keeps its cause, and the table counts what is reported."""
    tables = {
        "jobs": [{"job_id": "lost", "has_record": False, "state": "waiting"}],
        "membership": [{"job_id": "lost", "structure": "wait", "decides_state": True}],
        "relations": [{"kind": "deduplication", "source_id": "d", "target_id": "lost", "key": "bull:q:de:d"}],
        "queues": [{"layout": "bullmq 5.x"}],
    }
    case = made(tmp_path, tables)
    ghost = next(f for f in run_checks(case).findings.to_pylist() if f["check_id"] == "MB001")
    run = run_checks(case, Policy(accepted={ghost["fingerprint"]: Accepted("known", T + 1)}))
    assert [(r["cause"], r["findings"]) for r in run.causes.to_pylist()] == [("record-lost:bull/q", 1)]


def test_hostile_names_make_no_wrong_cause(tmp_path: Path) -> None:
    """Queue names with colons, slashes, quotes and escapes stay apart, and the same case gives the same table."""
    names = ["a:b", "a/b", "a'b", "\x1b[2J", "workers-died"]
    jobs = [{"queue": q, "job_id": "1", "has_record": True, "state": "active", "started_at": "T-1h"} for q in names]
    places = [{"queue": q, "job_id": "1", "structure": "active", "decides_state": True} for q in names]
    queues = [{"queue": q, "layout": "bullmq 5.x"} for q in names]
    case = made(tmp_path, {"jobs": jobs, "membership": places, "queues": queues})
    first, second = run_checks(case), run_checks(case)
    assert first.causes.column("cause").to_pylist() == sorted(f"workers-died:bull/{q}" for q in names)
    assert first.causes.equals(second.causes) and first.findings.equals(second.findings)
    (cause,) = document(case, **judged(case)).causes
    assert (cause.kind, cause.place_count, cause.count) == ("workers-died", 5, 5)
