"""What a report says that the evidence cannot tell."""

from __future__ import annotations

from pathlib import Path

from jobsleuth.pipeline import AnalyzeOptions, analyze
from jobsleuth.reports import document

FIXTURES = Path(__file__).parents[2] / "fixtures"


def test_a_schedulers_history_is_no_event_stream(tmp_path: Path) -> None:
    """Asynq's history of periodic tasks is in `events`, yet says nothing of what became of any job."""
    case = analyze([FIXTURES / "asynq/every-state-0.26.0/evidence.rdb"], tmp_path / "case", AnalyzeOptions())
    assert case.arrow("events").num_rows > 0
    assert "the order of past events: it holds no event stream" in document(case).limits
