"""Evidence that ends too early: what only seems to be missing is told apart from what is seen to be wrong."""

from __future__ import annotations

from pathlib import Path

from jobsleuth.checks import find_check, run_checks
from tests.tables import build, evidence, rows_of

FAULT = {"kind": "truncated", "message": "cut short", "offset": 50}


def test_only_what_the_missing_part_could_explain_is_doubted(tmp_path: Path) -> None:
    """A record that was not seen may stand behind the cut; an id that was seen in two structures is in both."""
    jobs = [
        {"job_id": "ghost", "has_record": False, "state": "waiting"},
        {"job_id": "twin", "has_record": True, "state": "waiting", "record_complete": True},
    ]
    places = [("ghost", "wait"), ("twin", "wait"), ("twin", "completed")]
    common = {"kind": "list", "decides_state": True}
    membership = [{"job_id": j, "structure": s, "key": f"bull:q:{s}", **common} for j, s in places]
    tables = {"jobs": rows_of("jobs", jobs), "membership": rows_of("membership", membership)}
    judged = [find_check("MB001"), find_check("MB003")]
    for fault, ghost in ((None, "certain"), (FAULT, "possible")):
        case = build(tmp_path / str(fault is None), tables, [evidence(0, fault=fault)])
        found = {(f["check_id"], f["certainty"]) for f in run_checks(case, checks=judged).findings.to_pylist()}
        assert found == {("MB001", ghost), ("MB003", "certain")}
