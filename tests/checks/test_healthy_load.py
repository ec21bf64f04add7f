"""No false alarms: healthy queues of the real libraries, saved under load at random moments, have no error."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from jobsleuth.checks import Policy, all_checks, run_checks
from jobsleuth.pipeline import AnalyzeOptions, analyze

ROOT = Path(__file__).parents[2]
SNAPSHOTS = sorted((ROOT / "fixtures/healthy").glob("*.rdb.gz"))
MAKE = ROOT / "fixtures/make/healthy/make.sh"
EXPECTED_WARNINGS = {
    "LV002",  # Bull and BullMQ 4 take a job and lock it in two steps: possible, and a warning
    "LV021",  # the queue that is paused now and then
    "UQ010",  # tasks that wait for longer than they are unique
}


def alarms(files: list[Path]) -> tuple[list[str], set[str]]:
    """(errors, checks that warn) of all snapshots together, with every check that there is."""
    with tempfile.TemporaryDirectory() as folder, analyze(files, Path(folder) / "case", AnalyzeOptions()) as case:
        run = run_checks(case, Policy(on=frozenset(c.id for c in all_checks())))
        assert {row["status"] for row in run.checks.to_pylist()} == {"ran"}
        assert case.query("select count(*) n from jobs").to_pylist()[0]["n"] > 20 * len(files)
        found = run.findings.to_pylist()
    errors = [f"{files[f['evidence']].name}: {f['check_id']} {f['message']}" for f in found if f["severity"] == "error"]
    return errors, {f["check_id"] for f in found if f["severity"] == "warning"}


def test_a_hundred_healthy_snapshots_have_no_error() -> None:
    """BullMQ 4.18, 5 and 6, Bull 4, Asynq 0.24 and 0.26, at work while they were saved."""
    per_release = Counter(path.name.split("-")[0] for path in SNAPSHOTS)
    assert sum(per_release.values()) >= 100 and set(per_release) == {"bull4", "v4", "v5", "v6", "v024", "v026"}
    assert min(per_release.values()) >= 15
    errors, warnings = alarms(SNAPSHOTS)
    assert errors == []
    assert warnings <= EXPECTED_WARNINGS


OLD = sorted((ROOT / "fixtures/healthy/old").glob("*.rdb.gz"))


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.name.partition(".rdb")[0])
def test_healthy_queues_of_old_releases_have_no_error(path: Path, tmp_path: Path) -> None:
    """Bull 0.7 to 2.2 names no jobs, Bull until 3.3 has no priorities, BullMQ 1.91 without a QueueScheduler no stalled
    checks: none of it is a fault. Bull before 3.0 is said to be older than what the checks were held against."""
    with analyze([path], tmp_path / "case", AnalyzeOptions()) as case:
        found = [(f["check_id"], f["severity"], f["certainty"]) for f in case.arrow("findings").to_pylist()]
        states = case.query("select state, count(*)::int n from jobs group by 1").to_pylist()
        whole = case.query("select bool_and(record_complete) w from jobs where has_record").to_pylist()
    library, _, version = path.name.removesuffix(".rdb.gz").partition("-")
    assert whole == [{"w": True}]
    if library == "bullmq":
        # The snapshot was saved while a job had been taken and its lock not yet been set.
        assert set(found) == {("LV002", "warning", "possible")}
        return
    # What the script added: eight done, one delayed, two in hand, one waiting; every fourth of the eight fails.
    assert {row["state"]: row["n"] for row in states} == {
        "completed": 6, "failed": 2, "delayed": 1, "active": 2, "waiting": 1,
    }  # fmt: skip
    assert not [f for f in found if f[1] != "info"]
    assert (("EV009", "info", "certain") in found) == (version < "3")


@pytest.mark.integration
def test_fresh_healthy_snapshots_have_no_error(tmp_path: Path) -> None:
    """Each run has other moments than the committed ones."""
    releases = [r for r in ("v4", "v5", "v6", "bull4") if shutil.which("node") and shutil.which("npm")]
    releases += ["v024", "v026"] if shutil.which("go") else []
    if not releases or not shutil.which("redis-server"):
        pytest.skip("redis-server, or both node with npm and go, are not installed: NO fresh healthy queue was judged")
    for release in releases:
        made = subprocess.run(["sh", MAKE, tmp_path, "3", release], capture_output=True, text=True, timeout=240)
        if made.returncode and any(
            sign in made.stderr for sign in ("npm error", "ENOTFOUND", "proxyconnect", "dial tcp")
        ):
            pytest.skip(f"packages cannot be fetched: NO fresh healthy queue of {release} was judged")
        assert made.returncode == 0, made.stderr[-2000:]
    files = sorted(tmp_path.glob("*.rdb.gz"))
    assert len(files) == 3 * len(releases)
    assert alarms(files)[0] == []
