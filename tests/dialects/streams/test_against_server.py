"""Groups, entries and consumers of streams, held against XINFO STREAM FULL, XPENDING and XRANGE of the same data."""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import jobsleuth
from jobsleuth.safetext import from_bytes
from tests.dialects.streams.conftest import CORPUS, FIXTURES, Told, number, of_corpus, of_fixture

DUMPS = [
    *(pytest.param(folder / "evidence.rdb", id=folder.name) for folder in FIXTURES),
    *(pytest.param(dump, id=dump.parent.name, marks=pytest.mark.corpus) for dump in CORPUS),
]
each_dump = pytest.mark.parametrize("dump", DUMPS)


@pytest.mark.skipif(bool(CORPUS), reason="it is there")
def test_corpus_is_there() -> None:
    """Says loudly that only own dumps were compared."""
    pytest.skip("the shared corpus is absent: NO stream of other servers was compared")


@cache
def told(dump: Path) -> tuple[Told, ...]:
    return tuple(of_fixture(dump.parent) if dump.name == "evidence.rdb" else of_corpus(dump))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """dump → its rows by table, acknowledged entries included; each dump is read once."""

    @cache
    def read(dump: Path) -> dict[str, list[dict[str, Any]]]:
        options = jobsleuth.AnalyzeOptions(streams_acked=True)
        case = jobsleuth.analyze(dump, tmp_path_factory.mktemp("case") / "c", options)
        names = ("jobs", "membership", "workers", "queues")
        return {name: case.query(f"select * from {name} where dialect = 'streams'").to_pylist() for name in names}

    return read


def place(row: dict[str, Any]) -> tuple[int, str, str]:
    return row["db"], row["namespace"], row["queue"]


def ms(when: Any) -> int:
    """Unix ms of a timestamp, 0 for none."""
    return 0 if when is None else round(when.timestamp() * 1000)


@each_dump
def test_every_group_is_a_queue(dump: Path, tables: Any) -> None:
    """The server's groups and no others: the stream's key is the namespace, the group's name the queue."""
    expected = sorted((t.db, t.stream, t.group) for t in told(dump))
    assert expected and expected == sorted(map(place, tables(dump)["queues"]))


@each_dump
def test_state_of_every_entry(dump: Path, tables: Any) -> None:
    """Pending as XPENDING lists it, else undelivered after the group's last id and acknowledged up to it."""
    jobs = {(*place(job), job["job_id"]): job for job in tables(dump)["jobs"]}
    expected: dict[tuple[Any, ...], tuple[str, bool]] = {}
    for t in told(dump):
        for entry in t.entries:
            fresh = number(entry) > number(t.last)
            expected[t.db, t.stream, t.group, entry] = ("undelivered" if fresh else "acknowledged", True)
        for entry, (consumer, _, _) in t.pending.items():
            state = "released" if consumer is None else "pending"
            expected[t.db, t.stream, t.group, entry] = (state, entry in t.entries)
    assert expected == {key: (job["state"], job["has_record"]) for key, job in jobs.items()}
    assert len(jobs) == len(tables(dump)["jobs"])


@each_dump
def test_who_holds_an_entry_since_when_and_how_often(dump: Path, tables: Any) -> None:
    """Consumer, delivery time and number of deliveries of every pending entry, from XINFO STREAM FULL."""
    expected = {(t.db, t.stream, t.group, entry): held for t in told(dump) for entry, held in t.pending.items()}
    got = {
        (*place(job), job["job_id"]): (job["worker_name"], ms(job["started_at"]), job["attempts"])
        for job in tables(dump)["jobs"]
        if job["state"] in ("pending", "released")
    }
    assert expected == got


@each_dump
def test_payload_is_the_entry(dump: Path, tables: Any) -> None:
    """The fields of XRANGE as JSON, exactly, also where a name comes twice or bytes are no text."""
    fields = {(t.db, t.stream, entry): pairs for t in told(dump) for entry, pairs in t.entries.items()}
    for job in tables(dump)["jobs"]:
        if not job["has_record"]:
            continue
        pairs = fields[job["db"], job["namespace"], job["job_id"]]
        stored = json.loads(job["payload"])
        if isinstance(stored, dict):
            stored = list(stored.items())
        read = [(name, base64.b64decode(v["b64"]) if isinstance(v, dict) else v.encode()) for name, v in stored]
        assert [(from_bytes(name), value) for name, value in pairs] == read
        assert job["payload_bytes"] == len(job["payload"]) and job["payload_format"] == "json"


@each_dump
def test_consumers(dump: Path, tables: Any) -> None:
    """Names, when they were seen and active, and what they hold, from XINFO STREAM FULL."""
    expected = {
        (t.db, t.stream, t.group, name): (seen, active if active and active > 0 else 0, held)
        for t in told(dump)
        for name, (seen, active, held) in t.consumers.items()
    }
    rows = tables(dump)["workers"]
    got = {(*place(r), r["worker_id"]): (ms(r["seen_at"]), ms(r["active_at"]), r["holds"]) for r in rows}
    assert expected == got and {row["kind"] for row in rows} <= {"consumer"}


@each_dump
def test_counters(dump: Path, tables: Any) -> None:
    """Length, added and read are the server's; its lag, where it knows one, is what waits and what was lost unread."""
    queues = {place(queue): queue for queue in tables(dump)["queues"]}
    for t in told(dump):
        queue = queues[t.db, t.stream, t.group]
        counters = dict(queue["counters"])
        assert counters["length"] == len(t.entries)
        assert counters["pending"] == len(t.pending)
        if "entries_added" in counters:
            assert counters["entries_added"] == t.added
            assert counters.get("entries_read") == t.read
        assert counters["lag"] == sum(number(entry) > number(t.last) for entry in t.entries)
        if t.lag is not None and t.lag >= 0 and "entries_added" in counters:
            lost = counters.get("lost_unread", 0)
            assert t.lag in (counters["lag"], counters["lag"] + lost)
            if t.read is not None and dump.parent.name == "groups-7.0.15":
                assert t.lag == counters["lag"] + lost
        states = dict(queue["counts"])
        mine = [job for job in tables(dump)["jobs"] if place(job) == (t.db, t.stream, t.group)]
        assert states == {s: n for s in STATES if (n := sum(job["state"] == s for job in mine))}


STATES = ("undelivered", "pending", "released", "acknowledged")


@each_dump
def test_where_entries_are(dump: Path, tables: Any) -> None:
    """Undelivered entries are in the stream, delivered ones in the group's pending list, finished ones nowhere."""
    expected = sorted(
        (*place(job), job["job_id"], "stream" if job["state"] == "undelivered" else "pel")
        for job in tables(dump)["jobs"]
        if job["state"] != "acknowledged"
    )
    assert expected == sorted((*place(m), m["job_id"], m["structure"]) for m in tables(dump)["membership"])
