"""What each format says of a case whose content is known."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import jsonschema
import pytest

from jobsleuth.case import Case
from jobsleuth.reports import FORMATS, document, render
from tests.reports.conftest import build, check, finding, rows

SCHEMA = Path(__file__).parents[2] / "docs" / "report-1.schema.json"


def rendered(case: Case, fmt: str, fail_on: str = "error") -> str:
    return "".join(render(document(case, fail_on=fail_on), fmt))


def test_the_verdict_comes_first_in_text(small_case: Case) -> None:
    """The first sentence after the evidence's own lines counts findings by severity and names how many queues."""
    text = rendered(small_case, "text")
    lines = text.splitlines()
    assert lines[0] == "dump.rdb  1.03 GB  RDB 12 (Redis 7.4.1)  checksum ok  taken 2026-03-02 02:14:07 UTC"
    assert lines[1] == "2 keys · 1 belong to queues · 2 queues: 2 of bullmq 5.x"
    assert lines[3] == "6 findings: 5 errors and 1 warning, in 1 of 2 queues"


def test_findings_stand_worst_first_and_in_the_order_of_numbers(small_case: Case) -> None:
    """Errors before warnings; ids 1, 2, 3, 4, 10 and not 1, 10, 2."""
    found = [(f.severity, f.job_id) for f in document(small_case).findings]
    assert found == [(s, i) for s, i in zip(["error"] * 5 + ["warning"], ["1", "2", "3", "4", "10", "6"], strict=True)]


def test_a_group_counts_all_and_shows_three(small_case: Case) -> None:
    """Five findings of one check in one queue are one group with the first three as examples."""
    first, second = document(small_case).groups
    assert (first.check_id, first.place, first.count) == ("MB001", "bull/emails", 5)
    assert [e.job_id for e in first.examples] == ["1", "2", "3"]
    assert (second.certainty, second.count) == ("possible", 1)


def test_the_queue_table_adds_up_states(small_case: Case) -> None:
    """wait 310 and prioritized 2 are 312 waiting; the age is taken from the snapshot's time, 6 minutes after."""
    row = next(line for line in rendered(small_case, "text").splitlines() if line.startswith("bull/emails"))
    assert row.split() == ["bull/emails", "312", "5", "–", "5,000", "6", "min", "5", "error", "+1"]


def test_no_finding_is_said_in_one_line_with_what_could_not_be_checked(clean_case: Case) -> None:
    """A silent check is no clean bill: the verdict says how many ran and why one could not."""
    text = rendered(clean_case, "text")
    assert "Nothing found that does not add up (1 check ran, 1 could not: no snapshot time)" in text
    assert "taken at an unknown time" in text


def test_json_holds_every_finding_and_the_counts(small_case: Case) -> None:
    """The JSON report parses, counts match the case, details are an object."""
    report = json.loads(rendered(small_case, "json"))
    assert report["counts"] == {"error": 5, "warning": 1, "info": 0}
    assert report["failing"] == 5
    assert len(report["findings"]) == 6
    assert report["findings"][0]["details"] == {"age_ms": 12}
    assert report["evidence"][0]["as_of"] == "2026-03-02T02:14:07.000Z"


def test_json_without_findings_parses(clean_case: Case) -> None:
    """The streamed array is valid when it is empty."""
    assert json.loads(rendered(clean_case, "json"))["findings"] == []


