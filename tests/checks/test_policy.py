"""Policies: what a team switches off, judges otherwise, or accepts; and what a policy file may not say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobsleuth.case import Case
from jobsleuth.checks import (
    Accepted,
    Policy,
    QueueRule,
    find_check,
    load_policy,
    make_baseline,
    run_checks,
    with_baseline,
)
from jobsleuth.errors import CheckError, UsageError
from tests.tables import T, build, evidence, rows_of

DAY = 86_400_000


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """Two queues with a ghost each and a job that is seven minutes late; one has a payload of 3,000 bytes."""
    jobs = [{"job_id": "ghost", "queue": q, "has_record": False, "state": "waiting"} for q in ("mails", "shop")]
    jobs.append({"job_id": "big", "queue": "mails", "has_record": True, "state": "waiting", "payload_bytes": 3000})
    membership: list[dict[str, Any]] = []
    for q in ("mails", "shop"):
        membership.append({"job_id": "ghost", "queue": q, "structure": "wait", "decides_state": True})
        membership.append({"job_id": "late", "queue": q, "structure": "delayed", "due_at": "T-7m"})
    tables = {"jobs": rows_of("jobs", jobs), "membership": rows_of("membership", membership)}
    return build(tmp_path / "case", tables, [evidence(0)])


def told(case: Case, policy: Policy) -> set[tuple[str, str, str]]:
    wanted = {"MB001", "LV004", "CN014"}
    rows = run_checks(case, policy).findings.to_pylist()
    return {(f["check_id"], f["queue"], f["severity"]) for f in rows if f["check_id"] in wanted}


def written(folder: Path, text: str) -> Path:
    path = folder / "jobsleuth.toml"
    path.write_text(text, encoding="utf-8")
    return path


PLAIN = {
    ("MB001", "mails", "error"),
    ("MB001", "shop", "error"),
    ("LV004", "mails", "error"),
    ("LV004", "shop", "error"),
}


def test_without_a_policy_the_checks_decide(case: Case) -> None:
    """The ground that the other tests change."""
    assert told(case, Policy()) == PLAIN


def test_checks_are_switched_off_and_judged_otherwise(case: Case, tmp_path: Path) -> None:
    """By id or by name, all over or for some queues; the last rule that fits a queue decides."""
    file = written(
        tmp_path,
        """
        [checks]
        disable = ["member-without-record"]
        [severity]
        LV004 = "info"
        [[queue]]
        name = "*"
        severity = { overdue = "warning" }
        [[queue]]
        name = "ma?ls"
        namespace = "bull"
        disable = ["LV004"]
        """,
    )
    assert told(case, load_policy(file)) == {("LV004", "shop", "warning")}


def test_thresholds_are_set_for_all_and_for_some_queues(case: Case, tmp_path: Path) -> None:
    """Amounts are numbers, durations or sizes; a queue's own threshold is used for it and for no other."""
    file = written(
        tmp_path,
        """
        [parameters]
        payload_limit_bytes = "2KB"
        [[queue]]
        name = "shop"
        parameters = { overdue_after_ms = "10m" }
        """,
    )
    lenient = {("LV004", "shop", "warning")}
    assert told(case, load_policy(file)) == PLAIN - {("LV004", "shop", "error")} | lenient | {
        ("CN014", "mails", "warning")
    }


def test_each_threshold_follows_the_last_rule_that_names_it(case: Case, tmp_path: Path) -> None:
    """A later rule about something else leaves what an earlier one said of the same queue."""
    file = written(
        tmp_path,
        """
        [[queue]]
        name = "*"
        parameters = { overdue_after_ms = "10m" }
        [[queue]]
        name = "shop"
        parameters = { bullmq_slack_ms = 1, payload_limit_bytes = 1 }
        """,
    )
    lenient = {("LV004", "mails", "warning"), ("LV004", "shop", "warning")}
    assert {told_of for told_of in told(case, load_policy(file)) if told_of[0] == "LV004"} == lenient


