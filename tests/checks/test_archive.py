"""Archives of Asynq that took more failures than they hold: dumps of the real library, 0.24.1 and 0.26.0."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobsleuth.pipeline import AnalyzeOptions, analyze

FOLDER = Path(__file__).parents[2] / "fixtures/incidents"


@pytest.mark.parametrize(
    ("release", "hidden", "told"),
    [
        ("0.24.1", 51, "as many as the library keeps; 51 older ones it no longer names, but did not delete"),
        ("0.26.0", 0, "as many as the library keeps: older failures may have been deleted"),
    ],
)
def test_a_full_archive_says_what_became_of_older_failures(
    tmp_path: Path, release: str, hidden: int, told: str
) -> None:
    """10,050 tasks failed, and 9,999 are in the archive. 0.24.1 leaves the records of the other 51, each a finding of
    its own; 0.26.0 deletes them: nothing speaks of them."""
    with analyze([FOLDER / f"archive-{release}.rdb.gz"], tmp_path / "case", AnalyzeOptions()) as case:
        found = [(f["check_id"], f["severity"], f["message"]) for f in case.arrow("findings").to_pylist()]
        causes = {f["cause"] for f in case.arrow("findings").to_pylist()}
        records = case.query("select count(*)::int n from jobs where has_record").to_pylist()[0]["n"]
    assert records == 9_999 + hidden
    archives = [f for f in found if f[0] == "CT004"]
    assert archives == [("CT004", "warning", f"The archive of queue full holds 9,999 tasks, {told}")]
    assert {f[:2] for f in found if f[0] != "CT004"} == ({("MB002", "warning")} if hidden else set())
    assert len(found) == 1 + hidden
    assert causes == ({"archive-full:asynq/full"} if hidden else {None})
