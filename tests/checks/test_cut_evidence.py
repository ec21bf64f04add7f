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


def test_damage_within_a_value_leaves_nothing_certain(tmp_path: Path) -> None:
    """A salvage has of a damaged value only what stood before: ids of a list and fields of a record may be among what
    is lost, so neither an orphan nor a fragment is sure. Oddities that lose nothing leave certainty as it is."""
    jobs = [
        {"job_id": "orphan", "has_record": True, "state": "unknown", "record_complete": True},
        {"job_id": "cut", "has_record": True, "state": "waiting", "record_complete": False},
    ]
    place = {"job_id": "cut", "structure": "wait", "key": "bull:q:wait", "kind": "list", "decides_state": True}
    tables = {"jobs": rows_of("jobs", jobs), "membership": rows_of("membership", [place])}
    judged = [find_check("MB002"), find_check("CN003")]
    for kind, certainty in (("field_twice", "certain"), ("value_damaged", "possible")):
        warnings = [{"kind": kind, "message": "odd", "offset": 50, "count": None}]
        case = build(tmp_path / kind, tables, [evidence(0, warnings=warnings)])
        found = {(f["check_id"], f["certainty"]) for f in run_checks(case, checks=judged).findings.to_pylist()}
        assert found == {("MB002", certainty), ("CN003", certainty)}
