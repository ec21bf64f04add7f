"""Append-only files replayed, held against what real servers say who wrote or loaded the same files."""

from __future__ import annotations

import base64
import gzip
import importlib.util
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from jobsleuth.errors import EvidenceError, UsageError
from jobsleuth.sources import ReadOptions, SpoolOptions, open_keyspace, snapshot, write_keyspace
from tests.conftest import RedisServer
from tests.sources.commands import Maker, packed, text

SERVERS = Path(__file__).parents[3] / "shared" / "corpus" / "servers"
WRITTEN = sorted(p for p in SERVERS.glob("*/aof*") if p.is_dir())
FOLDER = ["--appendonly", "yes", "--appendfsync", "always"]
Keys = dict[tuple[int, bytes], dict[str, Any]]


# ---- what a server says, and what we read


def replies(server: RedisServer) -> Keys:
    """Type, expiry and value of every key, by ordinary commands."""
    found: Keys = {}
    for db in (0, 3):
        client = server.client(db)
        client.response_callbacks.clear()
        for key in client.execute_command("KEYS", "*"):
            kind = client.execute_command("TYPE", key).decode()
            expiry = client.execute_command("PEXPIRETIME", key)
            found[db, key] = {
                "type": kind,
                "expire_at_ms": None if expiry < 0 else expiry,
                "value": reply(client, kind, key),
            }
    return found


