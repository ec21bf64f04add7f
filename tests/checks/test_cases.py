"""Runs every check's own cases: tiny tables in, exactly these findings out."""

from __future__ import annotations

import json
import tomllib
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from jobsleuth.case import TABLES
from jobsleuth.checks import Check, Policy, all_checks, run_checks
from tests.tables import NAMESPACES, build, evidence, rows_of

HERE = Path(__file__).parent
CHECKS = {check.id: check for check in all_checks()}
TABLE_NAMES = [table.name for table in TABLES]
KINDS = {"fires", "near-miss", "hostile", "other"}


def case_file(check: type[Check]) -> Path:
    """`tests/checks/<family>/<file>.toml` of a check."""
    *_, family, module = check.__module__.split(".")
    return HERE / family / f"{module}.toml"


def cases() -> list[Any]:
    found = []
    for check in all_checks():
        path = case_file(check)
        if path.exists():
            for number, case in enumerate(tomllib.loads(path.read_text(encoding="utf-8"))["case"]):
                found.append(pytest.param(check, case, id=f"{check.id}-{number}-{case['kind']}"))
    return found


@pytest.mark.parametrize("check", all_checks(), ids=lambda c: c.id)
def test_every_check_has_cases_that_fire_that_nearly_do_and_that_are_hostile(check: type[Check]) -> None:
    """A check without all three kinds of case is not proven."""
    assert case_file(check).exists(), f"{case_file(check)} is missing"
    kinds = [case["kind"] for case in tomllib.loads(case_file(check).read_text(encoding="utf-8"))["case"]]
    assert set(kinds) <= KINDS
    assert {"fires", "near-miss", "hostile"} <= set(kinds)


def test_no_case_file_is_left_over() -> None:
    """A case file whose check is gone or renamed would silently test nothing."""
    assert sorted(HERE.glob("*/*.toml")) == sorted(case_file(check) for check in all_checks())


@pytest.mark.parametrize(("check", "case"), cases())
def test_case(check: type[Check], case: dict[str, Any], tmp_path: Path) -> None:
    """The check makes exactly the findings that the case says, and their texts are harmless."""
    assert case["proves"]
    dialect = case.get("dialect", check.dialects[0] if len(check.dialects) == 1 else "bullmq")
    info = {"atomic": case.get("atomic", True), **case.get("evidence", {})}
    if not case.get("as_of", True):
        info["as_of_ms"] = None
    tables = {name: rows_of(name, case[name], dialect) for name in TABLE_NAMES if name in case and name != "findings"}
    made = build(tmp_path / "case", tables, [evidence(**info)])
    run = run_checks(made, Policy(parameters=case.get("parameters", {}), on=frozenset({check.id})), [check])

    (verdict,) = run.checks.to_pylist()
    assert (case.get("status", "ran"), case.get("reason")) == (verdict["status"], verdict["reason"])
    got = run.findings.to_pylist()
    expected = case.get("findings", [])
    place = {"queue": "q", "namespace": NAMESPACES.get(dialect)}
    if check.id.startswith("EV"):
        place = {}
    default = {"severity": check.severity, "certainty": "certain", "job_id": None, "evidence": 0, **place}
    wanted = [{**default, **{k: None if v is False else v for k, v in finding.items()}} for finding in expected]
    assert wanted == [_chosen(finding, want) for finding, want in zip(got, wanted, strict=False)]
    assert len(wanted) == len(got), [f["message"] for f in got[len(wanted) :]]
    for finding in got:
        assert not [c for c in finding["message"] if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}]
        assert "{" not in check.message or finding["message"] != check.message
        assert isinstance(json.loads(finding["details"]), dict)
        assert finding["help_url"] == f"docs/checks/{check.id}.md"


def _chosen(finding: dict[str, Any], want: dict[str, Any]) -> dict[str, Any]:
    """The parts of a finding that the case speaks of; `details` only the members it names."""
    out = {name: finding[name] for name in want if name != "details"}
    if "details" in want:
        facts = json.loads(finding["details"])
        out["details"] = {name: facts.get(name) for name in want["details"]}
    return out