def test_brackets_in_a_queue_s_name_mean_themselves() -> None:
    """Only * and ? are patterns: `jobs[1]` is that queue and not `jobs1`; an empty prefix is one, too."""
    assert QueueRule("jobs[1]").fits("bull", "jobs[1]") and not QueueRule("jobs[1]").fits("bull", "jobs1")
    assert QueueRule("j?bs[*").fits("bull", "jobs[9]") and not QueueRule("Jobs*").fits("bull", "jobs")
    assert QueueRule("*", namespace="").fits("", "q") and not QueueRule("*", namespace="").fits("bull", "q")


def test_a_check_that_runs_only_if_wanted(case: Case, tmp_path: Path) -> None:
    """It is off unless the policy enables it, and says why."""
    rows = {r["check_id"]: (r["status"], r["reason"]) for r in run_checks(case).checks.to_pylist()}
    assert rows["UQ006"] == ("off", "runs only if the policy enables it")
    policy = load_policy(written(tmp_path, '[checks]\nenable = ["UQ006"]\ndisable = ["MB003"]\n'))
    rows = {r["check_id"]: (r["status"], r["reason"]) for r in run_checks(case, policy).checks.to_pylist()}
    assert rows["UQ006"] == ("ran", None) and rows["MB003"] == ("off", "switched off by the policy")


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("[chekcs]\n", "there is no key chekcs", "did you mean checks?"),
        ("[checks]\ndisabled = []\n", "checks: there is no key disabled", "did you mean disable?"),
        ('[checks]\ndisable = ["MB0001"]\n', "checks.disable: there is no check MB0001", "did you mean MB001?"),
        ('[checks]\ndisable = ["mb001"]\n', "checks.disable: there is no check mb001", "did you mean MB001?"),
        ('[checks]\ndisable = ["overdu"]\n', "checks.disable: there is no check overdu", "did you mean overdue?"),
        ('[checks]\ndisable = "MB001"\n', "checks.disable is no list of checks", 'e.g. ["MB005"]'),
        ('[severity]\nMB001 = "fatal"\n', "severity.MB001: no severity is fatal", "error, warning or info"),
        ('[severity]\nMB001 = "eror"\n', "severity.MB001: no severity is eror", "did you mean error?"),
        (
            "[parameters]\noverdue_afer_ms = 1\n",
            "parameters: no check has a parameter overdue_afer_ms",
            "did you mean overdue_after_ms?",
        ),
        (
            '[parameters]\noverdue_after_ms = "5 weeks"\n',
            "parameters.overdue_after_ms: 5 weeks is no amount",
            'e.g. a whole number, "10s", "10m", "10h"',
        ),
        ("[parameters]\nleast_jobs = -1\n", "parameters.least_jobs: -1 is no amount", "e.g. a whole number"),
        ("[parameters]\nleast_jobs = true\n", "parameters.least_jobs: True is no amount", "e.g. a whole number"),
        ("[[queue]]\nnam = 1\n", "queue: there is no key nam", "did you mean name?"),
        (
            '[[queue]]\nname = "*"\nenable = ["UQ006"]\n',
            "queue: there is no key enable",
            "there are: name, namespace, disable, severity, parameters",
        ),
        (
            '[checks]\nenable = ["UQ006"]\ndisable = ["retained-custom-ids"]\n',
            "checks: UQ006 is both enabled and disabled",
            "keep one of the two",
        ),
        ("[[queue]]\nname = 1\n", "queue: name is missing or no text", 'e.g. name = "mails-*"'),
        ("[[queue]]\nname = 'a'\nnamespace = 1\n", "queue a: namespace is no text", 'e.g. namespace = "bull"'),
        (
            "[[suppress]]\nfingerprint = 'x'\nreason = 'r'\n[[suppress]]\nfingerprint = 'x'\nreason = 's'\n",
            "suppress 2: x is suppressed twice",
            "keep one of the two",
        ),
        (
            "[[suppress]]\nfingerprint = 'x'\nreason = 'r'\nexpires = 0001-01-01T00:00:00+14:00\n",
            "suppress 1: expires: 0001-01-01 00:00:00+14:00 is no date",
            "e.g. 2027-01-31",
        ),
        ("[queue]\nname = 'a'\n", "queue is no list of tables", "write [[queue]]"),
        (
            "[[suppress]]\nfingerprint = 'x'\n",
            "suppress 1: reason is missing or no text",
            "every suppression needs a fingerprint and a reason",
        ),
        (
            "[[suppress]]\nfingerprint = 'x'\nreason = 'r'\nexpires = 'soon'\n",
            "suppress 1: expires: soon is no date",
            "e.g. 2027-01-31",
        ),
        (
            "[[suppress]]\nfingerprint = 'x'\nreason = 'r'\nexpires = 2027-01-31T00:00:00\n",
            "suppress 1: expires: 2027-01-31 00:00:00 has no time zone",
            "e.g. 2027-01-31 or 2027-01-31T08:00:00Z",
        ),
        (
            "[severity]\n\"\\u001b[2J\" = 'error'\n",
            "severity: there is no check \\x1b[2J",
            "jobsleuth explain lists them all",
        ),
    ],
)
def test_what_a_policy_does_not_know_is_an_error_with_a_suggestion(
    tmp_path: Path, text: str, what: str, hint: str
) -> None:
    """A misspelled word in a policy must never mean that something is silently not judged."""
    with pytest.raises(UsageError) as caught:
        load_policy(written(tmp_path, text))
    assert (caught.value.message, caught.value.hint) == (what, hint)
    assert caught.value.file == str(tmp_path / "jobsleuth.toml")


