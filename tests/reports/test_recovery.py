"""The recovery list: which jobs, why, whether they may have run, and exactly what they were given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobsleuth.case import Case
from jobsleuth.reports import COLUMNS, recovery
from tests.reports.conftest import NOW, build, finding, job, queue, rows


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """One job of each kind, and one of each that must not be listed."""
    told = {"retry": "unsafe", "retry_why": "it was started"}
    safe = {"retry": "safe", "retry_why": "it never started"}
    return build(
        tmp_path_factory.mktemp("recovery") / "case",
        {
            "queues": rows("queues", queue("q", {})),
            "jobs": rows(
                "jobs",
                job("q", "limbo", state="unknown", payload=b'{"n":1}', payload_bytes=7,
                    rest=[("opts", b'{"attempts":3}')]),
                job("q", "ghost", state="waiting", has_record=False, name=None),
                job("q", "ghost-done", state="completed", has_record=False),
                job("q", "held", payload=b"\xff\x00", payload_bytes=2, rest=[("opts", b"{broken")]),
                job("q", "fine"),
                job("q", "odd-record"),
                job("q", "failed", state="failed", payload=b'{"n', payload_bytes=7, error="no route", attempts=3),
                job("q", "archived", dialect="asynq", state="archived", payload=b"p", payload_bytes=1, max_attempts=25,
                    timeout_s=30, deduplication_id="asynq:{q}:unique:x", deadline=NOW),
                job("q", "done", state="completed"),
            ),
            "findings": rows(
                "findings",
                finding("MB001", "q", "limbo", **safe),
                finding("MB001", "q", "held", **told),
                finding("ST001", "q", "held", **safe),
                finding("CN001", "q", "odd-record", **safe),
                finding("MB001", "q", "done"),
            ),
        },
    )  # fmt: skip


def test_lost_jobs(case: Case) -> None:
    """A record in no structure, with all it needs; an id whose record is gone, with nothing; not what was completed."""
    limbo, ghost = sorted(recovery(case, ["lost"]), key=lambda e: e["job_id"], reverse=True)
    assert tuple(limbo) == COLUMNS
    assert (limbo["job_id"], limbo["data"], limbo["data_complete"]) == ("limbo", '{"n":1}', True)
    assert limbo["options"] == {"attempts": 3}
    assert (limbo["may_have_run"], limbo["may_have_run_why"]) == ("no", "it never started")
    assert (ghost["job_id"], ghost["data"], ghost["data_complete"]) == ("ghost", None, False)
    assert ghost["may_have_run"] == "unknown"
    assert "record is gone" in ghost["why"]


def test_stuck_jobs(case: Case) -> None:
    """Only unfinished jobs that a finding about their place or holder names; of several verdicts the most careful."""
    (held,) = recovery(case, ["stuck"])
    assert held["job_id"] == "held"
    assert held["why"].startswith("MB001: ")
    assert "; ST001: " in held["why"]
    assert (held["may_have_run"], held["may_have_run_why"]) == ("yes", "it was started")
    assert held["data"] == {"b64": "/wA="}
    assert held["options"] == "{broken"


def test_failed_jobs(case: Case) -> None:
    """With the error as reason; a payload that was cut when the case was made is said to be incomplete."""
    found = {entry["job_id"]: entry for entry in recovery(case, ["failed"])}
    assert set(found) == {"failed", "archived"}
    assert found["failed"]["why"] == "it failed for good: no route"
    assert (found["failed"]["data"], found["failed"]["data_complete"]) == ('{"n', False)
    assert found["failed"]["may_have_run"] == "yes"
    assert found["archived"]["options"] == {
        "max_retry": 25,
        "timeout_s": 30,
        "deadline": "2026-03-02T02:14:07.000Z",
        "unique_key": "asynq:{q}:unique:x",
    }
    # Archived by hand before it ever ran, perhaps: nothing says that it was started.
    assert found["archived"]["may_have_run"] == "unknown"


def test_kinds_come_in_the_order_asked_for(case: Case) -> None:
    """One list of all three; another queue has none."""
    kinds = [entry["listed_as"] for entry in recovery(case, ["failed", "lost", "stuck"])]
    assert kinds == ["failed"] * 2 + ["lost"] * 2 + ["stuck"]
    assert list(recovery(case, ["lost", "stuck", "failed"], queue="other")) == []


@pytest.mark.parametrize(
    ("opts", "given"),
    [
        (b'{"delay":1e999,"priority":1.5}', {"delay": "1e999", "priority": 1.5}),
        (b'{"delay":NaN}', '{"delay":NaN}'),
        (b"[-Infinity]", "[-Infinity]"),
    ],
)
def test_options_are_json_that_any_program_reads(tmp_path: Path, opts: bytes, given: Any) -> None:
    """What JSON has no number for is kept as text: the list must not fail in the engineer's own parser."""
    jobs = rows("jobs", job("q", "1", state="unknown", rest=[("opts", opts)]))
    (entry,) = recovery(build(tmp_path / "case", {"queues": rows("queues", queue("q", {})), "jobs": jobs}), ["lost"])
    assert entry["options"] == given
    json.dumps(entry, allow_nan=False)
