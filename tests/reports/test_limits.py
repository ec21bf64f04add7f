"""What a report says that the evidence cannot tell."""

from __future__ import annotations

from pathlib import Path

from jobsleuth.checks import Accepted, Policy
from jobsleuth.pipeline import AnalyzeOptions, analyze
from jobsleuth.reports import document

FIXTURES = Path(__file__).parents[2] / "fixtures"


def test_a_schedulers_history_is_no_event_stream(tmp_path: Path) -> None:
    """Asynq's history of periodic tasks is in `events`, yet says nothing of what became of any job."""
    case = analyze([FIXTURES / "asynq/every-state-0.26.0/evidence.rdb"], tmp_path / "case", AnalyzeOptions())
    assert case.arrow("events").num_rows > 0
    assert "the order of past events: it holds no event stream" in document(case).limits


def test_limits_are_worded_for_the_evidence_and_stand_in_the_manifest(tmp_path: Path) -> None:
    """A dump of BullMQ without any lock says that locks leave nothing, how many it shows, and that its time has whole
    seconds; the manifest has the same phrases."""
    case = analyze([FIXTURES / "bullmq/v5-crash-locks-expired/evidence.rdb"], tmp_path / "case", AnalyzeOptions())
    said = document(case).limits
    assert list(said) == case.manifest.limits
    (locks,) = [s for s in said if s.startswith("who held a job whose lock is gone: ")]
    locked = {r["job_id"] for r in case.arrow("workers").to_pylist() if r["kind"] == "lock"}
    assert locks.endswith(f"(it shows {len(locked)} locks)" if len(locked) > 1 else "(it shows none)")
    assert "what happened within the second of the snapshot: its time is in whole seconds" in said
    assert not any("Asynq" in s or "checksum" in s for s in said)


def test_what_the_options_took_away_is_a_limit(tmp_path: Path) -> None:
    """No payloads, a time that the user gave, findings that were accepted: a reader of the case is told."""
    evidence = [FIXTURES / "bullmq/v5-crash-locks-expired/evidence.rdb"]
    found = analyze(evidence, tmp_path / "all", AnalyzeOptions()).arrow("findings").to_pylist()
    policy = Policy(accepted={f["fingerprint"]: Accepted("known") for f in found})
    options = AnalyzeOptions(payload_limit=0, as_of_ms=1_800_000_000_000, policy=policy)
    said = document(analyze(evidence, tmp_path / "some", options)).limits
    assert "payloads: the case was made without them" in said
    assert any(s.startswith("whether the time given with --as-of is right") for s in said)
    assert any(s.endswith("known findings that the policy or a baseline accepted: they are left out") for s in said)


def test_a_cut_file_says_so_first(tmp_path: Path) -> None:
    """Half a dump: what is missing there comes before everything else."""
    whole = (FIXTURES / "bullmq/v6-faults/evidence.rdb").read_bytes()
    (tmp_path / "half.rdb").write_bytes(whole[: len(whole) // 2])
    case = analyze([tmp_path / "half.rdb"], tmp_path / "case", AnalyzeOptions(salvage=True))
    assert document(case).limits[0].startswith("what stood in ")
    assert document(case).causes[0].kind == "evidence-cut"
