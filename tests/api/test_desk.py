"""The Python API on real dumps: what is read, what one job is, and own checks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import jobsleuth
from jobsleuth.case import TABLES

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures"
STATES = FIXTURES / "bullmq" / "v5-every-state"
OWN = '''from jobsleuth import Check


class Unattended(Check):
    """A job was started more than once."""

    id = "XX001"
    sql = "select * from jobs where attempts > $least"
    message = "Job {job_id} of queue {queue} was tried {attempts} times"
    parameters = {"least": 1}
'''


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> jobsleuth.Case:
    return jobsleuth.analyze(STATES / "evidence.rdb", tmp_path_factory.mktemp("desk") / "case")


def test_importing_is_cheap() -> None:
    """`import jobsleuth` alone loads none of the libraries that take long."""
    program = "import sys, jobsleuth; print([m for m in ('duckdb', 'pandas', 'pyarrow', 'polars') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there_and_documented() -> None:
    """What `__all__` promises can be had, and says what it is."""
    for name in jobsleuth.__all__:
        assert getattr(jobsleuth, name).__doc__ or name == "__version__"


def test_an_id_may_be_a_number(case: jobsleuth.Case) -> None:
    """BullMQ's own ids are numbers to their users; what is no id at all is refused in one line."""
    first = next(i for i in case.jobs.job_id if i.isdigit())
    queue = case.jobs[case.jobs.job_id == first].queue.iloc[0]
    assert case.job(int(first), queue).id == first
    for odd in (None, b"1", 1.0):
        with pytest.raises(jobsleuth.JobsleuthError, match="a job's id is a string"):
            case.job(odd)  # type: ignore[arg-type]


def test_states_are_what_the_library_answered(case: jobsleuth.Case) -> None:
    """`case.job(id).state` is BullMQ's own getState of the very same job; the record has what the library stored."""
    library = json.loads((STATES / "expect" / "library.json").read_text())
    compared = 0
    for queue in library["queues"].values():
        for job_id, told in queue["jobs"].items():
            if told.get("state") is not None and compared < 12:
                job = case.job(job_id, queue["queue"])
                assert (job.id, job.queue, job.state) == (job_id, queue["queue"], told["state"])
                assert job.record["state"] == told["state"]
                compared += 1
    assert compared == 12


def test_a_job_is_its_story_and_its_rows(tmp_path: Path) -> None:
    """Printed it is what `jobsleuth job` prints; moments are Timestamps; payload and places are those of the tables."""
    made = jobsleuth.analyze(FIXTURES / "bullmq" / "v5-crash-locks-expired" / "evidence.rdb", tmp_path / "case")
    job = made.job("held-1", "press")
    words = [sys.executable, "-m", "jobsleuth", "job", "case", "held-1", "--queue", "press"]
    shown = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert shown.split() == str(job).split()  # the lines are broken where the terminal ends
    assert job.story.split() == str(job).split()[6 : 6 + len(job.story.split())]
    assert (job.payload, repr(job)) == (b'{"n":1}', "Job('held-1', queue='bull/press', state='active')")
    (row,) = made.sql("select started_at, payload from jobs where job_id = 'held-1' and queue = 'press'").to_dict(
        "records"
    )
    assert job.record["started_at"] == row["started_at"]
    assert isinstance(job.record["created_at"], pd.Timestamp)
    assert job.places["structure"].tolist() == ["active"]
    assert (job.holders["kind"].tolist(), job.holders["worker_id"].tolist()) == (["worker"], ["press-worker"])
    assert job.parents.empty and job.children.empty
    assert job.logs == ["begun"]
    assert job.events["event"].tolist()[0] == "added"
    assert job.findings["check_id"].tolist() == ["LV002"]


