"""Exports of other tools: what is in them comes out, and what they lose is told."""

from __future__ import annotations

import base64
import importlib.util
import io
import json
from pathlib import Path
from typing import Any

import pytest

from jobsleuth.errors import EvidenceError
from jobsleuth.pipeline import AnalyzeOptions, analyze
from jobsleuth.sources import ReadOptions, open_keyspace, snapshot, write_keyspace
from tests.sources.commands import packed, text

SERVERS = Path(__file__).parents[3] / "shared" / "corpus" / "servers"
FOR_RDBTOOLS = sorted(p for p in SERVERS.glob("redis-6.2.14/*.rdb") if p.stem in ("mixed", "hashes", "lists", "sets"))
needs_rdbtools = [
    pytest.mark.corpus,
    pytest.mark.skipif(
        importlib.util.find_spec("rdbtools") is None or not FOR_RDBTOOLS,
        reason="rdbtools or the shared corpus is absent: NO export that rdbtools made was read",
    ),
]
RIOT = [
    {"key": "s", "ttl": -1, "value": "text é", "type": "STRING"},
    {"key": "n", "ttl": -1, "value": 12, "type": "string"},
    {"key": "h", "ttl": 60_000, "value": {"f": "v", "g": ""}, "type": "HASH"},
    {"key": "l", "ttl": 1_900_000_000_123, "value": ["a", "b", "a"], "type": "LIST"},
    {"key": "t", "event": "scan", "timestamp": 1_700_000_000_005, "type": "set", "ttl": -1, "value": ["x", "y"]},
    {"key": "z", "timestamp": 1_700_000_000_001, "type": "zset", "value": [{"value": "m", "score": 1.5}]},
    {"key": "x", "ttl": -1, "value": [{"stream": "x", "id": "5-1", "body": {"a": "1"}}], "type": "STREAM"},
    {"key": "j", "ttl": -1, "value": '{"a":1}', "type": "ReJSON-RL"},
]
REDIS_DUMP = [
    {"db": 0, "key": "h", "ttl": -1, "type": "hash", "value": {"a": "1", "b": "2"}, "size": 4},
    {"db": 0, "key": "l", "ttl": -1, "type": "list", "value": ["v0", "v1", "v0"], "size": 6},
    {"db": 3, "key": "t", "ttl": -1, "type": "set", "value": ["v2", "v0"], "size": 4},
    {"db": 3, "key": "z", "ttl": -1, "type": "zset", "value": [["m", "100"], ["k", "1.5"]], "size": 8},
    {"db": 3, "key": "s", "ttl": 79, "type": "string", "value": "v", "size": 1},
    {"db": 3, "key": "gone", "ttl": -2, "type": "none", "value": "", "size": 0},
]


