"""What each format says of a case whose content is known."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import jsonschema
import pytest

from jobsleuth.case import Case
from jobsleuth.checks import Accepted, Policy, run_checks
from jobsleuth.reports import FORMATS, document, render
from tests.reports.conftest import build, check, finding, rows
from tests.tables import build as tables_case
from tests.tables import evidence, rows_of

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


JUNIT = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"},
    "testcase": {"name", "time", "classname"},
    "failure": {"type", "message"},
    "skipped": {"type", "message"},
    "system-out": set[str](),
}
"""Elements and attributes that are written here and that the schema of Jenkins' xUnit plugin (junit-10.xsd) has."""


@pytest.mark.parametrize("which", ["small_case", "clean_case", "hostile_case"])
def test_junit_has_only_what_a_validating_reader_takes(which: str, request: pytest.FixtureRequest) -> None:
    """Jenkins' xUnit plugin refuses a report with an attribute that its schema does not know at that place."""
    for element in ET.fromstring(rendered(request.getfixturevalue(which), "junit")).iter():
        assert set(element.keys()) <= JUNIT[element.tag], element.tag


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


def test_sarif_messages_link_nowhere_and_await_no_arguments(tmp_path: Path) -> None:
    """A viewer makes a link of `[text](target)` and puts arguments in place of `{0}`: both stand in SARIF's own escapes
    (3.11.5, 3.11.6), so that an id of the evidence is shown as it is; other brackets and braces are left alone."""
    told = {
        "[Fix it](https://evil.example)": r"\[Fix it\](https://evil.example)",
        r"a\](0)": r"a\\\](0)",
        "{0} of {emails}": "{{0}} of {{emails}}",
        "asynq:{emails}:t:[1]": "asynq:{emails}:t:[1]",
    }
    found = [finding("MB001", "q", str(n), message=name) for n, name in enumerate(told)]
    tables = {"checks": rows("checks", check("MB001", findings=len(told))), "findings": rows("findings", *found)}
    results = json.loads(rendered(build(tmp_path / "case", tables), "sarif"))["runs"][0]["results"]
    assert [r["message"]["text"] for r in results] == list(told.values())


def test_github_writes_one_annotation_a_cause(small_case: Case) -> None:
    """An error command, a warning command, a notice for the check that could not run, then the verdict."""
    lines = rendered(small_case, "github").splitlines()
    assert [line.split(" ")[0] for line in lines] == ["::error", "::warning", "::notice", "jobsleuth"]
    assert "title=MB001 Title of MB001 (5%2C certain)::" in lines[0]


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """One undecodable message that stops the recovery of 14 tasks in 14 queues, and a fragment of a record."""
    queues = [f"q{n:02}" for n in range(14)]
    tables = {
        "jobs": [
            {"queue": "bad", "job_id": "bad", "state": "active", "has_record": True, "decode_error": "x"},
            {"queue": "bad", "job_id": "part", "state": "pending", "has_record": True, "record_complete": False},
            *(
                {"queue": q, "job_id": "1", "state": "active", "has_record": True, "record_complete": True,
                 "record_id": "1", "record_queue": q}
                for q in queues
            ),
        ],
        "membership": [
            {"queue": q, "job_id": j, "structure": "active", "decides_state": True}
            for q, j in [("bad", "bad"), *((q, "1") for q in queues)]
        ],
        "workers": [
            {
                "queue": q,
                "job_id": j,
                "kind": "lease",
                "valid_until": "T-1h",
                "valid": False,
                "key": f"asynq:{{{q}}}:lease",
            }
            for q, j in [("bad", "bad"), *((q, "1") for q in queues)]
        ],
        "queues": [{"queue": q} for q in ["bad", *queues]],
    }  # fmt: skip
    return tables_case(
        tmp_path_factory.mktemp("poisoned") / "case",
        {n: rows_of(n, r, "asynq") for n, r in tables.items()},
        [evidence(0)],
    )


def judged(case: Case, fmt: str) -> str:
    run = run_checks(case)
    made = document(case, checks=run.checks, findings=run.findings, known=run.causes, accepted=run.accepted)
    return "".join(render(made, fmt))