def test_a_file_that_is_none(tmp_path: Path) -> None:
    """Missing, no text, no TOML: one line that says so."""
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load_policy(tmp_path / "nowhere.toml")
    (tmp_path / "deep.toml").write_text("a = " + "[" * 5000, encoding="utf-8")
    with pytest.raises(UsageError):
        load_policy(tmp_path / "deep.toml")
    for content in (b"\xff\xfe", b"= 1", b"[a]\n[a]\n"):
        (tmp_path / "bad.toml").write_bytes(content)
        with pytest.raises(UsageError, match="is no TOML"):
            load_policy(tmp_path / "bad.toml")


def test_a_baseline_accepts_what_is_known_and_only_that(case: Case, tmp_path: Path) -> None:
    """Against its own baseline a case has no finding; a new one is reported although it is of the same kind."""
    text = make_baseline(run_checks(case).findings, "known since May", None, {})
    path = tmp_path / "known.json"
    path.write_text(text, encoding="utf-8")
    run = run_checks(case, with_baseline(Policy(), path))
    assert run.findings.num_rows == 0 and run.accepted == 4
    assert {r["findings"] for r in run.checks.to_pylist()} == {0}
    stored = json.loads(text)
    stored["findings"] = [f for f in stored["findings"] if (f["check_id"], f["queue"]) != ("MB001", "shop")]
    path.write_text(json.dumps(stored), encoding="utf-8")
    assert told(case, with_baseline(Policy(), path)) == {("MB001", "shop", "error")}


