"""What is said of the dumps of our own: each planted fault, and nothing of the streams that are in order."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

import jobsleuth
from jobsleuth.reports import find_jobs, picture
from jobsleuth.sources import RdbKeyspace
from tests.conftest import RedisServer
from tests.dialects.streams.conftest import FIXTURES

SINCE_7 = [
    ("afresh", "g", "SM008", "warning"),
    ("beyond", "g", "SM007", "error"),
    ("deleted", "g", "SM006", "warning"),
    ("emptied", "g", "SM008", "info"),
    ("never", "g", "SM008", "info"),
    ("poison", "g", "SM003", "warning"),
    ("removed", "g", "SM001", "warning"),
    ("removed", "g", "SM001", "warning"),
    ("silent", "g", "SM002", "warning"),
    ("silent", "g", "SM002", "warning"),
    ("trimmed", "g", "SM006", "error"),
    ("trimmed-new", "g", "SM006", "warning"),
    ("trimmed-new", "late", "SM006", "info"),
]
"""Stream, group, check and severity of each finding; which counters are there decides about SM006 and afresh."""


def found(case: jobsleuth.Case) -> list[tuple[str, str, str, str]]:
    rows = case.query("select namespace, queue, check_id, severity from findings where dialect = 'streams'").to_pylist()
    return sorted((r["namespace"], r["queue"], r["check_id"], r["severity"]) for r in rows)


@pytest.mark.parametrize("folder", FIXTURES, ids=lambda p: p.name)
def test_planted_faults(folder: Path, tmp_path: Path) -> None:
    """A fault a stream, found and called by its name; a snapshot of 6.2 has no counters, so nothing rests on them."""
    case = jobsleuth.analyze(folder / "evidence.rdb", tmp_path / "c")
    counted = "7" in folder.name
    expected = [row for row in SINCE_7 if counted or (row[2] != "SM006" and row[0] != "afresh")]
    assert expected == found(case)
    lost = case.query("select queue, details->>'lost' as lost from findings where check_id = 'SM006' order by key")
    # 20 entries; 5 read and 8 kept: 7 lost. 5 read, one of the others deleted. Not counted: not said.
    assert (["1", "7", None, None] if counted else []) == lost.column("lost").to_pylist()


def test_killed_consumer_shows_when_nobody_claims_its_entries(tmp_path: Path) -> None:
    """Ten minutes later the consumers with something in their hands are silent, the killed one among them; the one that
    holds nothing is not told, and twelve that never took anything are leaked after a day."""
    folder = next(f for f in FIXTURES if "7" in f.name)
    saved_ms = tomllib.loads((folder / "case.toml").read_text())["evidence"]["saved_at_us"] // 1000
    later = jobsleuth.AnalyzeOptions(as_of_ms=saved_ms + 600_000)
    case = jobsleuth.analyze(folder / "evidence.rdb", tmp_path / "later", later)
    silent = case.query(
        "select namespace, queue, details->>'worker_id' as consumer, details->>'holds' as holds"
        " from findings where check_id = 'SM004' and namespace = 'orders'"
    ).to_pylist()
    assert sorted((r["queue"], r["consumer"], r["holds"]) for r in silent) == [
        ("billing", "alive", "1"),
        ("billing", "killed", "3"),
    ]
    held = "select job_id from jobs where worker_name = 'killed' order by 1"
    assert len(case.query(held)) == 3
    assert not case.query("select 1 from findings where check_id = 'SM005'").num_rows
    next_day = jobsleuth.AnalyzeOptions(as_of_ms=saved_ms + 90_000_000)
    case = jobsleuth.analyze(folder / "evidence.rdb", tmp_path / "day", next_day)
    leaked = case.query("select namespace, details->>'consumers' as n from findings where check_id = 'SM005'")
    assert leaked.to_pylist() == [{"namespace": "afresh", "n": "12"}]


def test_acknowledged_entries_are_counted_and_kept_out(tmp_path: Path) -> None:
    """Without the option they are no rows; their number is there either way."""
    evidence = FIXTURES[-1] / "evidence.rdb"
    open_only = jobsleuth.analyze(evidence, tmp_path / "open")
    all_of_them = jobsleuth.analyze(evidence, tmp_path / "all", jobsleuth.AnalyzeOptions(streams_acked=True))
    counts = "select db, namespace, queue, counts from queues order by all"
    assert open_only.query(counts).to_pylist() == all_of_them.query(counts).to_pylist()
    acked = "select count(*) as n from jobs where state = 'acknowledged'"
    total = sum(dict(r["counts"]).get("acknowledged", 0) for r in open_only.query(counts).to_pylist())
    assert open_only.query(acked).to_pylist() == [{"n": 0}]
    assert all_of_them.query(acked).to_pylist() == [{"n": total}] and total > 0


def test_payloads_are_cut_as_asked(tmp_path: Path) -> None:
    """`--payload none` keeps nothing of what applications wrote, and says how much there was."""
    options = jobsleuth.AnalyzeOptions(payload_limit=0)
    case = jobsleuth.analyze(FIXTURES[-1] / "evidence.rdb", tmp_path / "c", options)
    rows = case.query("select payload, payload_bytes, rest from jobs where has_record").to_pylist()
    assert rows and all(not r["payload"] and r["payload_bytes"] > 0 and r["rest"] is None for r in rows)


def test_other_libraries_keep_their_streams(tmp_path: Path) -> None:
    """A group on the event stream of a BullMQ queue makes no queue of it; a stream without a group is none."""
    root = FIXTURES[0].parents[1]
    case = jobsleuth.analyze(root / "bullmq/v5-healthy/evidence.rdb", tmp_path / "b")
    assert not case.query("select 1 from queues where dialect = 'streams'").num_rows
    case = jobsleuth.analyze(FIXTURES[-1] / "evidence.rdb", tmp_path / "s")
    assert case.query("select dialect, role from keys where key = 'no-group'").to_pylist() == [
        {"dialect": None, "role": None}
    ]


def test_snapshot_without_streams_loads_nothing(tmp_path: Path) -> None:
    """The dialect looks at the types of keys only where no key is a stream."""

    class Never:
        def __init__(self, keyspace: RdbKeyspace) -> None:
            self.keys, self.live = keyspace.keys, keyspace.live

        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"{name} was asked for")

    from jobsleuth.dialects import Options
    from jobsleuth.dialects.streams import DIALECT

    keyspace: Any = Never(RdbKeyspace.open(FIXTURES[0].parents[1] / "asynq/healthy-0.26.0/evidence.rdb"))
    claims = DIALECT.claim(keyspace, keyspace.live, Options())
    assert not claims.queues and (claims.role < 0).all()
    assert list(DIALECT.tables(keyspace, claims, Options())) == []


def test_groups_put_ahead_missed_nothing(redis_server: RedisServer, tmp_path: Path) -> None:
    """Groups created or set to `$` behind deletions are in order; trimming alone is an info; an entry that another
    group was given, or that was deleted after the group's last one, a warning."""
    server = redis_server.client()
    server.flushall()

    def add(stream: str, *numbers: int) -> None:
        for number in numbers:
            server.xadd(stream, {"n": number}, id=f"{number}-0")

    server.xgroup_create("finished", "g", id="$", mkstream=True)
    for number in range(1, 6):
        add("finished", number)
        server.xreadgroup("g", "w", {"finished": ">"})
        server.xack("finished", "g", f"{number}-0")
        server.xdel("finished", f"{number}-0")
    server.xgroup_create("finished", "new", id="$")
    server.execute_command("XGROUP", "SETID", "finished", "g", "$")
    add("finished", 6)
    add("trimmed", *range(1, 6))
    server.xgroup_create("trimmed", "new", id="$")
    add("trimmed", 6)
    server.xtrim("trimmed", minid="6-0", approximate=False)
    for stream in ("given", "deleted"):
        add(stream, *range(1, 6))
        server.xgroup_create(stream, "new", id="3-0")
    server.xgroup_create("given", "ahead", id="2-0")
    server.xreadgroup("ahead", "w", {"given": ">"})
    server.xtrim("given", minid="5-0", approximate=False)
    server.xdel("deleted", "1-0", "2-0", "3-0", "4-0")
    redis_server.save()
    case = jobsleuth.analyze(redis_server.folder / "dump.rdb", tmp_path / "c")
    assert [row for row in found(case) if row[2] == "SM006"] == [
        ("deleted", "new", "SM006", "warning"),
        ("given", "new", "SM006", "warning"),
        ("trimmed", "new", "SM006", "info"),
    ]


