"""Names that read the same as text and are not the same: a text with a backslash, and the byte that is written so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobsleuth.case import Case, Redactor, open_case
from jobsleuth.pipeline import AnalyzeOptions, analyze
from jobsleuth.reports import document, find_jobs, picture, picture_lines, recovery, story
from jobsleuth.reports.html.suspects import suspects

TEXT, BYTE = b"\\xff", b"\xff"
"""Four characters, and one byte that no UTF-8 has: both are shown as the four characters."""


@pytest.fixture
def case(rdb: Any, tmp_path: Path) -> Case:
    """Jobs and queues of both names: where the text is done, the byte waits."""
    rdb.db(0)
    rdb.queue(b"bull:ids")
    rdb.job(b"bull:ids:" + TEXT, name=b"text", finishedOn=b"1699999999000", returnvalue=b"1")
    rdb.job(b"bull:ids:" + BYTE, name=b"byte")
    rdb.put(b"bull:ids:completed", {TEXT: 1699999999000.0})
    rdb.put(b"bull:ids:wait", [b"\xfe", BYTE])
    rdb.put(b"bull:ids:" + TEXT + b":logs", [b"of the text"])
    rdb.put(b"bull:ids:" + BYTE + b":logs", [b"of the byte"])
    for name, structure in ((TEXT, b"failed"), (BYTE, b"wait")):
        rdb.queue(b"bull:" + name)
        rdb.job(b"bull:" + name + b":1")
        rdb.put(b"bull:" + name + b":" + structure, {b"1": 1699999999000.0} if structure == b"failed" else [b"1"])
    rdb.read()
    return analyze([rdb.path], tmp_path / "case", AnalyzeOptions())


def test_two_ids_that_read_the_same_are_two_jobs(case: Case) -> None:
    """Each has its own state, name, place and log; the story says that another reads the same."""
    found = find_jobs(case, TEXT.decode(), "ids")
    assert [(ref.job_id, ref.job_id_bytes) for ref in found] == [(TEXT.decode(), BYTE), (TEXT.decode(), None)]
    byte, text = (picture(case, ref) for ref in found)
    assert [(p.job["name"], p.job["state"]) for p in (byte, text)] == [("byte", "waiting"), ("text", "completed")]
    assert [[(row["structure"], row["turn"]) for row in p.places] for p in (byte, text)] == [
        [("wait", 1)],
        [("completed", 1)],
    ]
    assert [[row["line"] for row in p.logs] for p in (byte, text)] == [["of the byte"], ["of the text"]]
    assert all("1 other job of its queue reads the same as text" in story(p) for p in (byte, text))
    first = ["".join(span for span, _ in next(iter(picture_lines(p)))) for p in (byte, text)]
    assert first == ["\\xff (bytes ff) in bull/ids (db 0): waiting", "\\xff in bull/ids (db 0): completed"]


def test_only_such_ids_cost_something(case: Case, tmp_path: Path) -> None:
    """A case whose ids are all text is judged without a detour; of a redacted case the bytes are gone."""
    assert case.has_odd_ids
    assert not open_case(case.path, redact=Redactor(b"0123456789abcdef")).has_odd_ids
    plain = Path(__file__).parents[3] / "fixtures" / "bullmq" / "v5-every-state" / "evidence.rdb"
    assert not analyze([plain], tmp_path / "plain", AnalyzeOptions()).has_odd_ids


def test_keys_that_read_the_same_have_their_own_bytes(case: Case) -> None:
    """Of two records and two structures with one text each only that of the byte has bytes."""
    for table, text in (("jobs", "bull:ids:\\xff"), ("membership", "bull:\\xff:wait"), ("jobs", "bull:\\xff:1")):
        rows = case.query(
            f"select distinct key_bytes from {table} where key = $k order by all", {"k": text}
        ).to_pylist()
        byte = text.encode().replace(TEXT, BYTE)
        assert [r["key_bytes"] for r in rows] == ([byte] if table == "membership" else [byte, None])


def test_locks_events_kin_and_schedules_go_to_the_right_one_of_two(rdb: Any, tmp_path: Path) -> None:
    """Only the byte is locked, told of, a child, owner of an id and kept waiting for: nothing of it is the text's."""
    rdb.db(0)
    for base in (b"bull:ids", b"bull:kin"):
        rdb.queue(base)
    for name in (TEXT, BYTE):
        rdb.job(b"bull:ids:" + name, processedOn=b"1699999995000", parentKey=b"bull:kin:" + name)
        rdb.job(b"bull:kin:" + name)
    rdb.put(b"bull:ids:active", [TEXT, BYTE])
    rdb.put(b"bull:kin:waiting-children", {TEXT: 1.0})
    rdb.put(b"bull:kin:completed", {BYTE: 1699999999000.0})
    rdb.put(b"bull:ids:" + BYTE + b":lock", b"token", expire_at=rdb.now_ms + 20_000)
    rdb.put(b"bull:kin:" + TEXT + b":dependencies", {b"bull:ids:" + BYTE})
    rdb.put(b"bull:ids:de:once", BYTE)
    rdb.read()
    case = analyze([rdb.path], tmp_path / "case", AnalyzeOptions())
    byte, text = (picture(case, ref) for ref in find_jobs(case, TEXT.decode(), "ids"))
    assert (byte.ref.job_id_bytes, text.ref.job_id_bytes) == (BYTE, None)
    assert [[row["worker_id"] for row in p.holders] for p in (byte, text)] == [["token"], []]
    assert [[row["kind"] for row in p.links] for p in (byte, text)] == [["deduplication"], []]
    # `dependencies` of the text holds the byte; its own `parentKey` names the byte among the parents.
    assert [sorted((row["via"], row["state"]) for row in p.parents) for p in (byte, text)] == [
        [("dependencies", "waiting-children"), ("parentKey", "completed")],
        [("parentKey", "waiting-children")],
    ]
    assert [p.job["parent_id_bytes"] for p in (byte, text)] == [BYTE, None]
    parents = {ref.job_id_bytes: picture(case, ref).children for ref in find_jobs(case, TEXT.decode(), "kin")}
    assert {exact: sorted(row["via"] for row in rows) for exact, rows in parents.items()} == {
        None: ["dependencies", "parentKey"],
        BYTE: ["parentKey"],
    }


