"""Names that read the same as text and are not the same: a text with a backslash, and the byte that is written so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jobsleuth.case import Case
from jobsleuth.pipeline import AnalyzeOptions, analyze
from jobsleuth.reports import find_jobs, picture, picture_lines, story

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


def test_keys_that_read_the_same_have_their_own_bytes(case: Case) -> None:
    """Of two records and two structures with one text each only that of the byte has bytes."""
    for table, text in (("jobs", "bull:ids:\\xff"), ("membership", "bull:\\xff:wait"), ("jobs", "bull:\\xff:1")):
        rows = case.query(
            f"select distinct key_bytes from {table} where key = $k order by all", {"k": text}
        ).to_pylist()
        byte = text.encode().replace(TEXT, BYTE)
        assert [r["key_bytes"] for r in rows] == ([byte] if table == "membership" else [byte, None])


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