def test_group_that_never_read_a_trimmed_stream(redis_server: RedisServer, tmp_path: Path) -> None:
    """At the beginning, given nothing, and the server's XINFO says that entries are gone: how many at most. Nothing
    gone, nothing said; an entry read since, and the server counts itself."""
    server = redis_server.client()
    server.flushall()
    for stream in ("trimmed", "emptied", "deleted", "whole", "read", "behind"):
        server.xgroup_create(stream, "g", id="0", mkstream=True)
        for number in range(1, 11):
            server.xadd(stream, {"n": number}, id=f"{number}-0")
    server.execute_command("XGROUP", "SETID", "behind", "g", "5-0")
    server.xtrim("trimmed", maxlen=4, approximate=False)
    server.xtrim("emptied", maxlen=0, approximate=False)
    server.xtrim("behind", maxlen=0, approximate=False)
    server.xdel("deleted", "1-0", "2-0")
    server.xtrim("read", maxlen=4, approximate=False)
    server.xreadgroup("g", "w", {"read": ">"})
    gone = {}
    for stream in ("trimmed", "emptied", "deleted", "whole"):
        told = server.xinfo_stream(stream)
        gone[stream] = told["entries-added"] - told["length"]
    assert gone == {"trimmed": 6, "emptied": 10, "deleted": 2, "whole": 0}
    redis_server.save()
    case = jobsleuth.analyze(redis_server.folder / "dump.rdb", tmp_path / "c")
    rows = case.query("select namespace, severity, certainty, message from findings where check_id = 'SM006'")
    start = "may have missed up to"
    assert sorted(tuple(row.values()) for row in rows.to_pylist()) == [
        ("behind", "warning", "possible", "Group g of behind missed some entries, removed from the stream unread"),
        ("deleted", "info", "possible", f"Group g of deleted {start} 2 entries, removed from the stream unread"),
        ("emptied", "warning", "possible", f"Group g of emptied {start} 10 entries, removed from the stream unread"),
        ("trimmed", "warning", "possible", f"Group g of trimmed {start} 6 entries, removed from the stream unread"),
    ]