def test_frames_of_a_job_have_their_types_and_their_columns(tmp_path: Path) -> None:
    """Full or empty, each frame has Arrow-backed columns of the very types that the tables of the case have."""
    dumps = [FIXTURES / "bullmq" / name / "evidence.rdb" for name in ("v5-crash-locks-expired", "v5-every-state")]
    made = jobsleuth.analyze(dumps, tmp_path / "case")
    kin = made.sql(
        "select any_value(target_id) as id, any_value(target_queue) as q from relations where kind = 'parent'"
    )
    jobs = [made.job("held-1", "press"), made.job(kin.id[0], kin.q[0])]
    frames = [
        {"membership": j.places, "workers": j.holders, "events": j.events, "findings": j.findings, "relations": one}
        for j in jobs
        for one in (j.parents, j.children)
    ]
    kept: dict[str, set[tuple[str, ...]]] = {}
    filled, empty = set(), set()
    for frame in frames:
        for table, rows in frame.items():
            types = {**made.pandas("jobs").dtypes, **made.pandas(table).dtypes}
            kept.setdefault(table, set()).add(tuple(rows.columns))
            (empty if rows.empty else filled).add(table)
            for name, kind in rows.dtypes.items():
                assert isinstance(kind, pd.ArrowDtype)
                assert kind == types.get(name, pd.ArrowDtype(pa.int64())), (table, name)
    assert {table: len(columns) for table, columns in kept.items()} == dict.fromkeys(kept, 1)
    assert filled == set(kept) and {"relations", "findings"} <= empty
    assert jobs[0].events["at"].is_monotonic_increasing
    assert jobs[1].children.job_id.str.len().min() > 0


def test_a_job_that_is_not_there_or_not_the_only_one(tmp_path: Path) -> None:
    """Both are errors that name the way out; queue, namespace and evidence choose."""
    dumps = [FIXTURES / "bullmq" / f"v{n}-crash-locks-expired" / "evidence.rdb" for n in (5, 6)]
    both = jobsleuth.analyze(dumps, tmp_path / "case")
    with pytest.raises(jobsleuth.JobsleuthError, match="no job nobody"):
        both.job("nobody")
    with pytest.raises(jobsleuth.JobsleuthError, match=r"there are \d+ jobs held-1: bull/") as failed:
        both.job("held-1")
    assert "queue" in (failed.value.hint or "")
    with pytest.raises(jobsleuth.JobsleuthError, match="there are 2 jobs"):
        both.job("held-1", "press")
    assert both.job("held-1", "bull/press", evidence=1).record["evidence"] == 1
    assert both.job("held-1", "press", "bull", evidence=0, db=0).record["evidence"] == 0


def test_every_table_is_an_attribute(case: jobsleuth.Case) -> None:
    """`case.jobs` and its like: one for each table, with its small columns."""
    for table in TABLES:
        assert list(getattr(case, table.name).columns) == table.small_columns


def test_the_limit_is_set_for_python_users(case: jobsleuth.Case) -> None:
    """Whatever `analyze` and `open_case` return refuses to fill the memory; the limit is theirs to change."""
    opened = jobsleuth.open_case(case.path)
    assert case.most_bytes == opened.most_bytes == 1 << 30
    assert isinstance(opened, jobsleuth.Case)
    opened.most_bytes = 1000
    with pytest.raises(jobsleuth.JobsleuthError, match="limit"):
        _ = opened.jobs


def test_own_checks_from_python(case: jobsleuth.Case, tmp_path: Path) -> None:
    """Ten lines of a file judge a case: the findings are those of its SQL, and the table of checks has its texts."""
    file = tmp_path / "my_checks.py"
    file.write_text(OWN)
    assert len([line for line in OWN.splitlines() if line.strip()]) <= 10
    run = jobsleuth.check(case, checks=file)
    found = [row for row in run.findings.to_pylist() if row["check_id"] == "XX001"]
    wanted = case.sql("select queue, job_id, attempts from jobs where attempts > 1").to_dict("records")
    assert wanted
    assert {(r["queue"], r["job_id"]) for r in found} == {(r["queue"], r["job_id"]) for r in wanted}
    assert {r["severity"] for r in found} == {"warning"}
    assert found[0]["message"].startswith("Job ")
    assert found[0]["help_url"] is None
    (told,) = (row for row in run.checks.to_pylist() if row["check_id"] == "XX001")
    assert (told["name"], told["title"], told["status"]) == ("unattended", "A job was started more than once", "ran")
    assert dict(told["texts"]) == {"What it finds": "A job was started more than once."}


def test_own_checks_are_part_of_a_case_made_with_them(tmp_path: Path) -> None:
    """`analyze(…, checks=…)` writes their findings; the manifest says which ran, by the hash of their query."""
    file = tmp_path / "my_checks.py"
    file.write_text(OWN.replace("$least", "$least - 5"))
    made = jobsleuth.analyze(STATES / "evidence.rdb", tmp_path / "case", checks=[file])
    assert (made.findings["check_id"] == "XX001").any()
    assert list(made.manifest.options["own_checks"]) == ["XX001"]
    assert not list(tmp_path.glob("__pycache__"))