def test_a_fingerprint_is_the_same_in_another_snapshot_and_differs_between_subjects(tmp_path: Path) -> None:
    """No time, file or severity is in it; check, library, namespace, queue, job and database are."""

    def prints(name: str, as_of: int, path: str, **other: Any) -> dict[tuple[str, str], str]:
        rows = [{"job_id": j, "has_record": False, "state": "waiting", **other} for j in ("a", "b")]
        places = [{"job_id": j, "structure": "wait", "decides_state": True, **other} for j in ("a", "b")]
        tables = {"jobs": rows_of("jobs", rows), "membership": rows_of("membership", places)}
        made = build(tmp_path / name, tables, [evidence(0, as_of_ms=as_of, path=path)])
        return {(f["check_id"], f["job_id"]): f["fingerprint"] for f in run_checks(made).findings.to_pylist()}

    first, later = prints("1", T, "a.rdb"), prints("2", T + DAY, "b.rdb")
    assert first == later and len(set(first.values())) == len(first) == 2
    # Staging and production in two databases of one server have the same queues and numbers.
    for elsewhere in ({"queue": "other"}, {"namespace": "other"}, {"db": 3}):
        assert not set(first.values()) & set(prints(str(elsewhere), T, "a.rdb", **elsewhere).values())


def test_fingerprints_of_real_findings_are_unique(case: Case) -> None:
    """Two findings that share one could hide each other."""
    prints = run_checks(case).findings.column("fingerprint").to_pylist()
    assert len(set(prints)) == len(prints)


@pytest.mark.parametrize(("until", "hidden"), [(None, True), (T + 1, True), (T, False), (T - DAY, False)])
def test_an_acceptance_ends_by_the_snapshot_s_time(case: Case, until: int | None, hidden: bool) -> None:
    """Not by the clock of whoever runs the check: the same case gives the same findings next year."""
    first = run_checks(case).findings.to_pylist()[0]
    run = run_checks(case, Policy(accepted={first["fingerprint"]: Accepted("r", until)}))
    assert (run.accepted, run.lapsed) == ((1, 0) if hidden else (0, 1))
    assert (first["fingerprint"] in run.findings.column("fingerprint").to_pylist()) is not hidden


def test_what_ends_hides_nothing_where_the_snapshot_s_time_is_unknown(tmp_path: Path) -> None:
    """Doubt shows the finding."""
    tables = {
        "jobs": rows_of("jobs", [{"job_id": "1", "has_record": False}]),
        "membership": rows_of("membership", [{"job_id": "1", "structure": "wait", "decides_state": True}]),
    }
    case = build(tmp_path / "case", tables, [evidence(0, as_of_ms=None)])
    (found,) = [f for f in run_checks(case).findings.to_pylist() if f["check_id"] == "MB001"]
    assert run_checks(case, Policy(accepted={found["fingerprint"]: Accepted("r", T * 2)})).accepted == 0
    assert run_checks(case, Policy(accepted={found["fingerprint"]: Accepted("r")})).accepted == 1


def test_what_got_worse_since_it_was_accepted_is_reported(case: Case, tmp_path: Path) -> None:
    """A baseline taken while a job was a little late must not hide that nobody moved it for good."""
    lenient = run_checks(case, Policy(severities={"LV004": "info"})).findings
    path = tmp_path / "known.json"
    path.write_text(make_baseline(lenient, "late, as always", None, {}), encoding="utf-8")
    assert told(case, with_baseline(Policy(severities={"LV004": "info"}), path)) == set()
    run = run_checks(case, with_baseline(Policy(), path))
    assert {(f["check_id"], f["severity"]) for f in run.findings.to_pylist()} == {("LV004", "error")}
    assert (run.accepted, run.lapsed) == (2, 2)
    path.write_text(make_baseline(run_checks(case).findings, "all", None, {}), encoding="utf-8")
    assert told(case, with_baseline(Policy(severities={"LV004": "warning"}), path)) == set()


def test_a_fingerprint_holds_no_example(tmp_path: Path) -> None:
    """Of keys that are told together one is named; tomorrow it may be another, and the finding is the same."""

    def print_of(name: str, keys: list[str], status: str = "ok") -> dict[str, str]:
        rows = [{"key": k, "type": "string", "role": "unplaced", "queue": "q"} for k in keys]
        info = evidence(0, checksum={"status": status})
        made = build(tmp_path / name, {"keys": rows_of("keys", rows)}, [info])
        return {f["check_id"]: f["fingerprint"] for f in run_checks(made).findings.to_pylist()}

    first, later = print_of("1", ["bull:q:b"]), print_of("2", ["bull:q:a", "bull:q:b"])
    assert first["EV003"] == later["EV003"]
    absent, wrong = print_of("3", [], "absent"), print_of("4", [], "mismatch")
    assert absent["EV001"] != wrong["EV001"]


