"""A job in several structures: the job view says which one decides."""

from __future__ import annotations

from pathlib import Path

from jobsleuth.pipeline import AnalyzeOptions, analyze
from jobsleuth.reports import find_jobs, picture, picture_lines

FAULTS = Path(__file__).parents[2] / "fixtures/asynq/faults-0.26.0/evidence.rdb"


def test_the_structure_that_decides_is_named(tmp_path: Path) -> None:
    """Pending comes before scheduled, as the library serves it; with one structure nothing needs saying."""
    case = analyze([FAULTS], tmp_path / "case", AnalyzeOptions())
    said = {}
    for id in ("pending-and-scheduled-victim", "pending-and-scheduled-bystander"):
        (ref,) = find_jobs(case, id)
        text = "\n".join("".join(span for span, _ in line) for line in picture_lines(picture(case, ref), 400))
        said[id] = text.partition("Where the id is\n")[2].partition("\n\n")[0].splitlines()
    pending, scheduled = said["pending-and-scheduled-victim"]
    assert pending.startswith("  pending (") and pending.endswith(", decides the state")
    assert scheduled.startswith("  scheduled (") and scheduled.endswith(
        ", is served later and does not decide the state"
    )
    (only,) = said["pending-and-scheduled-bystander"]
    assert "decide" not in only