@pytest.mark.parametrize("locked", [TEXT, BYTE])
def test_findings_are_about_one_of_two(rdb: Any, tmp_path: Path, locked: bytes) -> None:
    """Both are active and one is locked: the other has no lock, whatever reads the same; the finding has its bytes, and
    its sentences the id as it is shown. So with ids that hold the very characters that tell ids apart in SQL."""
    free = BYTE if locked == TEXT else TEXT
    other = "\U001000ff\U00100100".encode()
    rdb.db(0)
    rdb.queue(b"bull:ids")
    for name in (TEXT, BYTE, other):
        rdb.job(b"bull:ids:" + name, processedOn=b"1699999995000")
    rdb.put(b"bull:ids:active", [TEXT, BYTE, other])
    rdb.put(b"bull:ids:" + locked + b":lock", b"token", expire_at=rdb.now_ms + 20_000)
    rdb.read()
    case = analyze([rdb.path], tmp_path / "case", AnalyzeOptions())
    found = case.query("select job_id, job_id_bytes, message from findings where check_id = 'LV002'").to_pylist()
    assert sorted((row["job_id"], row["job_id_bytes"]) for row in found) == [
        (TEXT.decode(), BYTE if free == BYTE else None),
        (other.decode(), None),
    ]
    by_id = {row["job_id"]: row for row in found}
    assert by_id[TEXT.decode()]["message"].startswith("Job \\xff of queue ids is active without a lock")
    assert by_id[other.decode()]["message"].startswith("Job \\U001000ff\\U00100100 of queue ids")
    told = {ref.job_id_bytes: picture(case, ref).findings for ref in find_jobs(case, TEXT.decode(), "ids")}
    assert {exact: [row["check_id"] for row in rows] for exact, rows in told.items()} == {
        (BYTE if free == BYTE else None): ["LV002"],
        (None if free == BYTE else BYTE): [],
    }
    shown = suspects(case, document(case), None)
    assert sorted((ref.job_id, ref.job_id_bytes) for ref in shown.refs) == sorted(
        (row["job_id"], row["job_id_bytes"]) for row in found
    )
    stuck = [entry["job_id"] for entry in recovery(case, ["stuck"])]
    assert sorted(stuck) == [TEXT.decode(), other.decode()]


def test_details_of_findings_show_ids_as_they_are_shown(rdb: Any, tmp_path: Path) -> None:
    """A parent that waits for a child that is not there: the child's id stands in the details, as JSON."""
    rdb.db(0)
    rdb.queue(b"bull:ids")
    rdb.job(b"bull:ids:" + BYTE)
    rdb.put(b"bull:ids:waiting-children", {BYTE: 1.0})
    rdb.put(b"bull:ids:" + BYTE + b":dependencies", {b"bull:ids:gone" + BYTE})
    rdb.read()
    case = analyze([rdb.path], tmp_path / "case", AnalyzeOptions())
    (found,) = case.query("select * from findings where check_id = 'RL002'").to_pylist()
    assert (found["job_id"], found["job_id_bytes"]) == (TEXT.decode(), BYTE)
    assert json.loads(found["details"])["children"] == ["ids:gone\\xff"]
    assert "ids:gone\\xff" in found["message"]


def test_asked_for_by_bytes_only_one_is_meant(case: Case) -> None:
    """A shell passes the very bytes; a text is looked up as it stands."""
    assert [ref.job_id_bytes for ref in find_jobs(case, BYTE)] == [BYTE]
    assert [ref.job_id_bytes for ref in find_jobs(case, TEXT)] == [None]
    assert find_jobs(case, b"\xfd") == []


def test_two_queues_that_read_the_same_are_two_queues(case: Case) -> None:
    """Only the queue of the byte has bytes, in every table, and each job is told with its own queue."""
    rows = case.query("select queue_bytes, counts from queues where queue = $q", {"q": TEXT.decode()}).to_pylist()
    assert sorted(rows, key=str) == [
        {"queue_bytes": None, "counts": [("failed", 1)]},
        {"queue_bytes": BYTE, "counts": [("waiting", 1)]},
    ]
    found = find_jobs(case, "1", TEXT.decode())
    told = {ref.queue_bytes: picture(case, ref) for ref in found}
    assert {exact: p.job["state"] for exact, p in told.items()} == {None: "failed", BYTE: "waiting"}
    assert {exact: [r["structure"] for r in p.places] for exact, p in told.items()} == {
        None: ["failed"],
        BYTE: ["wait"],
    }
    assert {exact: dict(p.queue["counts"]) for exact, p in told.items()} == {None: {"failed": 1}, BYTE: {"waiting": 1}}
