"""Incidents reported in public: each told by the checks that are meant for it, and nothing said beside."""

from __future__ import annotations

import hashlib
import re
import tomllib
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from jobsleuth.checks import Policy, all_checks, run_checks
from jobsleuth.checks.coverage import INCIDENTS, check_ids
from jobsleuth.pipeline import AnalyzeOptions, analyze

FOLDER = Path(__file__).parents[2] / "fixtures" / "incidents"
OPT_IN = {c.id for c in all_checks() if c.opt_in}
CASES: dict[str, dict[str, Any]] = {
    path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.toml"))
}
TOLD = [
    pytest.param(name, incident, id=f"{incident['report']}-{name}")
    for name, facts in CASES.items()
    for incident in facts["incident"]
]


@cache
def findings_of(name: str) -> list[dict[str, Any]]:
    """All findings of a dump, those of checks that the policy must enable included."""
    with TemporaryDirectory() as folder:
        case = analyze([FOLDER / f"{name}.rdb"], Path(folder) / "case", AnalyzeOptions())
        rows: list[dict[str, Any]] = run_checks(case, Policy(on=frozenset(OPT_IN))).findings.to_pylist()
        return rows


@pytest.mark.parametrize(("name", "incident"), TOLD)
def test_an_incident_is_told_and_nothing_beside_it(name: str, incident: dict[str, Any]) -> None:
    """In its database: exactly the findings that its case names, by check, severity, queue, job and retry verdict."""
    expected = incident.get("finding", [])
    checks = {f["check"] for f in expected}
    here = [f for f in findings_of(name) if f["db"] == incident["db"]]
    # What is off unless asked for speaks of ordinary things in every dump.
    here = [f for f in here if f["check_id"] not in OPT_IN - checks]
    assert sorted((f["check_id"], f["severity"], f["queue"] or "", f["job_id"] or "") for f in here) == sorted(
        (f["check"], f["severity"], f.get("queue", ""), f.get("job", "")) for f in expected
    )
    verdicts = {(f["check_id"], f["queue"], f["job_id"]): f["retry"] for f in here}
    for wanted in expected:
        if "retry" in wanted:
            assert verdicts[wanted["check"], wanted.get("queue"), wanted.get("job")] == wanted["retry"], wanted
    if incident.get("decoy"):  # What only looks broken is explained at most.
        assert {f["severity"] for f in expected} <= {"info"}
    else:
        assert expected


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_dump_is_the_one_that_its_case_speaks_of(name: str) -> None:
    """Its hash is the one written down, and no finding is outside the databases of its incidents."""
    facts = CASES[name]
    assert hashlib.sha256((FOLDER / f"{name}.rdb").read_bytes()).hexdigest() == facts["evidence"]["sha256"]
    assert {f["db"] for f in findings_of(name)} <= {incident["db"] for incident in facts["incident"]}


def test_the_table_of_incidents_says_what_is_found() -> None:
    """Every incident of the page has a dump, and the first check that the page names for it speaks there."""
    told: dict[str, set[str]] = {}
    for facts in CASES.values():
        for incident in facts["incident"]:
            told.setdefault(incident["report"], set()).update(f["check"] for f in incident.get("finding", []))
    listed = {report: text for rows in INCIDENTS.values() for report, text in rows}
    assert set(told) == set(listed)
    for report, text in listed.items():
        named = check_ids(text)
        if named:
            assert named[0] in told[report], report
        else:
            assert re.match(r"(healthy|not judged): ", text) and not told[report], report