def test_nothing_tells_when_a_group_was_made_at_the_beginning(redis_server: RedisServer, tmp_path: Path) -> None:
    """Made before entries were trimmed or afterwards, the server keeps the same bytes, so both are possible, with the
    same most; after a first read it counts what is gone as read, again in both, and nothing is said; with ENTRIESREAD
    the count says how many it were."""
    server = redis_server.client()
    server.flushall()

    def trimmed(stream: str) -> None:
        for number in range(1, 11):
            server.xadd(stream, {"n": number}, id=f"{number}-0")
        server.xtrim(stream, maxlen=4, approximate=False)

    def dumps(*streams: str) -> set[bytes]:
        return {server.dump(stream) or b"" for stream in streams}

    def make(stream: str, *more: object) -> None:
        server.execute_command("XGROUP", "CREATE", stream, "g", "0", "MKSTREAM", *more)

    for suffix in ("", "-read"):
        make(f"before{suffix}")
        trimmed(f"before{suffix}")
        trimmed(f"after{suffix}")
        make(f"after{suffix}")
    make("counted", "ENTRIESREAD", 0)
    trimmed("counted")
    assert len(dumps("before", "after")) == 1
    for stream in ("before-read", "after-read"):
        server.xreadgroup("g", "c", {stream: ">"}, count=1, noack=True)
        (group,) = server.xinfo_groups(stream)
        # Seven of ten, six of them never given to anybody.
        assert (group["entries-read"], group["lag"]) == (7, 3)
    (group,) = server.xinfo_groups("counted")
    assert (group["entries-read"], group["lag"]) == (0, 10)
    redis_server.save()
    case = jobsleuth.analyze(redis_server.folder / "dump.rdb", tmp_path / "c")
    rows = case.query("select namespace, severity, certainty, message from findings where check_id = 'SM006'")
    told = "entries, removed from the stream unread"
    assert sorted(tuple(row.values()) for row in rows.to_pylist()) == [
        ("after", "warning", "possible", f"Group g of after may have missed up to 6 {told}"),
        ("before", "warning", "possible", f"Group g of before may have missed up to 6 {told}"),
        ("counted", "error", "certain", f"Group g of counted missed 6 {told}"),
    ]


