"""The four signals against numbers counted by hand from the rows."""

from __future__ import annotations

import re
import statistics
from pathlib import Path
from typing import Any

import pytest

from jobsleuth.case import TABLES, VIEWS, WAITING, Case
from tests.reports.conftest import NOW, build, job, rows

DURATIONS = [5, 7, 11, 13, 17, 19, 23, 29, 31, 1000]


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Two names in `emails`, one in `reports`; ten finished jobs of known length, three waiting ones of known age."""
    finished = [
        job(
            "emails",
            f"done-{n}",
            state="completed" if n < 8 else "failed",
            name="send",
            started_at=NOW - 10_000,
            finished_at=NOW - 10_000 + took,
        )
        for n, took in enumerate(DURATIONS)
    ]
    return build(
        tmp_path_factory.mktemp("signals") / "case",
        {
            "jobs": rows(
                "jobs",
                *finished,
                job("emails", "b", state="waiting", name="send", created_at=NOW - 5000),
                job("emails", "a", state="prioritized", name="send", created_at=NOW - 5000),
                job("emails", "c", state="pending", name="digest", created_at=NOW - 9000, pending_since=NOW - 2000),
                job("emails", "d", state="delayed", name="digest", attempts=2),
                job("reports", "e", state="waiting", name=None),
            )
        },
    )


def rows_of(case: Case, view: str, queue: str) -> dict[Any, dict[str, Any]]:
    found = case.query(f"from {view} where queue = '{queue}'").to_pylist()
    return {(row["scope"], row["name"]): row for row in found}


def test_depth(case: Case) -> None:
    """Counted by hand, of the queue and of each name."""
    found = rows_of(case, "signal_depth", "emails")
    assert {k: (v["jobs"], v["waiting"], v["delayed"], v["failed"], v["done"]) for k, v in found.items()} == {
        ("queue", None): (14, 3, 1, 2, 8),
        ("name", "send"): (12, 2, 0, 2, 8),
        ("name", "digest"): (2, 1, 1, 0, 0),
    }


def test_oldest_waiting(case: Case) -> None:
    """Asynq's pending time goes before the creation time; of two equally old jobs the first id; no time, no age."""
    found = rows_of(case, "signal_oldest_waiting", "emails")
    assert {k: (v["waiting"], v["age_ms"], v["job_id"]) for k, v in found.items()} == {
        ("queue", None): (3, 5000, "a"),
        ("name", "send"): (2, 5000, "a"),
        ("name", "digest"): (1, 2000, "c"),
    }
    assert [(v["age_ms"], v["job_id"]) for v in rows_of(case, "signal_oldest_waiting", "reports").values()] == [
        (None, None)
    ] * 2


def test_failure_rate(case: Case) -> None:
    """Two of ten finished jobs failed; a delayed job with attempts is failing and changes no rate."""
    found = rows_of(case, "signal_failure_rate", "emails")
    assert {k: (v["completed"], v["failed"], v["failing"], v["failure_rate"]) for k, v in found.items()} == {
        ("queue", None): (8, 2, 1, 0.2),
        ("name", "send"): (8, 2, 0, 0.2),
        ("name", "digest"): (0, 0, 1, None),
    }
    assert rows_of(case, "signal_failure_rate", "reports") == {}


def test_durations(case: Case) -> None:
    """Percentiles are durations that were really seen, as Python's own inclusive nearest rank gives them."""
    found = rows_of(case, "signal_duration", "emails")[("name", "send")]
    ordered = sorted(DURATIONS)
    assert found["p50_ms"] == statistics.median_low(ordered)
    assert (found["jobs"], found["p95_ms"], found["p99_ms"], found["max_ms"]) == (10, 1000, 1000, 1000)


def test_the_view_with_the_queues_own_number_agrees(case: Case) -> None:
    """A queue's row counts what its names' rows count together."""
    depth = case.query("from signal_depth").to_pylist()
    for queue in ("emails", "reports"):
        whole = next(r for r in depth if r["queue"] == queue and r["scope"] == "queue")
        assert whole["jobs"] == sum(r["jobs"] for r in depth if r["queue"] == queue and r["scope"] == "name")


def test_every_example_of_the_pages_runs(case: Case) -> None:
    """The question on each view's page is a query that works, and the page's columns are the view's."""
    for view in VIEWS:
        case.query(view.question)
        names = [r["column_name"] for r in case.query(f"describe {view.name}").to_pylist()]
        assert names[7:] == [name for name, _ in view.columns]


def test_waiting_states_are_states_that_jobs_have(case: Case) -> None:
    """No state is counted twice, and the documented states of both libraries are all in some column."""
    doc = next(c.doc for t in TABLES if t.name == "jobs" for c in t.columns if c.name == "state")
    assert doc
    from jobsleuth.case import DEPTH

    states = [state for _, several in DEPTH for state in several]
    assert len(states) == len(set(states))
    assert set(WAITING) <= set(states)
    contract = (
        "completed failed delayed prioritized active waiting waiting-children unknown pending scheduled retry archived"
    )
    assert set(re.findall(r"[\w-]+", contract)) <= set(states)


def test_a_case_without_a_column_still_opens(tmp_path: Path) -> None:
    """A case whose jobs lack a column that a signal reads has its tables all the same."""
    import pyarrow.parquet as pq

    built = build(tmp_path / "case", {"jobs": rows("jobs", job("q", "1"))})
    file = next((built.path / "jobs").glob("*.parquet"))
    pq.write_table(pq.read_table(file).drop_columns(["started_at"]), file)
    assert built.query("select count(*) as n from jobs").to_pylist() == [{"n": 1}]
    assert built.query("select count(*) as n from signal_depth where scope = 'queue'").to_pylist() == [{"n": 1}]
