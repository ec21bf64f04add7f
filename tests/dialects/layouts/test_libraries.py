"""The ready-made descriptions, on dumps of the real libraries: what those say themselves, and what the server holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import jobsleuth
from jobsleuth.dialects.layouts.file import load_layouts
from jobsleuth.pipeline.described import explain_layouts
from jobsleuth.sources import ReadOptions

ROOT = Path(__file__).parents[3]
FIXTURES = {path.name.rpartition("-")[0]: path for path in sorted((ROOT / "fixtures/layouts").iterdir())}
DESCRIPTIONS = {path.stem: path for path in sorted((ROOT / "docs/layouts").glob("*.toml"))}


def told(library: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the library answered, and key → value as the server has it."""
    both = json.loads((FIXTURES[library] / "expect/server.json").read_text(encoding="utf-8"))
    return both["library"], {key: value for key, (_, value) in both["server"].items()}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, jobsleuth.Case]:
    folder = tmp_path_factory.mktemp("cases")
    return {
        library: jobsleuth.analyze(
            path / "evidence.rdb",
            folder / library,
            jobsleuth.AnalyzeOptions(described=load_layouts(DESCRIPTIONS[library])),
        )
        for library, path in FIXTURES.items()
    }


def jobs(case: jobsleuth.Case) -> dict[str, dict[str, Any]]:
    rows = case.query(
        "select job_id, queue, state, has_record, name, payload, attempts, error, worker_name, key,"
        " epoch_us(created_at) // 1000 as created, epoch_us(scheduled_at) // 1000 as due,"
        " epoch_us(started_at) // 1000 as started, epoch_us(finished_at) // 1000 as finished from jobs"
    ).to_pylist()
    return {row["job_id"]: row for row in rows}


def by_state(case: jobsleuth.Case) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for job_id, row in jobs(case).items():
        found.setdefault(row["state"], set()).add(job_id)
    return found


def test_each_has_its_dump() -> None:
    """No description without a dump, and no dump without a description."""
    assert FIXTURES.keys() == DESCRIPTIONS.keys()


@pytest.mark.parametrize("library", sorted(FIXTURES))
def test_nothing_is_wrong_with_queues_in_order(library: str, cases: dict[str, jobsleuth.Case]) -> None:
    """A worker that was killed a moment ago is all there is: no error, no id without a record and no record without an
    id, no field that is not there, and no doubt which pattern a key is of."""
    found = cases[library].query("select check_id, message from findings").to_pylist()
    assert found == []
    test = explain_layouts(FIXTURES[library] / "evidence.rdb", load_layouts(DESCRIPTIONS[library]), ReadOptions())
    assert (test.ambiguous, test.foreign) == ((), ())
    assert not any(fact.unread or fact.without_record or fact.states.get("unknown") for fact in test.layouts)


def test_bee_queue(cases: dict[str, jobsleuth.Case]) -> None:
    """States as Queue.getJobs tells them, counts as checkHealth does; fields as the hash `jobs` has them."""
    library, server = told("bee-queue")
    assert by_state(cases["bee-queue"]) == {
        "waiting": set(library["waiting"]),
        "active": set(library["active"]),
        "completed": set(library["succeeded"]),
        "failed": set(library["failed"]),
        "delayed": set(library["delayed"]),
    }
    assert sum(map(len, by_state(cases["bee-queue"]).values())) == library["health"]["newestJob"]
    due = dict(server["bq:mails:delayed"])
    for job_id, row in jobs(cases["bee-queue"]).items():
        stored = json.loads(server["bq:mails:jobs"][job_id])
        assert json.loads(row["payload"]) == stored["data"]
        assert (row["key"], row["created"]) == ("bq:mails:jobs", stored["options"]["timestamp"])
        assert row["error"] == (stored["options"]["stacktraces"] or [None])[0]
        assert row["due"] == (int(due[job_id]) if job_id in due else None)


def test_rq(cases: dict[str, jobsleuth.Case]) -> None:
    """States as the registries of RQ tell them; ids of `wip`, which holds job:execution, are those of jobs."""
    library, server = told("rq")
    found = by_state(cases["rq"])
    for registry, state in (("deferred", "waiting"), ("canceled", "completed")):
        assert len(library[registry]) == 1
        found[state] -= set(library[registry])
        library[state] = [job for job in library[state] if job not in library[registry]]
        held = cases["rq"].query("select job_id from membership where ends_with(key, ?)", [f":{registry}:mails"])
        assert held.column("job_id").to_pylist() == library[registry]
    assert found == {state: set(library[state]) for state in found}
    (execution,) = (member for member, _ in server["rq:wip:mails"])
    assert library["processing"] == [execution.split(":")[0]] and execution not in library["processing"]
    members = cases["rq"].query("select job_id from membership where structure = 'processing'").to_pylist()
    assert [row["job_id"] for row in members] == library["processing"]
    assert (
        jobs(cases["rq"])[library["processing"][0]]["worker_name"]
        == server[f"rq:job:{library['processing'][0]}"]["worker_name"]
    )


