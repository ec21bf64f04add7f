"""A killed worker, as releases of all ages leave it: each finding says what that release's own recovery will do."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobsleuth.pipeline import AnalyzeOptions, analyze

FIXTURES = Path(__file__).parents[2] / "fixtures" / "asynq"


def active_findings(name: str, folder: Path) -> list[tuple[str, str, str, str, str]]:
    case = analyze([FIXTURES / name / "evidence.rdb"], folder / "case", AnalyzeOptions())
    found = case.arrow("findings").to_pylist()
    return [
        (f["check_id"], f["severity"], f["certainty"], f["message"].partition(" is active")[2], f["heals"])
        for f in found
        if f["check_id"] in ("LV002", "LV003")
    ]


@pytest.mark.parametrize("release", ["0.11.0", "0.13.1", "0.17.2", "0.18.6", "0.21.0"])
def test_deadlines_are_all_that_tells_before_022(release: str, tmp_path: Path) -> None:
    """Of three tasks of a dead worker one is past its deadline; the others pass for worked on for half an hour."""
    ((check, severity, certainty, message, _),) = active_findings(f"crash-servers-gone-{release}", tmp_path)
    assert (check, severity, certainty) == ("LV003", "info", "certain")
    assert message.startswith(", but its deadline ended ") and message.endswith("; recovery is still due")


def test_nothing_recovers_before_010(tmp_path: Path) -> None:
    """0.9.4 has no recoverer: its three tasks, and the one taken ahead, stay active for good."""
    found = active_findings("crash-servers-gone-0.9.4", tmp_path)
    assert len(found) == 4
    for check, severity, certainty, message, heals in found:
        assert (check, severity, certainty) == ("LV002", "error", "certain")
        assert message == " without a live worker: servers up to 0.9.3 put it back when they start, 0.9.4 never does"
        assert heals.endswith("0.9.4: never")


@pytest.mark.parametrize("release", ["0.22.1", "0.24.1", "0.26.0"])
def test_leases_tell_after_half_a_minute(release: str, tmp_path: Path) -> None:
    """From 0.22 on leases run out 30 s after the last heartbeat, whatever the tasks' own time."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert active_findings(f"crash-servers-gone-{release}", tmp_path / "a") == []
    found = active_findings(f"crash-lease-expired-{release}", tmp_path / "b")
    assert [f[:3] for f in found] == [("LV003", "info", "certain")] * 3
    assert all(f[3].startswith(", but its lease ended ") for f in found)