def test_a_baseline_made_again_keeps_reasons_and_ends(case: Case) -> None:
    """Whoever wrote down why a finding is accepted writes it once."""
    findings = run_checks(case).findings
    first = findings.to_pylist()[0]["fingerprint"]
    old = {first: {"reason": "agreed with the shop", "expires": "2027-01-31"}}
    entries = {e["fingerprint"]: e for e in json.loads(make_baseline(findings, "new", "2028-01-01", old))["findings"]}
    assert (entries[first]["reason"], entries[first]["expires"]) == ("agreed with the shop", "2027-01-31")
    assert {(e["reason"], e["expires"]) for f, e in entries.items() if f != first} == {("new", "2028-01-01")}
    assert make_baseline(findings, "new", None, {}) == make_baseline(findings, "new", None, {})


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("no json", "the baseline is no JSON"),
        ("[]", "this is no jobsleuth-baseline/1"),
        ('{"format":"jobsleuth-baseline/1","findings":[{}]}', "finding 1 has no fingerprint"),
        (
            '{"format":"jobsleuth-baseline/1","findings":[{"fingerprint":"x","reson":"y"}]}',
            "finding 1: there is no key reson",
        ),
        (
            '{"format":"jobsleuth-baseline/1","findings":[{"fingerprint":"x","expires":"never"}]}',
            "finding x: expires: never is no date",
        ),
        (
            '{"format":"jobsleuth-baseline/1","findings":[{"fingerprint":"x","severity":"fatal"}]}',
            "finding 1: no severity is fatal",
        ),
    ],
)
def test_a_file_that_is_no_baseline(tmp_path: Path, text: str, what: str) -> None:
    """A wrong file must not pass for one that accepts nothing."""
    (tmp_path / "known.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        with_baseline(Policy(), tmp_path / "known.json")
    assert caught.value.message == what


def test_what_a_case_remembers_of_its_policy_is_plain_json() -> None:
    """The manifest says how a case was judged."""
    policy = Policy(
        {"least_jobs": 1}, frozenset({"MB002", "MB001"}), queues=(QueueRule("a*", off=frozenset({"LV001"})),)
    )
    assert json.loads(json.dumps(policy.recorded()))["off"] == ["MB001", "MB002"]


def test_a_check_is_found_by_id_and_name_and_a_slip_is_answered_with_the_nearest() -> None:
    """In any case of letters; what there is not, with what was meant."""
    for label in ("MB001", "mb001", "member-without-record", "Member-Without-Record"):
        assert find_check(label).id == "MB001"
    for slip, near in (("MB0001", "MB001"), ("member-without-recrod", "member-without-record")):
        with pytest.raises(CheckError) as told:
            find_check(slip)
        assert told.value.hint is not None and told.value.hint.startswith(f"did you mean {near}? ")
    with pytest.raises(CheckError) as told:
        find_check("???")
    assert told.value.hint is not None and told.value.hint.startswith("jobsleuth explain lists them all")


def test_every_kind_of_unknown_field_has_a_fingerprint_of_its_own(tmp_path: Path) -> None:
    """Two producers of a queue that write different unknown fields: to accept one does not hide the other."""
    jobs = [{"job_id": n, "has_record": True, "unknown_fields": [field]} for n, field in (("1", "16"), ("2", "99"))]
    case = build(tmp_path / "case", {"jobs": rows_of("jobs", jobs, "asynq")}, [evidence(0)])
    found = run_checks(case, checks=[find_check("CN002")]).findings.to_pylist()
    assert len({f["fingerprint"] for f in found}) == 2