def test_huey(cases: dict[str, jobsleuth.Case]) -> None:
    """As many tasks wait, and as many are due later, as huey tells; the pickle of each holds one of the ids."""
    library, server = told("huey")
    found: dict[str, list[str]] = {"waiting": [], "delayed": [], "urgent": []}
    every = [task for ids in library.values() for task in ids]
    for row in jobs(cases["huey"]).values():
        found["urgent" if row["queue"] == "urgent" else row["state"]] += [
            task for task in every if task.encode() in row["payload"]
        ]
    assert {state: sorted(ids) for state, ids in found.items()} == {s: sorted(ids) for s, ids in library.items()}
    due = sorted(int(score * 1000) for _, score in server["huey.schedule.mails"])
    assert sorted(row["due"] for row in jobs(cases["huey"]).values() if row["due"]) == due


def test_dramatiq(cases: dict[str, jobsleuth.Case]) -> None:
    """Ids by list, set and zset of the server, each with the message of its hash; delayed and dead ones are of the same
    queue; the worker is the one in the name of the set."""
    _, server = told("dramatiq")
    (acks,) = (key for key in server if "__acks__" in key and not key.endswith(".DQ"))
    (later,) = (key for key in server if "__acks__" in key and key.endswith(".DQ"))
    dead = dict(server["dramatiq:mails.XQ"])
    assert by_state(cases["dramatiq"]) == {
        "waiting": set(server["dramatiq:mails"]),
        "processing": set(server[acks]),
        "delayed": set(server[later]),
        "failed": set(dead),
    }
    for job_id, row in jobs(cases["dramatiq"]).items():
        message = json.loads(server[row["key"]][job_id])
        assert json.loads(row["payload"]) == message
        assert (row["queue"], row["name"], row["created"]) == ("mails", "mail", message["message_timestamp"])
        assert (row["attempts"], row["due"]) == (message["options"].get("retries"), message["options"].get("eta"))
        assert row["finished"] == (int(dead[job_id]) if job_id in dead else None)
        worker = acks if row["state"] == "processing" else later if row["state"] == "delayed" else None
        assert row["worker_name"] == (worker.split(".")[1] if worker else None)
    assert [row["attempts"] for row in jobs(cases["dramatiq"]).values() if row["state"] == "failed"] == [1]


def test_celery(cases: dict[str, jobsleuth.Case]) -> None:
    """Messages of both lists wait under the ids of their tasks, with a list for a priority; what is in `unacked` is
    under its delivery tag, since the score of `unacked_index`."""
    _, server = told("celery")
    waiting = [json.loads(item) for key in ("celery", "celery\x06\x163") for item in server[key]]
    taken = {tag: json.loads(value) for tag, value in server["unacked"].items()}
    assert by_state(cases["celery"]) == {
        "waiting": {message["headers"]["id"] for message in waiting},
        "processing": set(taken),
    }
    since = dict(server["unacked_index"])
    for job_id, row in jobs(cases["celery"]).items():
        if job_id in taken:
            message, _, _ = taken[job_id]
            assert (row["name"], row["started"]) == (message["headers"]["task"], int(since[job_id] * 1000))
            assert json.loads(row["payload"]) == taken[job_id]
        else:
            assert (row["name"], row["attempts"]) == ("mail.send", 0)


def test_what_a_crash_leaves_is_told(tmp_path: Path) -> None:
    """Two hours later nobody has put back what is in `unacked`: PL001 names both messages, since the scores of
    `unacked_index` say since when they lie there."""
    _, server = told("celery")
    taken = max(score for _, score in server["unacked_index"])
    options = jobsleuth.AnalyzeOptions(
        described=load_layouts(DESCRIPTIONS["celery"]), as_of_ms=int((taken + 7200) * 1000)
    )
    case = jobsleuth.analyze(FIXTURES["celery"] / "evidence.rdb", tmp_path / "c", options)
    found = case.query("select check_id, severity, job_id from findings order by job_id").to_pylist()
    expected = [("PL001", "error", tag) for tag in sorted(server["unacked"])]
    assert [(row["check_id"], row["severity"], row["job_id"]) for row in found if row["job_id"]] == expected