def test_github_tells_fifteen_findings_of_one_cause_once(poisoned: Case) -> None:
    """A run shows ten annotations of a kind: the cause comes before what stands alone, names places and the remedy."""
    errors = [line for line in judged(poisoned, "github").splitlines() if line.startswith("::error")]
    assert len(errors) == 2
    assert errors[0].startswith("::error title=Recovery stops at a message that cannot be decoded (LV003 CN001; 16%2C ")
    assert "and 11 more: " in errors[0] and errors[0].endswith("recovery then goes on by itself.")
    assert "title=CN003 " in errors[1]


def test_junit_says_which_cause_a_failure_has(poisoned: Case) -> None:
    """Cases stay checks; a failure begins with what explains its findings, and in which other checks that shows."""
    suite = ET.fromstring(judged(poisoned, "junit"))[0]
    failures = {c.get("name", "")[:5]: c.findtext("failure") or "" for c in suite if c.find("failure") is not None}
    assert set(failures) == {"CN001", "CN003", "LV003"}
    assert failures["LV003"].startswith(
        "cause of 15 of 15 findings, with CN001 (inferred): Recovery stops at a message that cannot be decoded. Take "
    )
    assert not failures["CN003"].startswith("cause")


def test_sarif_says_of_each_alert_which_cause_it_has(poisoned: Case) -> None:
    """Alerts are shown one by one: each of one cause says so, and the run lists the causes with their remedy."""
    run = json.loads(judged(poisoned, "sarif"))["runs"][0]
    jsonschema.validate({"$schema": "x", "version": "2.1.0", "runs": [run]}, SARIF)
    texts = [r["message"]["text"] for r in run["results"]]
    told = ". One of 16 findings with one cause: Recovery stops at a message that cannot be decoded"
    assert [t.endswith(told) for t in texts].count(True) == 16 and len(texts) == 17
    assert [(c["kind"], c["findings"], c["rules"]) for c in run["properties"]["causes"]] == [
        ("poison-message", 16, ["LV003", "CN001"])
    ]


def test_the_screen_says_what_to_do_about_the_worst_cause(poisoned: Case) -> None:
    """The remedy of the first cause, and the check that explains it, not one that a lesser fault has."""
    text = judged(poisoned, "text")
    assert "    do: Take the task with that message out of `active` and `lease` by hand" in text
    assert "Why, and what to do: jobsleuth explain LV003\n" in text


def test_the_screen_says_what_it_means_for_the_work(tmp_path: Path) -> None:
    """Where several jobs have one fault, what that means for them is a sentence with their number; one needs none."""
    jobs = [{"queue": q, "job_id": j, "state": "unknown", "has_record": True, "record_complete": True}
            for q, j in (("a", "1"), ("a", "2"), ("b", "3"))]  # fmt: skip
    for count in (3, 1):
        case = tables_case(tmp_path / str(count), {"jobs": rows_of("jobs", jobs[:count])}, [evidence(0)])
        meaning = "    these 3 jobs will never run and are shown nowhere\n"
        assert (meaning in judged(case, "text")) == (count == 3)
        assert "these 1 jobs" not in judged(case, "text")


def test_accepted_findings_are_no_clean_bill(poisoned: Case) -> None:
    """With all of them accepted nothing is new, and every format says so; with some, how many are left out."""
    found = run_checks(poisoned).findings.to_pylist()
    every = Policy(accepted={f["fingerprint"]: Accepted("known") for f in found})
    some = Policy(accepted={f["fingerprint"]: Accepted("known") for f in found if f["check_id"] == "LV003"})
    told = []
    for policy in (every, some):
        run = run_checks(poisoned, policy)
        made = document(poisoned, checks=run.checks, findings=run.findings, known=run.causes, accepted=run.accepted)
        told.append({fmt: "".join(render(made, fmt)) for fmt in FORMATS if fmt not in ("junit", "sarif")})
    for text in told[0].values():
        assert "Nothing new that does not add up; 17 known findings accepted" in text
    assert "nothing new" in next(t for t in told[0]["text"].splitlines() if t.startswith("asynq/q00"))
    assert json.loads(told[0]["json"])["accepted"] == 17
    for text in told[1].values():
        assert "2 findings: 2 errors, in 1 of 15 queues; 15 known findings accepted" in text


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
