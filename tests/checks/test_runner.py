"""The runner: what makes a finding's columns, what cannot run and why, and that it is the same every time."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobsleuth.case import Case, conform, open_case
from jobsleuth.checks import Check, Policy, all_checks, find_check, run_checks
from jobsleuth.checks.catalogue import require_well_formed
from jobsleuth.errors import CheckError, UsageError
from tests.tables import T, build, evidence, rows_of

_DOC = """One line.

What it finds
A.

Why it matters
B.

How it comes about
C.

What to do next
D.

False alarms
E.

References
F.
"""


def check(**attributes: Any) -> type[Check]:
    """A throw-away check."""
    given = {
        "__doc__": _DOC,
        "id": "MB999",
        "name": "thrown-away",
        "title": "A throw-away check",
        "severity": "warning",
        "since": "0.1.0",
        "impact": "do not matter",
        "needs": {"jobs": ("job_id",)},
        "sql": "SELECT queue, job_id, evidence, db FROM jobs",
        "message": "{job_id}",
        **attributes,
    }
    return type("ThrownAway", (Check,), given)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    rows = [{"job_id": name, "priority": number} for number, name in enumerate(["b", "a", "c"])]
    return build(tmp_path / "case", {"jobs": rows_of("jobs", rows)}, [evidence(0)])


def only(run: Any) -> tuple[str, str | None, int]:
    (row,) = run.checks.to_pylist()
    return row["status"], row["reason"], row["findings"]


def test_tables_have_the_case_schemas_and_every_check_its_row(case: Case) -> None:
    """The pipeline appends both tables as they are."""
    run = run_checks(case)
    assert run.findings.schema == conform("findings", pa.table({})).schema
    assert run.checks.schema == conform("checks", pa.table({})).schema
    assert run.checks.column("check_id").to_pylist() == [c.id for c in all_checks()]
    status = dict(zip(run.checks.column("check_id").to_pylist(), run.checks.column("status").to_pylist(), strict=True))
    assert status == {c.id: "off" if c.opt_in else "ran" for c in all_checks()}
    assert dict(run.checks.column("texts")[0].as_py()) == all_checks()[0].texts()


def test_columns_of_the_row_become_columns_and_details(case: Case) -> None:
    """Place and verdict go to their columns, the rest to details, what begins with `_` only into the sentence."""
    one = check(
        sql="""SELECT 'q' AS queue, job_id, 'k' AS key, 0 AS evidence, 3 AS db, 'info' AS severity,
               'possible' AS certainty, priority, [1, 2] AS list, {'a': NULL} AS nested,
               'x' || job_id AS _shown FROM jobs""",
        message="{_shown} {priority} {queue}",
    )
    first = run_checks(case, checks=[one]).findings.to_pylist()[0]
    wanted = {
        "check_id": "MB999",
        "severity": "info",
        "certainty": "possible",
        "dialect": None,
        "namespace": None,
        "queue": "q",
        "job_id": "a",
        "key": "k",
        "message": "xa 1 q",
        "details": '{"priority":1,"list":[1,2],"nested":{"a":null}}',
        "help_url": "docs/checks/MB999.md",
        "evidence": 0,
        "db": 3,
    }
    assert {name: first[name] for name in wanted} == wanted


def test_rows_come_in_one_order_whatever_the_sql_says(case: Case) -> None:
    """Findings of two runs are equal byte for byte, sorted by place."""
    one = check(sql="SELECT queue, job_id, evidence, db FROM jobs ORDER BY priority DESC")
    runs = [run_checks(case, checks=[one]).findings for _ in range(3)]
    assert runs[0].column("job_id").to_pylist() == ["a", "b", "c"]
    assert runs[0].equals(runs[1]) and runs[1].equals(runs[2])


def test_a_failing_query_is_a_check_that_could_not_run(case: Case) -> None:
    """One broken check (an outside one, say) does not take the others down, nor the terminal."""
    broken = check(sql="SELECT * FROM nowhere_\u001b")
    slips = check(id="MB998", name="slips", sql="SELECT job_id, error('x\u001b[2J') FROM jobs")
    mute = check(id="MB997", name="mute", message="{nobody}")
    loud = check(id="MB996", name="loud", sql="SELECT job_id, 'fatal' AS severity FROM jobs")
    sure = check(id="MB995", name="sure", sql="SELECT job_id, 'bogus\u001b' AS certainty FROM jobs")
    rows = run_checks(case, checks=[broken, slips, mute, loud, sure, all_checks()[0]]).checks.to_pylist()
    assert [row["status"] for row in rows] == ["ran", *["could_not_run"] * 5]
    assert all(row["reason"].isprintable() and row["reason"].startswith("its query failed: ") for row in rows[1:])


def test_a_case_that_lacks_a_column_or_a_table_is_not_called_clean(case: Case) -> None:
    """An old case under new checks: what cannot be judged says so."""
    file = case.path / "jobs" / "part-00000.parquet"
    pq.write_table(pq.read_table(file, partitioning=None).drop_columns(["has_record"]), file)
    shutil.rmtree(case.path / "relations")
    manifest = json.loads((case.path / "manifest.json").read_text())
    manifest["files"] = {name: of for name, of in manifest["files"].items() if not name.startswith("relations/")}
    del manifest["tables"]["relations"]
    (case.path / "manifest.json").write_text(json.dumps(manifest))
    rows = {row["check_id"]: row for row in run_checks(open_case(case.path)).checks.to_pylist()}
    assert rows["MB001"]["status"] == "could_not_run"
    assert rows["MB001"]["reason"] == "the case's table jobs has no column has_record"
    assert rows["UQ001"]["reason"] == "the case has no table relations"
    assert rows["MB004"]["status"] == "ran" and rows["MB004"]["reason"] is None


def test_evidence_without_a_time_is_left_out_of_checks_that_need_one(tmp_path: Path) -> None:
    """Of two dumps one says when it was taken: that one is judged, the other is named."""
    rows = [{"job_id": "1", "structure": "delayed", "due_at": "T-1d", "evidence": n} for n in (0, 1)]
    tables = {"membership": rows_of("membership", rows)}
    both = build(tmp_path / "both", tables, [evidence(0), evidence(1, as_of_ms=None)])
    run = run_checks(both, checks=[find_check("LV004")])
    assert run.findings.column("evidence").to_pylist() == [0]
    status, reason, found = only(run)
    assert (status, found) == ("ran", 1) and reason is not None and reason.startswith("left out evidence 1: ")
    none = build(tmp_path / "none", tables, [evidence(0, as_of_ms=None), evidence(1, as_of_ms=None)])
    status, reason, found = only(run_checks(none, checks=[find_check("LV004")]))
    assert (status, found) == ("could_not_run", 0) and reason is not None and "--as-of" in reason


@pytest.mark.parametrize(
    ("info", "moving", "certainty"),
    [
        ({}, True, "certain"),
        ({"atomic": False}, True, "possible"),
        ({"atomic": False}, False, "certain"),
        ({"fault": {"kind": "x", "message": "cut"}}, True, "possible"),
        ({"checksum": {"status": "mismatch"}}, True, "possible"),
        ({"checksum": {"status": "disabled"}}, True, "certain"),
        ({"checksum": {}}, True, "certain"),
    ],
)
def test_certainty(tmp_path: Path, info: dict[str, Any], moving: bool, certainty: str) -> None:
    """Only one whole instant proves that two structures disagree."""
    made = build(tmp_path / "c", {"jobs": rows_of("jobs", [{"job_id": "1"}])}, [evidence(0, **info)])
    assert run_checks(made, checks=[check(moving=moving)]).findings.column("certainty").to_pylist() == [certainty]


def test_policy(case: Case) -> None:
    """Thresholds replace the defaults; checks can be off; what does not exist is refused."""
    one = check(sql="SELECT job_id FROM jobs WHERE priority >= $least", parameters={"least": 2})
    assert only(run_checks(case, checks=[one]))[2] == 1
    assert only(run_checks(case, Policy({"least": 0}), [one]))[2] == 3
    assert only(run_checks(case, Policy(off=frozenset({"MB999"})), [one])) == ("off", "switched off by the policy", 0)
    with pytest.raises(UsageError, match="parameter most"):
        run_checks(case, Policy({"most": 1}), [one])
    with pytest.raises(UsageError, match="no check XX001"):
        run_checks(case, Policy(off=frozenset({"XX001"})), [one])


def test_values_in_a_sentence_are_cut_and_missing_ones_named(tmp_path: Path) -> None:
    """A megabyte of id makes no megabyte of message; `details` and `job_id` have it whole."""
    long = "x" * 1_000_000
    rows = [{"job_id": long}, {"job_id": "é\n" * 200}, {"job_id": False}]
    made = build(tmp_path / "c", {"jobs": rows_of("jobs", rows)})
    run = run_checks(made, checks=[check(sql="SELECT job_id, job_id AS again FROM jobs", message="[{job_id}]")])
    found = {f["job_id"]: f for f in run.findings.to_pylist()}
    assert found[long]["message"] == "[" + "x" * 119 + "…]"
    assert len(found["é\n" * 200]["message"]) == 122 and "\\n" in found["é\n" * 200]["message"]
    assert found[None]["message"] == "[unknown]"
    assert json.loads(found[long]["details"])["again"] == long


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"), (999, "999 ms"), (1_000, "1 s"), (59_999, "59 s"), (60_000, "1 min 0 s"),
        (3_599_999, "59 min 59 s"), (3_600_000, "1 h 0 min"), (86_399_999, "23 h 59 min"), (86_400_000, "1 d 0 h"),
        (1_700_000_000_000, "19675 d 22 h"),
    ],
)  # fmt: skip
def test_durations_in_words(case: Case, ms: int, text: str) -> None:
    """Cut, not rounded: nothing is said to be older than it is."""
    one = check(sql=f"SELECT duration_text({ms}) AS _d", message="{_d}")
    assert run_checks(case, checks=[one]).findings.column("message").to_pylist() == [text]


def test_find_check_by_id_and_name() -> None:
    """Either works, the id in any case; a wrong one is an error that repeats it harmlessly."""
    assert find_check("mb001") is find_check("member-without-record") is find_check("MB001")
    with pytest.raises(CheckError, match=r"no check \\x1b\[2J"):
        find_check("\u001b[2J")


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ({"id": "mb1"}, "no id"),
        ({"name": "Not Kebab"}, "kebab"),
        ({"severity": "fatal"}, "no severity"),
        ({"sql": ""}, "has no sql"),
        ({"__doc__": _DOC.replace("False alarms\n", "")}, "sections"),
        ({"__doc__": _DOC.replace("Why it matters\nB.\n\n", "") + "\nWhy it matters\nB."}, "sections"),
        ({"__doc__": None}, "sections"),
    ],
)
def test_a_check_that_is_not_well_formed_is_refused(attributes: dict[str, Any], why: str) -> None:
    """Outside checks meet the same rules as ours, with an error that says which."""
    with pytest.raises(CheckError, match=why):
        require_well_formed(check(**attributes))
    require_well_formed(check())


def test_a_finding_about_a_job_says_since_when_held_by_whom_and_whether_it_may_be_retried(tmp_path: Path) -> None:
    """From the record, its claims and its events; what the evidence does not hold is called unknown, not guessed."""
    jobs = [
        {"job_id": "fresh", "has_record": True, "state": "waiting", "created_at": "T-1h", "attempts": 0},
        {"job_id": "held", "has_record": True, "state": "active", "created_at": "T-1h", "started_at": "T-1m"},
        {"job_id": "gone", "has_record": False, "state": "waiting"},
        {"job_id": "told", "has_record": True, "state": "waiting", "created_at": "T-2h", "attempts_started": 0},
        {"job_id": "scar", "has_record": True, "state": "waiting", "created_at": "T-2h", "stacktrace": '["e"]'},
    ]
    workers = [{"kind": "lock", "job_id": "held", "worker_id": "tok\x1b[2K", "valid_until": "T-5s", "valid": False}]
    events = [
        {"job_id": "told", "at": "T-1h", "event": "active"},
        {"job_id": "told", "at": "T-30m", "event": "waiting"},
    ]
    tables = {n: rows_of(n, r) for n, r in {"jobs": jobs, "workers": workers, "events": events}.items()}
    made = build(tmp_path / "case", tables, [evidence(0)])
    one = check(sql="SELECT dialect, namespace, queue, job_id, evidence, db FROM jobs")
    found = {f["job_id"]: f for f in run_checks(made, checks=[one]).findings.to_pylist()}
    moments = {
        i: None if f["since_from"] is None else int(f["since_from"].timestamp() * 1000) for i, f in found.items()
    }
    assert moments == {
        "fresh": T - 3_600_000,
        "held": T - 60_000,
        "gone": None,
        "told": T - 1_800_000,
        "scar": T - 7_200_000,
    }
    assert {int(f["since_to"].timestamp() * 1000) for f in found.values()} == {T}
    verdicts = {i: f["retry"] for i, f in found.items()}
    assert verdicts == {"fresh": "safe", "held": "unsafe", "gone": "unknown", "told": "unsafe", "scar": "unsafe"}
    assert found["held"]["held_by"] == "lock token tok\\x1b[2K, until 2023-11-14 22:13:15 UTC"
    assert found["fresh"]["held_by"] == "nobody yet: it never started"
    assert found["gone"]["held_by"].startswith("cannot be known")
    assert found["gone"]["since_why"].startswith("cannot be known")
    assert {f["heals_basis"] for f in found.values()} == {"derived"} and len({f["heals"] for f in found.values()}) == 1
    assert len({f["fingerprint"] for f in found.values()}) == len(found)


def test_a_check_knows_better_than_the_general_answers(tmp_path: Path) -> None:
    """What a row says itself is kept, and a finding about no job is asked nothing about jobs."""
    made = build(tmp_path / "case", {"jobs": rows_of("jobs", [{"job_id": "1", "has_record": True}])}, [evidence(0)])
    own = "'by me' AS held_by, 'unknown' AS retry, TIMESTAMPTZ '2023-01-01 00:00:00+00' AS since_from, 'x' AS _same"
    named = check(sql=f"SELECT dialect, namespace, queue, job_id, evidence, db, {own} FROM jobs")
    queue = check(
        id="MB998",
        name="of-a-queue",
        sql="SELECT dialect, namespace, queue, evidence, db, 1 AS n FROM jobs",
        message="{n}",
    )
    one, two = run_checks(made, checks=[queue, named]).findings.to_pylist()
    assert (two["held_by"], two["retry"], two["since_from"].year) == ("by me", "unknown", 2023)
    assert one["job_id"] is None and one["held_by"] is None and one["retry"] is None and one["fingerprint"]
    plain = check(sql="SELECT dialect, namespace, queue, job_id, evidence, db FROM jobs")
    assert run_checks(made, checks=[plain]).findings.to_pylist()[0]["fingerprint"] != two["fingerprint"]
