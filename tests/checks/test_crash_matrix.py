"""Libraries cut off behind each command: what is found is exactly the crash, and what it predicts comes true."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from jobsleuth.pipeline import AnalyzeOptions, analyze

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "fixtures" / "crash"
MATRIX = ROOT / "fixtures" / "make" / "crash" / "matrix.py"
RELEASES = ("v5", "v6", "v026")
STEPS = {
    "bullmq": {"enqueue", "pop", "completion", "retry", "flow", "flow-end", "scheduler", "shutdown"},
    "asynq": {"enqueue", "pop", "completion", "retry", "group", "scheduler", "shutdown"},
}
THE_CRASH = {
    # Nobody holds an active job any more; nobody is there to take what waits.
    "bullmq": {"LV002", "LV003", "LV008"},
    # The same; nobody moves what is due, or aggregates; the registration of the killed server, whole or by halves.
    "asynq": {"LV003", "LV004", "LV008", "LV022", "LV026", "LV028", "LV029"},
}
HELD = {"LV002", "LV003", "LV026"}
"""Checks that tell of an active job which nobody works on."""


@dataclass
class Snapshot:
    """One snapshot of the matrix, what is found in it, and what its library then did."""

    release: str
    library: str
    step: str
    told: dict[str, Any]
    as_of_ms: int
    findings: list[dict[str, Any]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.release}/{self.told['file']}"

    @property
    def jobs(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = self.told["outcome"]["jobs"]
        return found

    def of(self, job: str) -> list[dict[str, Any]]:
        """Findings about a job; one about an aggregation is about the tasks in it."""
        grouped = self.told["left"][job] == "aggregating"
        return [f for f in self.findings if f["job_id"] == job or (grouped and f["check_id"] == "LV022")]


def outcomes(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((folder / "outcomes.json").read_text(encoding="utf-8"))
    return told


def read(folder: Path) -> list[Snapshot]:
    """Every snapshot of one release, judged in one case."""
    told = outcomes(folder)
    rows = [(step, row) for step, of in sorted(told["steps"].items()) for row in of["snapshots"]]
    files = [folder / row["file"] for _, row in rows]
    with TemporaryDirectory() as out, analyze(files, Path(out) / "case", AnalyzeOptions()) as case:
        found = case.arrow("findings").to_pylist()
        times = {e.number: e.as_of_ms or 0 for e in case.manifest.evidence}
    snapshots = [Snapshot(told["release"], told["library"], step, row, times[n]) for n, (step, row) in enumerate(rows)]
    for finding in found:
        snapshots[finding["evidence"]].findings.append(finding)
    return snapshots


@cache
def matrix(release: str) -> list[Snapshot]:
    return read(FOLDER / release)


@pytest.mark.parametrize("release", RELEASES)
def test_every_step_is_cut_behind_each_of_its_commands(release: str) -> None:
    """No command of a step is left out, and the step is there whole as well."""
    told = outcomes(FOLDER / release)
    assert set(told["steps"]) == STEPS[told["library"]]
    for step, row in told["steps"].items():
        for moment in ("at-once", "after"):
            cuts = sorted(n for s in row["snapshots"] if s["moment"] == moment for n in s["cut_behind"])
            assert cuts == list(range(1, len(cuts) + 1)) and len(cuts) >= len(row["commands"]) >= 3, step


@pytest.mark.parametrize("release", RELEASES)
def test_what_is_found_is_the_crash_and_nothing_else(release: str) -> None:
    """No finding speaks of anything but the dead process; while its locks and leases live, none is an error."""
    for snapshot in matrix(release):
        assert {f["check_id"] for f in snapshot.findings} <= THE_CRASH[snapshot.library], snapshot.name
        for finding in snapshot.findings:
            if finding["check_id"] in HELD:
                assert snapshot.told["left"][finding["job_id"]] == "active", snapshot.name
            if snapshot.told["moment"] == "at-once":
                assert finding["severity"] != "error", snapshot.name


@pytest.mark.parametrize("release", RELEASES)
def test_every_interrupted_job_is_told_once_its_claim_is_over(release: str) -> None:
    """A job that was left active is found as soon as its lock or lease has run out, by one check."""
    active = 0
    for snapshot in matrix(release):
        for job, state in snapshot.told["left"].items():
            if snapshot.told["moment"] == "after" and state == "active":
                active += 1
                assert [f["check_id"] in HELD for f in snapshot.of(job)] == [True], (snapshot.name, job)
    assert active >= 4


@pytest.mark.parametrize("release", RELEASES)
def test_what_has_no_finding_is_brought_on_by_the_library(release: str) -> None:
    """Started again on the snapshot, the library ends every job of which nothing bad is said: a mechanism each."""
    for snapshot in matrix(release):
        left = snapshot.told["left"]
        assert {j for j, how in snapshot.told["healed_by"].items() if how != "nothing"} == {
            j for j in left if ended(snapshot, j)
        }
        for job in left:
            if not snapshot.of(job) and not ended(snapshot, job):
                # Nothing is said while a claim still runs: then it must be said after.
                assert snapshot.told["moment"] == "at-once", (snapshot.name, job)
                (later,) = (s for s in matrix(release) if s.name == snapshot.name.replace("at-once", "after"))
                assert any(f["heals"].startswith("no") for f in later.of(job)), (snapshot.name, job)


@pytest.mark.parametrize("release", RELEASES)
def test_what_is_predicted_is_what_the_library_does(release: str) -> None:
    """`heals` that begins with "no" means never, anything else means healed, and by `heals_at` where that is known."""
    predicted = 0
    for snapshot in matrix(release):
        for job, finding in ((j, f) for j in snapshot.told["left"] for f in snapshot.of(j)):
            predicted += 1
            assert ended(snapshot, job) != finding["heals"].startswith("no"), (snapshot.name, finding["heals"])
            if finding["heals_at"] is not None:
                outcome = snapshot.told["outcome"]
                healed = outcome["begun_ms"] + outcome["jobs"][job]["after_ms"]
                # The handler runs, and a retry waits its second, before the end is seen.
                assert snapshot.as_of_ms < healed <= finding["heals_at"].timestamp() * 1000 + 5_000, snapshot.name
    assert predicted >= 4


@pytest.mark.parametrize("release", RELEASES)
def test_no_job_whose_handler_had_begun_is_called_safe(release: str) -> None:
    """The handlers said when they began: no finding about such a job may say that it never started."""
    begun = 0
    for snapshot in matrix(release):
        for finding in snapshot.findings:
            if finding["job_id"] in snapshot.told["started"]:
                begun += 1
                assert finding["retry"] == "unsafe", snapshot.name
    assert begun >= 1


def ended(snapshot: Snapshot, job: str) -> bool:
    """Whether a job has come to its end: it completed, or (a part of a group) went up in another."""
    state = snapshot.jobs.get(job, {"state": "absent"})["state"]
    over = snapshot.told["left"][job] == "completed"
    return over or state == "completed" or (state == "absent" and job.startswith("part-"))


@pytest.mark.integration
def test_a_sample_made_afresh_is_like_the_committed_one(tmp_path: Path) -> None:
    """Two steps of the newest BullMQ, cut behind every fifth command: the same states, findings and ends."""
    if not all(shutil.which(tool) for tool in ("node", "npm", "redis-server")):
        pytest.skip("redis-server or node with npm is not installed: NO crash was replayed")
    words = [sys.executable, MATRIX, tmp_path, "--release", "v6", "--step", "completion", "shutdown", "--every", "5"]
    made = subprocess.run(words, capture_output=True, text=True, timeout=240)
    if made.returncode and any(sign in made.stderr for sign in ("npm error", "ENOTFOUND", "'npm'")):
        pytest.skip("packages cannot be fetched: NO crash was replayed")
    assert made.returncode == 0, made.stderr[-2000:]
    fresh, committed = read(tmp_path / "v6"), matrix("v6")
    assert len(fresh) >= 6
    assert {shape(s) for s in fresh} <= {shape(s) for s in committed}


def shape(snapshot: Snapshot) -> tuple[object, ...]:
    """What a snapshot is about, without its times."""
    # Whether a lock that ran out lies in the file or is gone is the server's affair.
    said = {(f["job_id"], f["retry"]) for f in snapshot.findings if f["check_id"] in HELD}
    ends = {job: ended(snapshot, job) for job in snapshot.told["left"]}
    return (snapshot.step, snapshot.told["moment"], str(snapshot.told["left"]), str(sorted(said)), str(ends))
