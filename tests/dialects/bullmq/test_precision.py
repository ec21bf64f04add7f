"""Numbers at their edges, and records that hold something else than what the library writes."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from jobsleuth.dialects import Options
from jobsleuth.dialects.bullmq.numerals import parse_int

EDGE = 2**53 // 4096
"""First due time, Unix ms, whose packed score a double may round: 2039-09-07T15:47:35.552Z."""
DAMAGED = ("v5-precision", "v6-precision")


@pytest.mark.parametrize("name", DAMAGED)
def test_due_times_are_what_was_asked_for_on_both_sides_of_2_to_the_53(fixture: Any, name: str) -> None:
    """The library packed the due time of each job; `scheduled_at` is that very millisecond, in 2039 as in 9999."""
    evidence = fixture(name)
    seen = set()
    for (_, _, queue, job_id), row in evidence.jobs.items():
        if queue == "edges" and row["state"] == "delayed":
            due = int(job_id.split("-")[1])
            seen.add(due)
            assert (row["created_at"] + row["delay_ms"], row["scheduled_at"]) == (due, due)
    assert {EDGE - 1, EDGE, EDGE + 1, 253_402_300_799_999} <= seen


@pytest.mark.parametrize("name", DAMAGED)
def test_tie_breakers_are_exact_as_far_as_the_score_is(fixture: Any, name: str) -> None:
    """Below 2^53 four jobs of one millisecond are 0 to 3; beyond, what the server's own score still tells."""
    evidence = fixture(name)
    stored = dict(evidence.raw_values[0, "bull:edges:delayed"]["value"])
    for row in evidence.rows("membership"):
        if row["key"] == "bull:edges:delayed":
            due, nth = (int(part) for part in row["job_id"].split("-")[1:])
            assert row["score"] == float(stored[row["job_id"]])
            assert row["sequence"] == int(float(stored[row["job_id"]])) % 4096
            if due < EDGE:
                assert row["sequence"] == nth - 1


@pytest.mark.parametrize("name", DAMAGED)
def test_the_highest_priority_keeps_its_counter(fixture: Any, name: str) -> None:
    """2097151 * 2^32 + 1 is the largest score that the library packs, just below 2^53."""
    row = next(m for m in fixture(name).rows("membership") if m["structure"] == "prioritized")
    assert (row["score"], row["sequence"]) == (float(2097151 * 2**32 + 1), 1)


@pytest.mark.parametrize("name", DAMAGED)
def test_ids_are_texts_however_long(fixture: Any, name: str) -> None:
    """Ids that one double would stand for stay apart; those that the library's counter rounded stay as written."""
    evidence = fixture(name)
    ids = {job_id for (_, _, queue, job_id) in evidence.jobs if queue == "ids-by-hand"}
    assert ids == {
        "sound",
        "9007199254740992",
        "9007199254740993",
        "18446744073709551617",
        "18446744073709551618",
    }
    assert all(row["name"] == row["job_id"] for row in evidence.rows("jobs") if row["job_id"] in ids - {"sound"})
    counters = {q["queue"]: dict(q["counters"])["id"] for q in evidence.rows("queues") if q["queue"].startswith("ids-")}
    assert counters["ids-2-53"] == 9007199254740995
    for queue in ("ids-1e14", "ids-2-53"):
        assert {i for (_, _, q, i) in evidence.jobs if q == queue} == evidence.library["queues"][f"bull:{queue}"][
            "jobs"
        ].keys()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (b"12", 12),
        (b" \t12", 12),
        (b"+12", 12),
        (b"-12.9", -12),
        (b"12abc", 12),
        (b"1e3", 1),
        (b"0x1F", 31),
        (b"0x", 0),
        (b"", None),
        (b"abc", None),
        (b"-", None),
        (b"\xff12", None),
        (b"9223372036854775807", 2**63 - 1),
        (b"9223372036854775808", None),
        (b"9" * 6000, None),
        (b"0" * 6000 + b"7", 7),
    ],
)
def test_numbers_are_read_as_javascript_reads_them(text: bytes, number: int | None) -> None:
    """ECMAScript's parseInt without a radix, which the library calls on every number of a job."""
    assert number == parse_int(text)


