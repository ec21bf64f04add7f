"""Checks on dumps of real queues: planted faults are found, each alone, and healthy queues are left in peace."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from jobsleuth.checks import all_checks
from jobsleuth.pipeline import AnalyzeOptions, analyze

FIXTURES = Path(__file__).parents[2] / "fixtures"

PLANTED: dict[str, set[tuple[str, str]]] = {
    # BullMQ
    "ghost-in-wait": {("MB001", "error")},
    "ghost-in-delayed": {("MB001", "error")},
    "ghost-in-prioritized": {("MB001", "error")},
    "ghost-in-active": {("MB001", "error"), ("LV007", "warning")},
    "ghost-in-completed": {("MB001", "error")},
    "ghost-in-failed": {("MB001", "error")},
    "ghost-in-waiting-children": {("MB001", "error")},
    "orphan-from-wait": {("MB002", "error")},
    "orphan-from-delayed": {("MB002", "error")},
    "orphan-from-active": {("MB002", "error")},
    "orphan-from-completed": {("MB002", "error")},
    "double-pause-loss": {("MB002", "error")},
    "type-clash": {("MB002", "error")},
    "duplicate-in-wait": {("MB004", "error")},
    "duplicate-in-active": {("MB004", "error")},
    "wait-and-completed": {("MB003", "error")},
    "wait-and-active": {("MB003", "error")},
    "active-and-failed": {("MB003", "error")},
    "delayed-and-prioritized": {("MB003", "error")},
    "id-behind": {("MB003", "error")},
    "skeleton-completed": {("CN003", "error")},
    "skeleton-promoted": {("CN003", "error")},
    "skeleton-orphan": {("CN003", "error")},
    "active-without-lock": {("LV002", "error")},
    "active-stalled-without-lock": {("LV002", "error")},
    "maxed-by-dead": {("LV002", "error")},
    "lock-without-job": {("LV007", "warning")},
    "overdue-delayed": {("LV004", "error")},
    "delayed-unpacked": {("LV004", "warning")},
    "paused-stranded": {("MB006", "error")},
    "dedup-dangling": {("UQ002", "error")},
    "dedup-ttl-dead": {("UQ002", "info")},
    # Asynq
    "claims-scheduled": {("ST001", "error")},
    "claims-active": {("ST001", "error")},
    "claims-pending": {("ST001", "error")},
    "claims-nonsense": {("ST001", "error")},
    "dangling-pending": {("MB001", "error")},
    "dangling-active": {("MB001", "error")},
    "dangling-scheduled": {("MB001", "error")},
    "dangling-completed": {("MB001", "error")},
    "orphan-hash": {("MB002", "error")},
    "twice-in-pending": {("MB004", "error")},
    "pending-and-scheduled": {("MB003", "error")},
    "active-without-lease": {("LV002", "error")},
    "lease-without-active": {("LV006", "error"), ("MB002", "error")},
    "msg-garbage": {("CN001", "error")},
    "msg-json": {("CN001", "error")},
    "msg-truncated": {("CN001", "error")},
    "msg-empty": {("CN003", "error")},
    "msg-missing": {("CN003", "error")},
    "state-missing": {("CN003", "error")},
    "msg-of-other-id": {("CN004", "error")},
    "msg-of-other-queue": {("CN004", "error")},
    "hostile-ansi": {("MB001", "error")},
    "hostile-html": {("MB002", "error")},
    "hostile-formula": {("ST001", "error")},
    "hostile-path": {("MB004", "error")},
    "hostile-queue": {("MB001", "error")},
}
"""Fault → findings that name the planted job."""
PLANTED_IN_6 = {"dedup-dangling": {("UQ002", "info")}}
"""6.3.10 and later repair the key at the next add."""
OF_THE_QUEUE: dict[str, set[tuple[str, str]]] = {
    "marker-missing-asleep": {("LV001", "error"), ("LV004", "error")},
    "marker-foreign-member": {("MB005", "warning")},
    "msg-unknown-fields": {("CN002", "info")},
    "paused-and-wait": {("MB006", "error")},
}
"""Fault → all findings of its queue, where they are about the queue or where the job has no name in them."""
KEYED = {"lock-without-ttl": {"bullmq": ("LV005", "error"), "asynq": ("UQ001", "error")}}
NOT_JUDGED = {
    "active-not-started", "child-without-parent", "completed-without-result", "dangling-sub-keys", "data-not-json",
    "data-undecodable", "dedup-finished", "dependency-on-completed", "dependency-without-child", "finished-elsewhere",
    "finished-score-mismatch", "limiter-without-ttl", "lock-on-waiting", "opts-not-object", "opts-undecodable",
    "parent-without-dependencies", "parked-without-owner", "priority-mismatch", "queue-unregistered",
    "returnvalue-undecodable", "scheduler-chain-broken", "scheduler-unlisted", "scheduler-without-definition",
    "score-fractional", "score-in-ms", "stacktrace-undecodable", "stalled-not-active", "timestamp-not-number",
    "ttl-on-hash", "unsuccessful-not-released", "wrong-type",
}  # fmt: skip
"""Planted faults that no check speaks of."""


@cache
def findings_of(evidence: Path, salvage: bool = False) -> list[dict[str, Any]]:
    with TemporaryDirectory() as folder:
        case = analyze([evidence], Path(folder) / "case", AnalyzeOptions(salvage=salvage))
        assert {row["status"] for row in case.arrow("checks").to_pylist()} == {"ran"}
        rows: list[dict[str, Any]] = case.arrow("findings").to_pylist()
        return rows


def fixtures(pattern: str) -> list[Any]:
    found = sorted(FIXTURES.glob(pattern))
    assert found, f"no fixture {pattern}"
    return [pytest.param(path, id=f"{path.parent.name}-{path.name}") for path in found]


def case_toml(fixture: Path) -> dict[str, Any]:
    return tomllib.loads((fixture / "case.toml").read_text(encoding="utf-8"))


def pairs(findings: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(f["check_id"], f["severity"]) for f in findings}


@pytest.mark.parametrize("fixture", fixtures("*/*faults*"))
def test_planted_faults_are_found_and_only_they(fixture: Path) -> None:
    """Each fault is reported by the check that is meant for it, and no queue has an unexpected one."""
    facts = case_toml(fixture)
    found = findings_of(fixture / "evidence.rdb")
    assert {f["certainty"] for f in found} == {"certain"}
    explained: set[int] = set()
    for planted in facts["planted"]:
        fault, queue = planted["fault"], planted["queue"]
        here = [f for f in found if f["queue"] == queue]
        named = [f for f in here if f["job_id"] == planted.get("job_id")]
        if fault in OF_THE_QUEUE:
            if fault != "paused-and-wait" or facts["producer"]["version"].startswith("5."):
                assert pairs(here) == OF_THE_QUEUE[fault], fault
            named = here
        elif fault in KEYED:
            assert pairs(named) == {KEYED[fault][facts["dialect"]]}
        elif fault in NOT_JUDGED:
            named = [f for f in named if f["severity"] != "error"]
        else:
            expected = PLANTED[fault]
            if facts["producer"]["version"].startswith("6."):
                expected = PLANTED_IN_6.get(fault, expected)
            assert pairs(named) == expected, fault
        explained |= {id(f) for f in named}
    rest = [f for f in found if id(f) not in explained and f["severity"] != "info"]
    assert [f["message"] for f in rest] == []


@pytest.mark.parametrize("fixture", fixtures("*/*faults*"))
def test_near_misses_are_not_found(fixture: Path) -> None:
    """A near miss looks like its fault and is none."""
    for miss in case_toml(fixture).get("near_miss", []):
        found = [
            f
            for f in findings_of(fixture / "evidence.rdb")
            if f["queue"] == miss["queue"] and f["job_id"] in (miss["job_id"], None) and f["severity"] != "info"
        ]
        assert found == [], miss["what"]


@pytest.mark.parametrize("fixture", fixtures("*/*healthy*"))
def test_healthy_queues_are_left_in_peace(fixture: Path) -> None:
    """Queues at work, with live workers: not one finding."""
    assert findings_of(fixture / "evidence.rdb") == []


@pytest.mark.parametrize("fixture", fixtures("*/*every-state*"))
def test_ordinary_queues_have_only_the_lost_lock(fixture: Path) -> None:
    """Everything that the library does by itself is in order, but for the job whose lock ran out on purpose."""
    expected = [("LV002", "lost-lock", "lockless")] if case_toml(fixture)["dialect"] == "bullmq" else []
    found = findings_of(fixture / "evidence.rdb")
    assert [(f["check_id"], f["queue"], f["job_id"]) for f in found] == expected


def test_a_killed_worker_is_told_from_a_living_one() -> None:
    """While locks live nothing is wrong yet; after that they are told as expired in the file or gone from it."""
    for release in ("v5", "v6"):
        assert findings_of(FIXTURES / "bullmq" / f"{release}-crash-locks-live" / "evidence.rdb") == []
        gone = findings_of(FIXTURES / "bullmq" / f"{release}-crash-locks-expired" / "evidence.rdb")
        assert [(f["check_id"], f["severity"], f["queue"], f["job_id"]) for f in gone] == [
            *(("LV002", "warning", "press", f"held-{n}") for n in (1, 2, 3)),
            *(("LV003", "warning", "bindery", f"held-{n}") for n in (1, 2)),
        ]
    for release in ("0.24.1", "0.26.0"):
        assert findings_of(FIXTURES / "asynq" / f"crash-servers-gone-{release}" / "evidence.rdb") == []
        gone = findings_of(FIXTURES / "asynq" / f"crash-lease-expired-{release}" / "evidence.rdb")
        assert [(f["check_id"], f["severity"]) for f in gone] == [("LV003", "info")] * 3 + [("LV008", "warning")]


def test_evidence_that_is_damaged_makes_findings_of_its_own(tmp_path: Path) -> None:
    """The same healthy dump with another checksum, without one, cut short, or with bytes behind its end."""
    whole = (FIXTURES / "bullmq/v5-healthy/evidence.rdb").read_bytes()
    dumps = {
        "sum": whole[:-8] + b"12345678",
        "none": whole[:-8] + bytes(8),
        "cut": whole[:-3000],
        "tail": whole + b"xx",
    }
    found = {}
    for name, data in dumps.items():
        (tmp_path / name).write_bytes(data)
        found[name] = findings_of(tmp_path / name, salvage=name in ("sum", "cut"))
    assert pairs(found["sum"]) == {("EV001", "error")}
    assert pairs(found["none"]) == {("EV001", "info")}
    assert pairs(found["tail"]) == {("EV004", "info")}
    assert ("EV002", "error") in pairs(found["cut"])
    assert {f["certainty"] for f in found["cut"] if not f["check_id"].startswith("EV")} == {"possible"}


def test_every_check_speaks_on_some_real_or_minimally_edited_dump() -> None:
    """A check that never fired on a real layout may be reading columns that no dialect fills."""
    dumps = [path / "evidence.rdb" for path in sorted(FIXTURES.glob("*/*")) if (path / "evidence.rdb").exists()]
    seen = {f["check_id"] for dump in dumps for f in findings_of(dump)}
    assert {c.id for c in all_checks()} - seen == {"EV001", "EV002", "EV004"}, "the three of the test before"