def pairs(flat: list[Any]) -> list[tuple[Any, Any]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


def reply(client: redis.Redis, kind: str, key: bytes) -> Any:
    ask = client.execute_command
    match kind:
        case "string":
            return ask("GET", key)
        case "list":
            return ask("LRANGE", key, 0, -1)
        case "set":
            return sorted(ask("SMEMBERS", key))
        case "zset":
            return [(member, float(score)) for member, score in pairs(ask("ZRANGE", key, 0, -1, "WITHSCORES"))]
        case "hash":
            return sorted(pairs(ask("HGETALL", key)))
        case "stream":
            info = dict(pairs(ask("XINFO", "STREAM", key, "FULL", "COUNT", 0)))
            groups = []
            for group in (dict(pairs(g)) for g in info[b"groups"]):
                consumers = [dict(pairs(c)) for c in group[b"consumers"]]
                pending = sorted(tuple(p) for p in group[b"pending"])
                names = sorted(c[b"name"] for c in consumers)
                groups.append((group[b"name"], group[b"last-delivered-id"], group[b"entries-read"], pending, names))
            entries = [(i, pairs(fields)) for i, fields in ask("XRANGE", key, "-", "+")]
            counters = (info[b"last-generated-id"], info[b"entries-added"], info[b"max-deleted-entry-id"])
            return entries, counters, sorted(groups)
    raise AssertionError(kind)


def comparison() -> Any:
    spec = importlib.util.spec_from_file_location("compare_cat", SERVERS.parent / "compare_cat.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def unpack(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else base64.b64decode(value["b64"])


def cat(evidence: Path, folder: Path, **options: Any) -> Keys:
    """What a replay gives, in the shape of :func:`replies`."""
    out = folder / "out.ndjson"
    out.unlink(missing_ok=True)
    write_keyspace(evidence, out, **options)
    found: Keys = {}
    for line in map(json.loads, out.read_text("utf-8").splitlines()[1:-1]):
        kind, value = line["type"], line["value"]
        if kind == "string":
            value = unpack(value)
        elif kind == "list":
            value = [unpack(item) for item in value]
        elif kind == "set":
            value = sorted(unpack(item) for item in value)
        elif kind == "zset":
            value = sorted(((unpack(m), float(s)) for m, s in value), key=lambda pair: (pair[1], pair[0]))
        elif kind == "hash":
            value = sorted((unpack(field[0]), unpack(field[1])) for field in value)
        elif kind == "stream":
            groups = []
            for g in value["groups"]:
                pending = sorted((p[0].encode(), unpack(p[1]), p[2], p[3]) for p in g["pending"])
                names = sorted(unpack(c[0]) for c in g["consumers"])
                groups.append((unpack(g["name"]), g["last_id"].encode(), g["entries_read"], pending, names))
            entries = [(i.encode(), [(unpack(f), unpack(v)) for f, v in fields]) for i, fields in value["entries"]]
            counters = (value["last_id"].encode(), value["entries_added"], value["max_deleted_id"].encode())
            value = entries, counters, sorted(groups)
        found[line["db"], unpack(line["key"])] = {
            "type": kind,
            "expire_at_ms": line["expire_at_ms"],
            "value": value,
        }
    return found


def assert_same(ours: Keys, theirs: Keys) -> None:
    assert sorted(ours) == sorted(theirs)
    for key, expected in theirs.items():
        assert ours[key] == expected, key


@contextmanager
def running(folder: Path, *options: str) -> Iterator[RedisServer]:
    folder.mkdir(exist_ok=True)
    server = RedisServer(folder, *options)
    try:
        yield server
    finally:
        server.stop()


def in_folder(folder: Path, commands: bytes) -> Path:
    """A folder as a server keeps it, with these commands in its only file."""
    inner = folder / "appendonlydir"
    inner.mkdir(parents=True)
    (inner / "appendonly.aof.1.incr.aof").write_bytes(commands)
    (inner / "appendonly.aof.manifest").write_text("file appendonly.aof.1.incr.aof seq 1 type i\n")
    return inner


# ---- against servers


@pytest.mark.corpus
@pytest.mark.skipif(not WRITTEN, reason="the shared corpus is absent: NO append-only file of another server was read")
@pytest.mark.parametrize("folder", WRITTEN, ids=lambda p: f"{p.parent.name}-{p.name}")
def test_files_of_every_server(folder: Path, tmp_path: Path) -> None:
    """One file or a folder, with a snapshot at the start or without, of 14 builds: what the servers held is there."""
    evidence = folder / "appendonly.aof"
    out = tmp_path / "out.ndjson"
    assert write_keyspace(evidence if evidence.exists() else folder, out) == []
    truth = json.loads(gzip.decompress(folder.with_name(f"{folder.name}.json.gz").read_bytes()))
    compare = comparison()
    assert compare.differences(truth, compare.parse(out.read_bytes()), truth["saved_between_ms"][1] + 2000) == []


@pytest.mark.integration
@pytest.mark.parametrize("seed", range(12))
def test_random_commands_as_a_server_writes_them(seed: int, tmp_path: Path) -> None:
    """Hundreds of commands of every kind, some in scripts and transactions: the file that a server keeps meanwhile,
    rewritten once on the way, gives what the server says in the end."""
    maker = Maker(seed)
    with running(
        tmp_path / "s", *FOLDER, "--aof-timestamp-enabled", "yes", "--enable-debug-command", "local"
    ) as server:
        client = server.client()
        client.response_callbacks.clear()
        for number in range(600):
            commands = [maker.command() for _ in range(maker.rng.randint(1, 3))]
            if number % 7 == 0:
                client.execute_command("MULTI")
            for command in commands:
                try:
                    if number % 5 == 0:
                        client.execute_command("EVAL", "return redis.pcall(unpack(ARGV))", 0, *command)
                    else:
                        client.execute_command(*command)
                except redis.ResponseError:
                    pass
            if number % 7 == 0:
                client.execute_command("EXEC")
            if number == 300:
                client.execute_command("BGREWRITEAOF")
                while b"aof_rewrite_in_progress:1" in client.execute_command("INFO", "persistence"):
                    time.sleep(0.05)
        shutil.copytree(tmp_path / "s" / "appendonlydir", tmp_path / "copy")
        theirs = replies(server)
    assert theirs
    # A rewrite forgets how many entries a group has read, and the server that wrote it does not.
    assert_same(without_counters(cat(tmp_path / "copy", tmp_path)), without_counters(theirs))


def without_counters(keys: Keys) -> Keys:
    for key in keys.values():
        if key["type"] == "stream":
            entries, counters, groups = key["value"]
            key["value"] = entries, counters, [(name, last, pending, names) for name, last, _, pending, names in groups]
    return keys


@pytest.mark.integration
@pytest.mark.parametrize("seed", range(100, 130))
def test_random_commands_as_a_server_loads_them(seed: int, tmp_path: Path) -> None:
    """A file of the commands themselves, loaded by a server: its replies are what the replay gives."""
    maker = Maker(seed)
    commands = [text("SELECT", 0), *(maker.command() for _ in range(700))]
    evidence = in_folder(tmp_path / "s", packed(commands))
    shutil.copytree(evidence, tmp_path / "copy")
    with running(tmp_path / "s", *FOLDER) as server:
        theirs = replies(server)
    assert theirs
    assert_same(cat(tmp_path / "copy", tmp_path), theirs)


@pytest.mark.integration
def test_sorted_by_other_keys(tmp_path: Path) -> None:
    """SORT … BY … GET … STORE, where the weights tell all elements apart."""
    commands = [text("SELECT", 0), text("RPUSH", "l", "a", "b", "c", "d"), text("SADD", "t", 3, 10, 2)]
    for name, weight in (("a", 3), ("b", 1), ("c", 4), ("d", 2)):
        commands += [text("SET", f"w:{name}", weight), text("HSET", f"h:{name}", "f", f"value of {name}")]
    for number, how in enumerate(([], ["DESC"], ["LIMIT", 1, 2], ["LIMIT", 1, -1], ["LIMIT", -1, 2])):
        commands.append(text("SORT", "l", "BY", "w:*", *how, "GET", "#", "GET", "h:*->f", "STORE", f"out{number}"))
        commands.append(text("SORT", "t", *how, "STORE", f"set{number}"))
        commands.append(text("SORT", "l", "BY", "w:*", *how, "ALPHA", "STORE", f"alpha{number}"))
    evidence = in_folder(tmp_path / "s", packed(commands))
    shutil.copytree(evidence, tmp_path / "copy")
    with running(tmp_path / "s", *FOLDER) as server:
        assert_same(cat(tmp_path / "copy", tmp_path), replies(server))


# ---- cuts, damage, times, places


COMMANDS = [
    text("SELECT", 0),
    text("SET", "a", "1"),
    text("MULTI"),
    text("RPUSH", "l", "x", "y"),
    text("SELECT", 3),
    text("ZADD", "z", 5, "m"),
    text("EXEC"),
    text("SET", "in-three", "1"),
    text("HSET", "h", "f", "v"),
    text("DEL", "in-three"),
]


def test_cut_anywhere(tmp_path: Path) -> None:
    """Cut at every byte, as by a crash: what is whole is there, a transaction only as a whole, and the cut is told."""
    whole = packed(COMMANDS)
    ends = [len(packed(COMMANDS[: n + 1])) for n in range(len(COMMANDS))]
    file = tmp_path / "appendonly.aof"
    expected = {
        1: set(),
        2: {(0, b"a")},
        7: {(0, b"a"), (0, b"l"), (3, b"z")},
        8: {(0, b"a"), (0, b"l"), (3, b"z"), (3, b"in-three")},
        9: {(0, b"a"), (0, b"l"), (3, b"z"), (3, b"in-three"), (3, b"h")},
        10: {(0, b"a"), (0, b"l"), (3, b"z"), (3, b"h")},
    }
    for size in range(ends[0], len(whole) + 1):
        file.write_bytes(whole[:size])
        done = sum(end <= size for end in ends)
        inside = 2 < done < 7
        with snapshot(file) as source, open_keyspace(source) as keyspace:
            rows = keyspace.keys.select(["db", "key"]).to_pylist()
            told = {remark.kind: remark for remark in keyspace.facts.remarks}
        assert {(row["db"], row["key"]) for row in rows} == expected[2 if inside else done], size
        assert ("aof_cut_short" in told) is (size not in ends), size
        assert ("unfinished_transaction" in told) is inside, size
        if "aof_cut_short" in told:
            assert told["aof_cut_short"].offset == (ends[1] if inside else ends[done - 1])


def test_without_a_whole_command_nothing_says_export(tmp_path: Path) -> None:
    """A server's file that was cut in its first command is one instant and has lost nothing to a format."""
    file = tmp_path / "appendonly.aof"
    for size in (15, len(packed(COMMANDS[:1])), len(packed(COMMANDS[:1])) + 9):
        file.write_bytes(packed(COMMANDS)[:size])
        with snapshot(file) as source, open_keyspace(source) as keyspace:
            assert (keyspace.facts.format, keyspace.as_of.atomic, keyspace.keys.num_rows) == ("aof", True, 0)
            assert {remark.kind for remark in keyspace.facts.remarks} <= {"aof_cut_short"}


def test_damage_is_an_error_with_its_place(tmp_path: Path) -> None:
    """Bytes that are no command: where they stand is told, and with salvage all before them is there."""
    file = tmp_path / "appendonly.aof"
    good = packed(COMMANDS[:2])
    file.write_bytes(good + b"garbage\r\n" + packed(COMMANDS))
    with pytest.raises(EvidenceError) as caught:
        cat(file, tmp_path)
    assert caught.value.offset == len(good)
    with snapshot(file) as source, open_keyspace(source, ReadOptions(salvage=True)) as keyspace:
        assert keyspace.keys.column("key").to_pylist() == [b"a"]
        assert keyspace.facts.fault is not None
        assert keyspace.facts.fault["offset"] == len(good)


def test_a_file_that_is_not_the_last_may_not_be_cut(tmp_path: Path) -> None:
    """Only the file that was being written ends anywhere: in an earlier one a cut means that something is missing."""
    folder = in_folder(tmp_path, packed(COMMANDS)[:-3])
    (folder / "appendonly.aof.2.incr.aof").write_bytes(packed([text("SELECT", 0), text("SET", "later", "1")]))
    with (folder / "appendonly.aof.manifest").open("a") as manifest:
        manifest.write("file appendonly.aof.2.incr.aof seq 2 type i\n")
    with pytest.raises(EvidenceError, match="cut short"):
        cat(folder, tmp_path)
    (folder / "appendonly.aof.1.incr.aof").write_bytes(packed(COMMANDS))
    assert (0, b"later") in cat(folder, tmp_path)


def timed() -> bytes:
    out = b""
    for second in range(5):
        out += b"#TS:%d\r\n" % (1_700_000_000 + second) + packed([text("SELECT", 0), text("RPUSH", "l", second)])
    return out


def test_until_a_moment(tmp_path: Path) -> None:
    """Replayed up to each second: just what was written by then, and that second is the as-of time."""
    file = tmp_path / "appendonly.aof"
    file.write_bytes(timed())
    for second in range(5):
        options = ReadOptions(until_ms=(1_700_000_000 + second) * 1000 + 500)
        with snapshot(file) as source, open_keyspace(source, options) as keyspace:
            assert keyspace.keys.column("elements").to_pylist() == [second + 1]
            last = second == 4
            assert keyspace.as_of.ms == (1_700_000_000 + second) * 1000 + (0 if last else 500)
            assert keyspace.as_of.source == ("annotation" if last else "until")
    with snapshot(file) as source, open_keyspace(source) as keyspace:
        assert (keyspace.as_of.ms, keyspace.as_of.atomic) == (1_700_000_004_000, True)


def test_a_place_before_the_first_time(tmp_path: Path) -> None:
    """With a place and a moment what is reached first counts: before the first note nothing is known to be too late."""
    file = tmp_path / "appendonly.aof"
    first = packed([text("SELECT", 0), text("SET", "early", "1")])
    file.write_bytes(first + timed())
    options = ReadOptions(until_ms=1_700_000_003_000, until_offset=(None, len(first)))
    with snapshot(file) as source, open_keyspace(source, options) as keyspace:
        assert keyspace.keys.column("key").to_pylist() == [b"early"]
        assert keyspace.as_of.ms is None


def test_moves_fill_no_disk(tmp_path: Path) -> None:
    """Moves go to a temporary file, too, which ends at the size that is allowed: one sentence of the file says it."""
    file = tmp_path / "appendonly.aof"
    commands = [text("SELECT", 0), *(text("RPUSH", f"l{n}", os.urandom(8)) for n in range(70_000)), text("FLUSHALL")]
    file.write_bytes(packed([*commands, text("SET", "s", "1"), text("DEL", "s")]))
    options = ReadOptions(moves=True, spool=SpoolOptions(max_bytes=100_000))
    with pytest.raises(EvidenceError) as caught, snapshot(file) as source, open_keyspace(source, options):
        pass
    assert caught.value.file == str(file)
    assert re.fullmatch(r"unfolds to [0-9,]+ bytes or more, and --max-spool-bytes allows 100,000", caught.value.message)


def test_until_needs_times(tmp_path: Path) -> None:
    """A file that notes no times cannot be replayed up to one; a snapshot cannot at all."""
    file = tmp_path / "appendonly.aof"
    file.write_bytes(packed(COMMANDS))
    options = ReadOptions(until_ms=1_700_000_000_000)
    with pytest.raises(EvidenceError, match="notes no times"), snapshot(file) as s, open_keyspace(s, options):
        pass
    rdb = Path(__file__).parents[2] / "fixtures" / "bullmq" / "v5-healthy" / "evidence.rdb"
    with pytest.raises(UsageError, match="no append-only file"), snapshot(rdb) as s, open_keyspace(s, options):
        pass


def test_until_a_place(tmp_path: Path) -> None:
    """Commands that end behind the place are left out, and a transaction that does is, too; a file is named by name."""
    folder = in_folder(tmp_path, packed(COMMANDS[:2]))
    (folder / "appendonly.aof.2.incr.aof").write_bytes(packed(COMMANDS))
    with (folder / "appendonly.aof.manifest").open("a") as manifest:
        manifest.write("file appendonly.aof.2.incr.aof seq 2 type i\n")
    ends = [len(packed(COMMANDS[: n + 1])) for n in range(len(COMMANDS))]

    def keys(name: str | None, offset: int) -> set[bytes]:
        options = ReadOptions(until_offset=(name, offset))
        with snapshot(folder) as source, open_keyspace(source, options) as keyspace:
            return set(keyspace.keys.column("key").to_pylist())

    assert keys(None, ends[5]) == {b"a"}
    assert keys(None, ends[6] - 1) == {b"a"}
    assert keys(None, ends[6]) == {b"a", b"l", b"z"}
    assert keys("appendonly.aof.1.incr.aof", ends[0]) == set()
    assert keys("appendonly.aof.2.incr.aof", ends[7]) == {b"a", b"l", b"z", b"in-three"}
    with pytest.raises(UsageError, match="has no file"):
        keys("other.aof", 1)


def test_what_cannot_be_replayed_is_counted(tmp_path: Path) -> None:
    """Unknown commands, programs and refused commands: each name with its count and first place, nothing in silence."""
    file = tmp_path / "appendonly.aof"
    commands = [
        text("SET", "a", "1"),
        text("EVAL", "return 1", 0),
        text("PFADD", "a", "x"),
        text("PFADD", "a", "y"),
        text("\x1b[31mEVIL\n", "a"),
        text("LPUSH", "a", "x"),
        text("FUNCTION", "LOAD", "x"),
        text("EXPIRE", "a", 10),
    ]
    file.write_bytes(packed(commands))
    with snapshot(file) as source, open_keyspace(source) as keyspace:
        facts = keyspace.facts
    told = sorted((r.kind, r.count, r.offset, r.message) for r in facts.remarks)
    at = [len(packed(commands[:n])) for n in range(len(commands))]
    assert told == [
        (
            "command_without_effect",
            1,
            at[1],
            "the effect of EVAL is missing: it runs a program, which only a server can",
        ),
        ("command_without_effect", 1, at[5], "the effect of LPUSH is missing: the key holds another type"),
        ("expiry_unknown", 1, None, "times to live that count from an unknown moment were left out"),
        ("unknown_command", 1, at[4], "the effect of \\x1b[31MEVIL\\n is missing: it is not known"),
        ("unknown_command", 2, at[2], "the effect of PFADD is missing: it is not known"),
    ]
    assert (facts.counts["commands"], facts.counts["library_commands"]) == (8, 1)


# ---- the folder


@pytest.mark.parametrize(
    "line",
    [
        "file ../../etc/passwd seq 1 type i",
        "file /etc/passwd seq 1 type i",
        'file "..\\x2fpasswd" seq 1 type i',
        "file .. seq 1 type i",
        "file a.aof seq x type i",
        "file a.aof seq 1 type q",
        "file a.aof seq 1",
        'file "a.aof seq 1 type i',
        "x" * 2000,
    ],
)
def test_a_manifest_reaches_nothing_outside(tmp_path: Path, line: str) -> None:
    """Names with a path, escaped or not, and lines that are none of a manifest, are refused with the line's number."""
    folder = in_folder(tmp_path, packed(COMMANDS))
    (folder / "appendonly.aof.manifest").write_text(f"# a note\n{line}\n")
    with pytest.raises(EvidenceError, match="line 2 of its manifest"):
        cat(folder, tmp_path)


def test_links_and_missing_files_are_refused(tmp_path: Path) -> None:
    """A link may lead anywhere; a file that is not there was not copied."""
    folder = in_folder(tmp_path, packed(COMMANDS))
    file = folder / "appendonly.aof.1.incr.aof"
    file.rename(tmp_path / "elsewhere")
    with pytest.raises(EvidenceError, match="not there"):
        cat(folder, tmp_path)
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EvidenceError, match="not a regular file"):
        cat(folder, tmp_path)


def test_quoted_names_history_and_ways_to_say_the_folder(tmp_path: Path) -> None:
    """Quoted names are those that servers write; history has no effect; data folder and manifest mean the same."""
    folder = in_folder(tmp_path, b"")
    (folder / "a b.aof").write_bytes(packed(COMMANDS))
    lines = 'file "a b.aof" seq 2 type i startoffset 0\nfile old.aof seq 1 type h\n'
    (folder / "appendonly.aof.manifest").write_text(lines)
    for path in (folder, tmp_path, folder / "appendonly.aof.manifest"):
        with snapshot(path) as source, open_keyspace(source) as keyspace:
            assert keyspace.keys.num_rows == 4
            assert [r.kind for r in keyspace.facts.remarks] == ["aof_history"]
            assert [Path(p["name"]).name for p in keyspace.facts.parts] == ["appendonly.aof.manifest", "a b.aof"]