@pytest.mark.parametrize(("fail_on", "failures"), [("error", 1), ("info", 2), ("never", 0)])
def test_junit_fails_what_reaches_the_threshold(small_case: Case, fail_on: str, failures: int) -> None:
    """A case per check that is on; failed at or above the threshold, skipped where it could not run."""
    suites = ET.fromstring(rendered(small_case, "junit", fail_on))
    suite = suites[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", str(failures), "1")
    assert len(suite.findall("testcase")) == 4
    assert len(suite.findall("testcase/failure")) == failures
    assert [s.get("message") for s in suite.iter("skipped")] == ["no snapshot time"]


@pytest.mark.parametrize("which", ["small_case", "clean_case", "hostile_case"])
def test_sarif_is_valid(which: str, request: pytest.FixtureRequest) -> None:
    """Against the models made of the standard's own schema, which take no member that the standard does not know."""
    model = pytest.importorskip("pydantic_sarif.model", reason="pydantic-sarif is not installed: NO log was validated")
    log = json.loads(rendered(request.getfixturevalue(which), "sarif"))
    model.StaticAnalysisResultsFormatSarifVersion210JsonSchema.model_validate(log)
    for result in log["runs"][0]["results"]:
        assert result["partialFingerprints"]


@pytest.mark.parametrize("which", ["small_case", "clean_case", "hostile_case"])
def test_json_is_as_its_schema_says(which: str, request: pytest.FixtureRequest) -> None:
    """Against the published schema, which itself is sound."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    report = json.loads(rendered(request.getfixturevalue(which), "json"))
    jsonschema.Draft202012Validator(schema).validate(report)
    assert set(report) == set(schema["properties"])


def test_json_has_only_numbers_that_json_has(tmp_path: Path) -> None:
    """Scores may be infinite, and DuckDB writes them as no other parser reads them: in the report they are text."""
    told = '{"score":-Infinity,"later":[Infinity,NaN,1.5]}'
    tables = {"checks": rows("checks", check("MB001", findings=1))}
    case = build(tmp_path / "case", {**tables, "findings": rows("findings", finding("MB001", "q", "1", details=told))})

    def refused(word: str) -> None:
        raise AssertionError(word)

    report = json.loads(rendered(case, "json"), parse_constant=refused)
    assert report["findings"][0]["details"] == {"score": "-Infinity", "later": ["Infinity", "NaN", 1.5]}


def test_sarif_is_one_run_with_rules_and_results(small_case: Case) -> None:
    """The parts of SARIF 2.1.0 that readers need, and each result points at its rule."""
    log = json.loads(rendered(small_case, "sarif"))
    jsonschema.validate(log, SARIF)
    run = log["runs"][0]
    assert len(run["results"]) == 6
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[r["ruleIndex"]]["id"] == r["ruleId"] for r in run["results"])
    assert {r["level"] for r in run["results"]} == {"error", "warning"}
    assert run["artifacts"][0]["hashes"] == {"sha-256": "ab" * 32}


def test_sarif_has_a_place_for_every_result(tmp_path: Path) -> None:
    """What GitHub's code scanning asks for beyond the standard: an artifact and a first line in each result, also of a
    finding about no file. An absolute path is a file URI, a relative one stays relative, and neither holds a blank."""
    for given, uri in (("/dumps/a b#1.rdb", "file:///dumps/a%20b%231.rdb"), ("dumps/../x.rdb", "dumps/../x.rdb")):
        nowhere = {**finding("MB001", "q", None, evidence=None), "queue": None, "namespace": None}
        found = [finding("MB001", "q", "1"), nowhere]
        tables = {"checks": rows("checks", check("MB001", findings=2)), "findings": rows("findings", *found)}
        case = build(tmp_path / uri.replace("/", "-"), tables, path=given)
        run = json.loads(rendered(case, "sarif"))["runs"][0]
        places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
        assert places == [{"artifactLocation": {"uri": uri}, "region": {"startLine": 1}}] * 2
        assert run["artifacts"][0]["location"]["uri"] == uri


def test_sarif_has_the_fingerprints_by_which_baselines_know_findings(small_case: Case) -> None:
    """One finding has one number wherever it is told: what is accepted here can be accepted there."""
    results = json.loads(rendered(small_case, "sarif"))["runs"][0]["results"]
    prints = [r["partialFingerprints"]["finding/v1"] for r in results]
    assert prints == [f.fingerprint for f in document(small_case).findings]
    assert len(set(prints)) == len(prints)


def test_github_writes_one_annotation_a_group(small_case: Case) -> None:
    """An error command, a warning command, a notice for the check that could not run, then the verdict."""
    lines = rendered(small_case, "github").splitlines()
    assert [line.split(" ")[0] for line in lines] == ["::error", "::warning", "::notice", "jobsleuth"]
    assert "title=MB001 Title of MB001 (5%2C certain)::" in lines[0]


def test_markdown_has_the_verdict_as_heading_and_a_row_a_cause(small_case: Case) -> None:
    """Heading, then a table with one row per cause (here: per check) and one per queue."""
    text = rendered(small_case, "markdown")
    assert text.startswith("## ❌ 6 findings: 5 errors and 1 warning, in 1 of 2 queues\n")
    assert len([line for line in text.splitlines() if line.startswith(("| MB001", "| ST001"))]) == 2


@pytest.mark.parametrize("fmt", sorted(FORMATS))
def test_same_case_same_bytes(small_case: Case, fmt: str) -> None:
    """No clock, no random order: a report made twice is the same."""
    assert rendered(small_case, fmt) == rendered(small_case, fmt)


SARIF = {
    "type": "object",
    "required": ["$schema", "version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "required": ["name", "version", "rules"],
                                "properties": {
                                    "rules": {
                                        "items": {
                                            "required": ["id", "shortDescription", "help"],
                                            "properties": {"help": {"required": ["text"]}},
                                        }
                                    }
                                },
                            }
                        },
                    },
                    "results": {
                        "items": {
                            "required": ["ruleId", "message", "level", "partialFingerprints"],
                            "properties": {
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "message": {"required": ["text"]},
                                "partialFingerprints": {"additionalProperties": {"type": "string"}},
                            },
                        }
                    },
                },
            },
        },
    },
}
"""What SARIF 2.1.0 (OASIS, sections 3.13 to 3.27) asks of the members that are written here."""