def test_deliveries_dated_before_2000(redis_server: RedisServer, tmp_path: Path) -> None:
    """What XPENDING says after `XCLAIM … TIME 0`: idle since 1970, and kept in `rest` to the millisecond."""
    server = redis_server.client()
    server.flushall()
    server.xgroup_create("s", "g", id="0", mkstream=True)
    for number in range(1, 4):
        server.xadd("s", {"n": number}, id=f"{number}-0")
    server.xreadgroup("g", "w", {"s": ">"})
    server.execute_command("XCLAIM", "s", "g", "w", 0, "1-0", "TIME", 0)
    server.execute_command("XCLAIM", "s", "g", "w", 0, "2-0", "TIME", 5000)
    full = redis_server.raw(0).execute_command("XINFO STREAM", "s", "FULL")
    group = dict(zip(full[-1][0][::2], full[-1][0][1::2], strict=True))
    dated = {entry.decode(): at for entry, _, at, _ in group[b"pending"]}
    assert (dated["1-0"], dated["2-0"]) == (0, 5000) and dated["3-0"] > 1_600_000_000_000
    redis_server.save()
    case = jobsleuth.analyze(redis_server.folder / "dump.rdb", tmp_path / "c")
    rows = case.query("select job_id, epoch_ms(started_at) as at, rest from jobs order by job_id").to_pylist()
    assert {
        r["job_id"]: r["at"] if r["at"] is not None else int(dict(r["rest"])["delivery_time"]) for r in rows
    } == dated
    late = case.query("select job_id from findings where check_id = 'SM002' order by 1").to_pylist()
    assert late == [{"job_id": "1-0"}, {"job_id": "2-0"}]
    assert dict(case.query("select counters from queues").to_pylist()[0]["counters"])["oldest_pending_ms"] == 0


def test_a_job_is_told_the_size_of_its_own_group(redis_server: RedisServer, tmp_path: Path) -> None:
    """Of an entry that is pending in three groups each tells the number that XPENDING has for that group."""
    server = redis_server.client()
    server.flushall()
    for number in range(1, 10):
        server.xadd("s", {"n": number}, id=f"{number}-0")
    for group, count in (("few", 2), ("most", 7), ("none", 0)):
        server.xgroup_create("s", group, id="0")
        if count:
            server.xreadgroup(group, "w", {"s": ">"}, count=count)
    redis_server.save()
    case = jobsleuth.analyze(redis_server.folder / "dump.rdb", tmp_path / "c")
    told = {}
    for ref in find_jobs(case, "1-0"):
        (place,) = picture(case, ref).places
        told[ref.queue] = (place["structure"], place["size"])
    expected = {group: ("pel", server.xpending("s", group)["pending"]) for group in ("few", "most")}
    assert told == {**expected, "none": ("stream", server.xlen("s"))}


def test_what_was_deleted_unread_is_possible_only(redis_server: RedisServer, tmp_path: Path) -> None:
    """An entry that XDEL took before the group came to it, which then read on; the same with trimming behind it; and
    trimming alone. The server counts one, two and two entries that were added, are gone and were not read."""
    server = redis_server.client()
    server.flushall()
    for stream in ("passed", "both", "trimmed"):
        server.xgroup_create(stream, "g", id="0", mkstream=True)
        for number in range(1, 11):
            server.xadd(stream, {"n": number}, id=f"{number}-0")
        server.xreadgroup("g", "w", {stream: ">"}, count=2)
        if stream != "trimmed":
            server.xdel(stream, "3-0")
        server.xreadgroup("g", "w", {stream: ">"}, count=3)
        if stream != "passed":
            server.xtrim(stream, minid="8-0", approximate=False)
    told = {}
    for stream in ("passed", "both", "trimmed"):
        info, (group,) = server.xinfo_stream(stream), server.xinfo_groups(stream)
        ahead = server.xrange(stream, min="(" + group["last-delivered-id"].decode())
        told[stream] = info["entries-added"] - group["entries-read"] - len(ahead)
    redis_server.save()
    case = jobsleuth.analyze(redis_server.folder / "dump.rdb", tmp_path / "c")
    rows = case.query(
        "select namespace, (details->>'lost')::int as lost, severity, certainty from findings where check_id = 'SM006'"
    ).to_pylist()
    assert {r["namespace"]: r["lost"] for r in rows} == told == {"passed": 1, "both": 2, "trimmed": 2}
    assert {r["namespace"]: (r["severity"], r["certainty"]) for r in rows} == {
        "passed": ("warning", "possible"),
        "both": ("error", "possible"),
        "trimmed": ("error", "certain"),
    }