def test_a_payload_of_fifty_megabytes(rdb: Any) -> None:
    """Its size, its shape and, if asked for, its beginning; the other columns as ever."""
    data = b'{"a":"' + b"x" * 50_000_000 + b'"}'
    rdb.db(0)
    rdb.queue(b"bull:q")
    rdb.put(b"bull:q:wait", [b"big", b"small"])
    rdb.job(b"bull:q:big", data=data)
    rdb.job(b"bull:q:small", data=data[:-1])
    rows = {r["job_id"]: r for r in rdb.read(Options(payload_limit=6)).rows("jobs")}
    assert [(r["payload"], r["payload_bytes"], r["payload_format"], r["state"]) for r in rows.values()] == [
        (b'{"a":"', len(data), "json", "waiting"),
        (b'{"a":"', len(data) - 1, "opaque", "waiting"),
    ]
    assert rdb.read().rows("jobs")[0]["payload"] == data


def test_fields_stored_twice_lose_nothing(rdb: Any) -> None:
    """No server writes a field twice, an editor of files may: the first counts, the others are in `rest`."""
    rdb.db(0)
    rdb.queue(b"bull:q")
    fields = [
        (b"name", b"a"), (b"name", b"b"), (b"data", b"1"), (b"data", b"2"), (b"opts", b'{"attempts":1}'),
        (b"opts", b'{"attempts":2}'), (b"timestamp", b"1699999990000"), (b"timestamp", b"1699999990001"),
        (b"timestamp", b"x"), (b"delay", b"0"), (b"priority", b"0"), (b"x", b"1"), (b"x", b"2"),
    ]  # fmt: skip
    rdb.put_hash(b"bull:q:1", fields)
    row = rdb.read().rows("jobs")[0]
    assert (row["name"], row["payload"], row["created_at"], row["max_attempts"]) == ("a", b"1", 1699999990000, 1)
    kept = [(name.encode(), value) for name, value in row["rest"]]
    shown = [(b"name", b"a"), (b"data", b"1"), (b"timestamp", b"1699999990000"), (b"delay", b"0"), (b"priority", b"0")]
    assert sorted(kept + shown) == sorted(fields)


def test_an_id_stored_twice_in_a_zset_is_two_rows(rdb: Any) -> None:
    """Neither score is dropped; the job is due at one of the two."""
    rdb.db(0)
    rdb.queue(b"bull:q")
    due = (1_700_000_010_000, 1_700_000_020_000)
    rdb.put_zset(b"bull:q:delayed", [(b"1", ms * 4096.0) for ms in due])
    rdb.job(b"bull:q:1")
    evidence = rdb.read()
    assert [m["due_at"] for m in evidence.rows("membership")] == list(due)
    assert [(r["state"], r["scheduled_at"] in due) for r in evidence.rows("jobs")] == [("delayed", True)]


def test_counters_of_two_ages_are_both_kept(rdb: Any) -> None:
    """Of `attemptsMade` and `atm`, `stc` and `stalledCounter` the library takes the first; `rest` keeps the other."""
    rdb.db(0)
    rdb.queue(b"bull:q")
    rdb.job(b"bull:q:1", attemptsMade=b"2", atm=b"5", stc=b"1", stalledCounter=b"3")
    rdb.job(b"bull:q:2", attemptsMade=b"x", atm=b"5")
    rdb.job(b"bull:q:3", attemptsMade=b"", atm=b"5", stalledCounter=b"3")
    rows = {r["job_id"]: r for r in rdb.read().rows("jobs")}
    assert [(r["attempts"], r["stalled_count"]) for r in rows.values()] == [(2, 1), (None, 0), (5, 3)]
    rest = {job_id: {k: v for k, v in r["rest"] if k != "opts"} for job_id, r in rows.items()}
    assert rest == {
        "1": {"atm": b"5", "stalledCounter": b"3"},
        "2": {"attemptsMade": b"x", "atm": b"5"},
        "3": {"attemptsMade": b""},
    }


def test_scores_of_every_bit_pattern(rdb: Any) -> None:
    """Subnormal, negative zero, the largest double, minus infinity: a score is a double and nothing more."""
    rdb.db(0)
    rdb.queue(b"bull:q")
    patterns = [1, 1 << 63, 0x7FEFFFFFFFFFFFFF, 0xFFF0000000000000]
    scores = [struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in patterns]
    rdb.put_zset(b"bull:q:delayed", [(b"%d" % n, score) for n, score in enumerate(scores)])
    rows = sorted(rdb.read().rows("membership"), key=lambda m: m["job_id"])
    assert [struct.pack("<d", m["score"]) for m in rows] == [struct.pack("<d", score) for score in scores]
    assert [m["due_at"] for m in rows] == [0, 0, None, None]