def unpack(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else base64.b64decode(value["b64"])


def lines_of(evidence: Path, folder: Path, **options: Any) -> dict[tuple[int, bytes], dict[str, Any]]:
    out = folder / "back.ndjson"
    out.unlink(missing_ok=True)
    write_keyspace(evidence, out, **options)
    lines = map(json.loads, out.read_text("utf-8").splitlines()[1:-1])
    return {(line["db"], unpack(line["key"])): line for line in lines}


def facts_of(evidence: Path) -> tuple[Any, dict[str, int | None], Any]:
    with snapshot(evidence) as source, open_keyspace(source, ReadOptions()) as keyspace:
        return keyspace.facts, {r.kind: r.count for r in keyspace.facts.remarks}, keyspace.as_of


# ---- records: RIOT, redis-dump


@pytest.mark.parametrize("form", ["array", "lines", "pretty"])
def test_riot(tmp_path: Path, form: str) -> None:
    """Members in either order of its versions, as an array or as lines; times that count from nowhere are told."""
    export = tmp_path / "riot.json"
    if form == "lines":
        export.write_text("".join(json.dumps(record) + "\n" for record in RIOT))
    else:
        export.write_text(json.dumps(RIOT, indent=2 if form == "pretty" else None))
    got = {key.decode(): (line["type"], line.get("value")) for (_, key), line in lines_of(export, tmp_path).items()}
    assert got == {
        "s": ("string", "text é"),
        "n": ("string", "12"),
        "h": ("hash", [["f", "v"], ["g", ""]]),
        "l": ("list", ["a", "b", "a"]),
        "t": ("set", ["x", "y"]),
        "z": ("zset", [["m", "1.5"]]),
        "x": ("stream", got["x"][1]),
        "j": ("module", {"module": "ReJSON-RL"}),
    }
    assert got["x"][1]["entries"] == [["5-1", [["a", "1"]]]]
    assert lines_of(export, tmp_path)[0, b"l"]["expire_at_ms"] == 1_900_000_000_123
    facts, told, as_of = facts_of(export)
    assert facts.format == "riot"
    assert told == {"loss_expiry": 1, "loss_value": 1, "loss_binary": None, "loss_database": None}
    assert (as_of.from_ms, as_of.ms, as_of.atomic) == (1_700_000_000_001, 1_700_000_000_005, False)


@pytest.mark.parametrize("odd", ["PT60S", 60.5, {"seconds": 60}, True])
def test_times_in_other_forms(odd: Any, tmp_path: Path) -> None:
    """A release may write times in a form of its own: the key stays, the expiry is told as lost, the moment unknown."""
    export = tmp_path / "riot.json"
    export.write_text(json.dumps([{"key": "k", "ttl": odd, "timestamp": odd, "type": "string", "value": "v"}]))
    line = lines_of(export, tmp_path)[0, b"k"]
    assert (line["value"], line["expire_at_ms"]) == ("v", None)
    _, told, as_of = facts_of(export)
    assert told["loss_expiry"] == 1
    assert as_of.ms is None


def test_redis_dump(tmp_path: Path) -> None:
    """Databases are kept; a time to live counts from a moment that nobody noted, so it is left out and told."""
    export = tmp_path / "dump.json"
    export.write_text("".join(json.dumps(record) + "\n" for record in REDIS_DUMP))
    got = {key: line.get("value") for key, line in lines_of(export, tmp_path).items()}
    assert got == {
        (0, b"h"): [["a", "1"], ["b", "2"]],
        (0, b"l"): ["v0", "v1", "v0"],
        (3, b"t"): ["v2", "v0"],
        (3, b"z"): [["m", "100"], ["k", "1.5"]],
        (3, b"s"): "v",
    }
    facts, told, as_of = facts_of(export)
    assert (facts.format, as_of.ms, as_of.atomic) == ("redis-dump", None, False)
    assert told == {"loss_expiry": 1, "keys_vanished": 1, "loss_binary": None}


NPM_JSON = (
    b'{"bin":{"type":"string","value":"\xef\xbf\xbd\\u0000"},"h":{"type":"hash","value":{"f":"v","g":""},"ttl":3000},'
    b'"l":{"type":"list","value":["b","a","b"]},"s":{"type":"string","value":"it\'s \\"\xc3\xa9\\""},'
    b'"t":{"type":"set","value":["x","y"]},"z":{"type":"zset","value":[[2,"half"],[1796043449,"m"],[null,"last"]]}}'
)
NPM_LINES = (
    b"SET     bin '\xef\xbf\xbd\x00'\nDEL     h\nHMSET   h f v g ''\nEXPIRE  h 2999\nDEL     l\nRPUSH   l b a b\n"
    b"SET     s 'it\\'s \"\xc3\xa9\"'\nDEL     t\nSADD    t y x\nDEL     z\n"
    b"ZADD    z '2.5' half 1796043449 m inf last\n"
)
"""What redis-dump 0.1.10 of npm printed of a server with these keys, `bin` being the bytes ff 00."""


@pytest.mark.parametrize(
    ("content", "format", "scores", "losses"),
    [
        (NPM_JSON, "redis-dump-npm", ["0", "2", "1796043449"], {"loss_scores", "loss_database"}),
        (NPM_LINES, "resp", ["2.5", "1796043449", "inf"], {"loss_types"}),
    ],
    ids=["json", "commands"],
)
def test_redis_dump_of_npm(content: bytes, format: str, scores: list[str], losses: set[str], tmp_path: Path) -> None:
    """Another tool of that name, in both its forms: values as they were put in, but for what the form cannot hold."""
    export = tmp_path / "dump"
    export.write_bytes(content)
    lines = lines_of(export, tmp_path)
    got = {key.decode(): (line["type"], ordered(line)) for (_, key), line in lines.items()}
    assert sorted(float(score) for _, score in lines[0, b"z"]["value"]) == sorted(map(float, scores))
    assert {key: value for key, value in got.items() if key != "z"} == {
        "bin": ("string", b"\xef\xbf\xbd\x00"),
        "h": ("hash", [(b"f", b"v"), (b"g", b"")]),
        "l": ("list", [b"b", b"a", b"b"]),
        "s": ("string", 'it\'s "\u00e9"'.encode()),
        "t": ("set", [b"x", b"y"]),
    }
    facts, told, as_of = facts_of(export)
    assert (facts.format, as_of.ms, as_of.atomic) == (format, None, False)
    expiry = "loss_expiry" if format == "redis-dump-npm" else "expiry_unknown"
    assert set(told) == {expiry, "loss_binary", *losses}
    assert told[expiry] == 1


def test_what_the_export_lost_makes_nothing_certain(tmp_path: Path) -> None:
    """Locks with a time to live, in an export that lost it: that they never expire is the export's doing, maybe."""
    locks = {"bull:e:1:lock": "token", "asynq:{q}:unique:t:0cc175b9c0f1b6a831c399e269772661": "task"}
    records = [{"db": 0, "key": key, "ttl": 30, "type": "string", "value": value} for key, value in locks.items()]
    records += [
        {"db": 0, "key": "asynq:queues", "ttl": -1, "type": "set", "value": ["q"]},
        {"db": 0, "key": "bull:e:meta", "ttl": -1, "type": "hash", "value": {"version": "bullmq:5.1.0"}},
        {"db": 0, "key": "bull:e:active", "ttl": -1, "type": "list", "value": ["1"]},
    ]
    export = tmp_path / "dump.json"
    export.write_text("".join(json.dumps({**record, "size": 1}) + "\n" for record in records))
    found = analyze([export], tmp_path / "case", AnalyzeOptions()).arrow("findings").to_pylist()
    told = {row["check_id"]: row["certainty"] for row in found}
    assert told["LV005"] == told["UQ001"] == "possible"
    assert {row["check_id"][:2] for row in found if row["certainty"] == "certain"} == {"EV"}


def test_losses_are_in_the_manifest(tmp_path: Path) -> None:
    """An analyst who opens the case learns what the export could not hold."""
    export = tmp_path / "dump.json"
    export.write_text("".join(json.dumps(record) + "\n" for record in REDIS_DUMP))
    info = analyze([export], tmp_path / "case", AnalyzeOptions()).manifest.evidence[0]
    assert {w.kind for w in info.warnings} == {"loss_expiry", "keys_vanished", "loss_binary"}
    assert (info.format, info.atomic) == ("redis-dump", False)


def test_cut_and_broken_records(tmp_path: Path) -> None:
    """What stands before a cut is used and the cut is told; damage is an error, and with salvage what is before it."""
    whole = json.dumps(RIOT)
    export = tmp_path / "riot.json"
    export.write_text(whole[: whole.index('"timestamp"')])
    facts, _, _ = facts_of(export)
    assert facts.counts["keys"] == 4
    assert facts.fault["kind"] == "cut_short"
    export.write_text(whole.replace('"type": "LIST"', '"type": LIST'))
    with pytest.raises(EvidenceError) as caught:
        facts_of(export)
    assert caught.value.offset is not None
    assert "--salvage" in (caught.value.hint or "")
    with snapshot(export) as source, open_keyspace(source, ReadOptions(salvage=True)) as keyspace:
        assert keyspace.keys.column("key").to_pylist() == [b"s", b"n", b"h"]


# ---- rdbtools


def made_by_rdbtools(rdb: Path, callback: str, out: Path) -> Path:
    from rdbtools import RdbParser, callbacks

    stream = io.BytesIO()
    RdbParser(getattr(callbacks, callback)(stream, string_escape=None)).parse(str(rdb))
    out.write_bytes(stream.getvalue())
    return out


@pytest.mark.parametrize("rdb", FOR_RDBTOOLS, ids=lambda p: p.stem)
class TestRdbtools:
    pytestmark = needs_rdbtools

    def test_protocol(self, rdb: Path, tmp_path: Path) -> None:
        """Commands that rdbtools made of a real dump: the same keys and values, but for streams and modules."""
        export = made_by_rdbtools(rdb, "ProtocolCallback", tmp_path / "protocol.resp")
        expected = {k: v for k, v in lines_of(rdb, tmp_path).items() if v["type"] not in ("stream", "module")}
        got = lines_of(export, tmp_path)
        assert sorted(got) == sorted(expected)
        for key, line in expected.items():
            assert got[key]["type"] == line["type"]
            assert ordered(got[key]) == ordered(line), key
            if line["expire_at_ms"] is not None:
                assert got[key]["expire_at_ms"] == line["expire_at_ms"] // 1000 * 1000
        facts, told, as_of = facts_of(export)
        assert (facts.format, as_of.atomic) == ("resp", False)
        assert "loss_types" in told

    def test_json(self, rdb: Path, tmp_path: Path) -> None:
        """Its JSON: all keys with their values; lists and sets cannot be told apart, scores only by their looks."""
        export = made_by_rdbtools(rdb, "JSONCallback", tmp_path / "rdbtools.json")
        direct = lines_of(rdb, tmp_path)
        databases = sorted({db for db, _ in direct})
        got = lines_of(export, tmp_path)
        assert len(got) == len(direct)
        alike = {"set": "list", "stream": "module"}
        guessed = False
        for (db, key), line in direct.items():
            ours = got[databases.index(db), key]
            assert ours["expire_at_ms"] is None
            if line["type"] == "hash" and ours["type"] == "zset":
                # Fields and values that look just like members and scores.
                guessed = True
                continue
            assert ours["type"] == alike.get(line["type"], line["type"])
            if line["type"] in ("string", "list", "set", "hash", "zset"):
                assert ordered({**ours, "type": line["type"]}) == ordered(line), key
        facts, told, as_of = facts_of(export)
        assert (facts.format, as_of.ms, as_of.atomic) == ("rdbtools-json", None, False)
        assert "loss_expiry" in told
        kinds = {line["type"] for line in direct.values()}
        assert ("loss_types" in told) is bool(kinds & {"list", "set"})
        assert ("loss_types_guessed" in told) is (guessed or "zset" in kinds)


@pytest.mark.skipif(
    importlib.util.find_spec("rdbtools") is None, reason="rdbtools is absent: NOTHING it wrote was read"
)
def test_small_sorted_sets_of_rdbtools(tmp_path: Path) -> None:
    """Of a sorted set that a server keeps small, rdbtools prints whole scores like numbers of a hash. What is as large
    as a moment is a score, which keeps the jobs that wait for one; that it was guessed is told."""
    from rdbtools import callbacks

    stream = io.BytesIO()
    made = callbacks.JSONCallback(stream, string_escape=None)
    made.start_rdb()
    made.start_database(0)
    for key, scores in ((b"due", [1796043449, 1796043449000]), (b"mixed", [1, 2.5]), (b"small", [1, 10000])):
        made.start_sorted_set(key, len(scores), None, {})
        for nth, score in enumerate(scores):
            made.zadd(key, score, b"m%d" % nth)
        made.end_sorted_set(key)
    made.end_database(0)
    made.end_rdb()
    export = tmp_path / "rdbtools.json"
    export.write_bytes(stream.getvalue())
    got = {key: (line["type"], ordered(line)) for (_, key), line in lines_of(export, tmp_path).items()}
    assert got == {
        b"due": ("zset", [(b"m0", 1796043449.0), (b"m1", 1796043449000.0)]),
        b"mixed": ("zset", [(b"m0", 1.0), (b"m1", 2.5)]),
        b"small": ("hash", [(b"m0", b"1"), (b"m1", b"10000")]),
    }
    assert facts_of(export)[1]["loss_types_guessed"] == 3


def ordered(line: dict[str, Any]) -> Any:
    """The value, in an order of its own where order means nothing."""
    value = line["value"]
    match line["type"]:
        case "list":
            return [unpack(item) for item in value]
        case "set":
            return sorted(unpack(item) for item in value)
        case "hash":
            return sorted((unpack(f[0]), unpack(f[1])) for f in value)
        case "zset":
            return sorted((unpack(m), float(s)) for m, s in value)
    return unpack(value)


# ---- commands


LOADED = [
    text("SELECT", 0),
    text("SET", "s", b"\xff\r\n\x00"),
    text("RPUSH", "l", "a", "b"),
    text("SADD", "t", "x"),
    text("ZADD", "z", "1.5", "m"),
    text("HSET", "h", "f", "v"),
    text("EXPIREAT", "h", 1_900_000_000),
]


def test_commands_of_redis_dump_go(tmp_path: Path) -> None:
    """RESP as redis-dump-go writes it: exact bytes, whole seconds, no instant; those losses are told."""
    export = tmp_path / "dump.resp"
    export.write_bytes(packed(LOADED))
    got = lines_of(export, tmp_path)
    assert unpack(got[0, b"s"]["value"]) == b"\xff\r\n\x00"
    assert got[0, b"h"]["expire_at_ms"] == 1_900_000_000_000
    facts, told, as_of = facts_of(export)
    assert (facts.format, as_of.atomic) == ("resp", False)
    assert told == {"loss_types": None, "loss_expiry": 1}


def test_a_servers_own_file_is_no_export(tmp_path: Path) -> None:
    """One removal, one expiry in ms, one transaction: only a server writes those."""
    for more in ([text("DEL", "s")], [text("MULTI"), text("SET", "b", 1), text("EXEC")], [text("LREM", "l", 1, "a")]):
        file = tmp_path / "appendonly.aof"
        file.write_bytes(packed([*LOADED[:-1], *more]))
        facts, told, as_of = facts_of(file)
        assert (facts.format, told, as_of.atomic) == ("aof", {}, True)


def test_lines_of_plain_words(tmp_path: Path) -> None:
    """What people feed to `redis-cli --pipe`: words, quoted ones with escapes; that bytes may differ is told."""
    export = tmp_path / "commands.txt"
    export.write_bytes(b'SELECT 3\nset greeting "hello \\x41\\"world"\n\nRPUSH l a \'b c\'\r\n')
    got = lines_of(export, tmp_path)
    assert got[3, b"greeting"]["value"] == 'hello A"world'
    assert got[3, b"l"]["value"] == ["a", "b c"]
    facts, told, _ = facts_of(export)
    assert (facts.format, set(told)) == ("resp", {"loss_types", "loss_binary"})


@pytest.mark.parametrize("content", [b"[]", b"[{}]", b"[{\r\n}]"])
def test_an_export_without_keys(tmp_path: Path, content: bytes) -> None:
    """Nothing is nothing, and no error."""
    export = tmp_path / "empty.json"
    export.write_bytes(content)
    facts, _, _ = facts_of(export)
    assert facts.counts["keys"] == 0


@pytest.mark.parametrize("content", [b'{"a": 1}', b"[1, 2]", b'{"key": "a"}', b"hello world\n"])
def test_other_json_is_refused(tmp_path: Path, content: bytes) -> None:
    """JSON of any other kind is not half understood."""
    export = tmp_path / "other.json"
    export.write_bytes(content)
    with pytest.raises(EvidenceError):
        facts_of(export)
