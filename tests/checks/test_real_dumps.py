"""Checks on dumps of real queues: planted faults are found, each alone, and healthy queues are left in peace."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from jobsleuth.checks import Policy, all_checks, run_checks
from jobsleuth.pipeline import AnalyzeOptions, analyze

FIXTURES = Path(__file__).parents[2] / "fixtures"

E, W, N = "error", "warning", "info"
FAULTS: dict[str, set[tuple[str, str]]] = {
    # BullMQ
    "ghost-in-wait": {("MB001", E)},
    "ghost-in-delayed": {("MB001", E)},
    "ghost-in-prioritized": {("MB001", E)},
    "ghost-in-active": {("MB001", E), ("LV007", W)},
    "ghost-in-completed": {("MB001", E)},
    "ghost-in-failed": {("MB001", E)},
    "ghost-in-waiting-children": {("MB001", E), ("MB009", N)},
    "orphan-from-wait": {("MB002", E)},
    "orphan-from-delayed": {("MB002", E)},
    "orphan-from-active": {("MB002", E), ("LV010", N)},
    "orphan-from-completed": {("MB002", E)},
    "double-pause-loss": {("MB002", E)},
    "type-clash": {("MB002", E), ("MB007", E)},
    "duplicate-in-wait": {("MB004", E)},
    "duplicate-in-active": {("MB004", E)},
    "wait-and-completed": {("MB003", E)},
    "wait-and-active": {("MB003", E)},
    "active-and-failed": {("MB003", E)},
    "delayed-and-prioritized": {("MB003", E)},
    "id-behind": {("CT001", E), ("MB003", E), ("CN009", W)},
    "skeleton-completed": {("CN003", E)},
    "skeleton-promoted": {("CN003", E)},
    "skeleton-orphan": {("CN003", E)},
    "active-without-lock": {("LV002", E)},
    "active-stalled-without-lock": {("LV002", E)},
    "active-not-started": {("LV009", W)},
    "maxed-by-dead": {("LV002", E), ("LV015", E)},
    "lock-without-job": {("LV007", W)},
    "lock-on-waiting": {("LV010", N)},
    "stalled-not-active": {("LV011", N)},
    "limiter-without-ttl": {("LV013", W)},
    "marker-missing-asleep": {("LV001", E), ("LV004", E)},
    "marker-foreign-member": {("MB005", W)},
    "overdue-delayed": {("LV004", E)},
    "delayed-unpacked": {("CN008", W)},
    "paused-stranded": {("MB006", E)},
    "paused-and-wait": {("MB006", E)},
    "finished-elsewhere": {("ST002", E)},
    "finished-score-mismatch": {("CN005", W)},
    "completed-without-result": {("CN005", W)},
    "priority-mismatch": {("CN009", W)},
    "data-not-json": {("CN010", E)},
    "data-undecodable": {("CN010", E)},
    "opts-undecodable": {("CN010", E)},
    "opts-not-object": {("CN010", W)},
    "returnvalue-undecodable": {("CN010", W)},
    "stacktrace-undecodable": {("CN010", W)},
    "timestamp-not-number": {("CN010", W)},
    "dangling-sub-keys": {("MB009", N)},
    "parent-without-dependencies": {("RL001", E)},
    "dependency-without-child": {("RL002", E)},
    "dependency-on-completed": {("RL003", E)},
    "unsuccessful-not-released": {("RL004", E)},
    "child-without-parent": {("RL006", W)},
    "dedup-dangling": {("UQ002", E)},
    "dedup-ttl-dead": {("UQ002", N)},
    "dedup-finished": {("UQ003", E)},
    "parked-without-owner": {("UQ005", W)},
    "scheduler-chain-broken": {("SC001", E)},
    "scheduler-without-definition": {("SC003", W)},
    "scheduler-unlisted": {("SC004", N), ("SC006", N)},
    # Asynq
    "claims-scheduled": {("ST001", E)},
    "claims-active": {("ST001", E)},
    "claims-pending": {("ST001", E)},
    "claims-nonsense": {("ST001", E)},
    "dangling-pending": {("MB001", E)},
    "dangling-active": {("MB001", E)},
    "dangling-scheduled": {("MB001", E)},
    "dangling-completed": {("MB001", E)},
    "orphan-hash": {("MB002", E)},
    "twice-in-pending": {("MB004", E)},
    "pending-and-scheduled": {("MB003", E)},
    "active-without-lease": {("LV002", E)},
    "lease-without-active": {("LV006", E), ("MB002", E)},
    "msg-garbage": {("CN001", E)},
    "msg-json": {("CN001", E)},
    "msg-truncated": {("CN001", E)},
    "msg-unknown-fields": {("CN002", N)},
    "msg-empty": {("CN003", E)},
    "msg-missing": {("CN003", E)},
    "state-missing": {("CN003", E)},
    "msg-of-other-id": {("CN004", E)},
    "msg-of-other-queue": {("CN004", E)},
    "queue-unregistered": {("MB015", E)},
    "score-in-ms": {("CN008", W)},
    "score-fractional": {("CN008", W)},
    "ttl-on-hash": {("CN013", E)},
    "wrong-type": {("MB007", E)},
    "hostile-ansi": {("MB001", E)},
    "hostile-html": {("MB002", E)},
    "hostile-formula": {("ST001", E)},
    "hostile-path": {("MB004", E)},
    "hostile-queue": {("MB001", E)},
}
"""Fault → all findings of its queue, and nothing else."""
OF_A_LIBRARY = {"lock-without-ttl": {"bullmq": {("LV005", E)}, "asynq": {("UQ001", E)}}}
IN_6 = {"dedup-dangling": {("UQ002", N)}}
"""6.3.10 and later repair the key at the next add."""
BESIDE = {"ghost-kids": {("RL006", W)}, "list-marker-left": {("MB005", N)}}
"""Queues that hold no fault of their own: a child of a deleted parent; old markers, which are told as such."""
OF_NO_JOB = {
    "marker-missing-asleep", "marker-foreign-member", "paused-and-wait", "dangling-sub-keys", "parked-without-owner",
    "scheduler-without-definition", "scheduler-unlisted", "msg-unknown-fields", "queue-unregistered", "wrong-type",
}  # fmt: skip
"""Faults of a queue or a key: the finding names no job."""


@cache
def findings_of(evidence: Path, salvage: bool = False, everything: bool = False) -> list[dict[str, Any]]:
    with TemporaryDirectory() as folder:
        case = analyze([evidence], Path(folder) / "case", AnalyzeOptions(salvage=salvage))
        assert {row["status"] for row in case.arrow("checks").to_pylist()} == {"ran", "off"}
        run = run_checks(case, Policy(on=frozenset(c.id for c in all_checks() if c.opt_in))) if everything else None
        rows: list[dict[str, Any]] = (run.findings if run else case.arrow("findings")).to_pylist()
        return rows


def fixtures(pattern: str) -> list[Any]:
    found = sorted(path.parent for path in FIXTURES.glob(f"{pattern}/evidence.rdb"))
    assert found, f"no fixture {pattern}"
    return [pytest.param(path, id=f"{path.parent.name}-{path.name}") for path in found]


def case_toml(fixture: Path) -> dict[str, Any]:
    return tomllib.loads((fixture / "case.toml").read_text(encoding="utf-8"))


def pairs(findings: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(f["check_id"], f["severity"]) for f in findings}


def expected_of(fault: str, facts: dict[str, Any]) -> set[tuple[str, str]]:
    if fault in OF_A_LIBRARY:
        return OF_A_LIBRARY[fault][facts["dialect"]]
    return IN_6[fault] if fault in IN_6 and facts["producer"]["version"].startswith("6.") else FAULTS[fault]


@pytest.mark.parametrize("fixture", fixtures("*/*faults*"))
def test_planted_faults_are_found_and_only_they(fixture: Path) -> None:
    """Each fault is reported by the checks that are meant for it, on its job, and nothing else is said of its queue."""
    facts = case_toml(fixture)
    found = findings_of(fixture / "evidence.rdb")
    assert {f["certainty"] for f in found} == {"certain"}
    expected = {queue: set(also) for queue, also in BESIDE.items()} if facts["dialect"] == "bullmq" else {}
    for planted in facts["planted"]:
        fault, queue = planted["fault"], planted["queue"]
        expected.setdefault(queue, set()).update(expected_of(fault, facts))
        if "job_id" in planted and fault not in OF_NO_JOB:
            named = [f for f in found if f["queue"] == queue and f["job_id"] == planted["job_id"]]
            assert pairs(named) & expected_of(fault, facts), fault
    actual: dict[str, set[tuple[str, str]]] = {}
    for f in found:
        actual.setdefault(f["queue"], set()).add((f["check_id"], f["severity"]))
    assert actual == expected


@pytest.mark.parametrize("fixture", fixtures("*/*faults*"))
def test_near_misses_are_not_found(fixture: Path) -> None:
    """A near miss looks like its fault and is none."""
    for miss in case_toml(fixture).get("near_miss", []):
        found = [
            f
            for f in findings_of(fixture / "evidence.rdb")
            if f["queue"] == miss["queue"] and f["job_id"] in (miss["job_id"], None) and f["severity"] != N
        ]
        assert found == [], miss["what"]


@pytest.mark.parametrize("fixture", fixtures("*/*healthy*"))
def test_healthy_queues_are_left_in_peace(fixture: Path) -> None:
    """Queues at work, with live workers: not one finding."""
    assert findings_of(fixture / "evidence.rdb") == []


ORDINARY = {
    # BullMQ: a lock that ran out on purpose, a parent that waits for a failed child by design, jobs promoted or retried
    # in bulk (into `wait`, whatever their priority), and explanations.
    "bullmq": {
        ("LV002", "lost-lock", "lockless"), ("RL008", "parents", "kid-failed-plain"),
        ("LV014", "limited-by-hand", None), ("LV015", "capped", None), ("SC002", "schedules", None),
        ("ST004", "bulk-promoted", None), ("ST004", "bulk-retried", None), ("ST004", "parents", None),
    },
    # Asynq: pauses, deadlines in the past, results kept too long, an archived task with its lock, handlers cut off.
    "asynq": {
        ("LV020", "completed"), ("LV021", "paused"), ("LV024", "default"), ("ST005", "archived"),
        ("ST005", "cancelled"), ("ST005", "ends"), ("ST005", "retry"), ("UQ009", "archived"), ("UQ009", "ends"),
        ("UQ011", "scheduled"), ("UQ012", "groups"),
    },
}  # fmt: skip
"""What the fixtures of every state were made to show that is worth a word."""


@pytest.mark.parametrize("fixture", fixtures("*/*every-state*"))
def test_ordinary_queues_have_nothing_unexpected(fixture: Path) -> None:
    """What the library does by itself is in order; no error but the lost lock."""
    dialect = case_toml(fixture)["dialect"]
    found = findings_of(fixture / "evidence.rdb")
    key = ("check_id", "queue", "job_id") if dialect == "bullmq" else ("check_id", "queue")
    unexpected = [f["message"] for f in found if tuple(f[k] for k in key) not in ORDINARY[dialect]]
    assert unexpected == []
    assert {f["job_id"] for f in found if f["severity"] == E} == ({"lockless"} if dialect == "bullmq" else set())


def test_a_killed_worker_is_told_from_a_living_one() -> None:
    """While locks live nothing is wrong yet; after that they are told as expired in the file or gone from it."""
    for release in ("v5", "v6"):
        assert findings_of(FIXTURES / "bullmq" / f"{release}-crash-locks-live" / "evidence.rdb") == []
        gone = findings_of(FIXTURES / "bullmq" / f"{release}-crash-locks-expired" / "evidence.rdb")
        assert [(f["check_id"], f["severity"], f["queue"], f["job_id"]) for f in gone] == [
            *(("LV002", W, "press", f"held-{n}") for n in (1, 2, 3)),
            *(("LV003", W, "bindery", f"held-{n}") for n in (1, 2)),
        ]
    # Since 0.25.1 a scheduler's registration outlives its beats: there it still holds at the first snapshot.
    for release, scheduler in (("0.24.1", [("SC011", W)]), ("0.26.0", [])):
        left = findings_of(FIXTURES / "asynq" / f"crash-servers-gone-{release}" / "evidence.rdb")
        assert [(f["check_id"], f["severity"]) for f in left] == [("LV026", W)] * 3 + [("LV028", W), *scheduler]
        gone = findings_of(FIXTURES / "asynq" / f"crash-lease-expired-{release}" / "evidence.rdb")
        judged = [("LV003", N)] * 3 + [("LV008", W), ("LV028", N), ("SC011", W)]
        assert [(f["check_id"], f["severity"]) for f in gone] == judged


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


ELSEWHERE = {
    "EV001", "EV002", "EV004",  # the test before
    # test_keys_by_hand, by a real server
    "CN006", "CN011", "CN012", "CN014", "CT002", "CT005", "CT006", "CT007", "EV005", "LV019", "LV025", "LV027", "LV030",
    "MB008", "MB010", "MB017", "MB018", "RL005", "RL007", "SC009", "SC010", "ST003", "ST006",
    "PL003",  # test_rare_dumps, with the description that its dump needs
}  # fmt: skip
"""Checks whose fault is in no dump here."""


def test_every_check_speaks_on_some_real_or_minimally_edited_dump() -> None:
    """A check that never fired on a real layout may be reading columns that no dialect fills."""
    dumps = [path / "evidence.rdb" for path in sorted(FIXTURES.glob("*/*")) if (path / "evidence.rdb").exists()]
    dumps += [*sorted(FIXTURES.glob("incidents/*.rdb*")), *sorted(FIXTURES.glob("healthy/old/*.rdb.gz"))]
    dumps += [
        *sorted(FIXTURES.glob("crash/v026/group-*-after.rdb.gz")),
        *sorted(FIXTURES.glob("rare/*/evidence.ndjson")),
    ]
    seen = {f["check_id"] for dump in dumps for f in findings_of(dump, everything=True)}
    assert {c.id for c in all_checks()} - seen <= ELSEWHERE
