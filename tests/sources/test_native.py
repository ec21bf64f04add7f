"""The native core against a real server: what it reads from a saved file is what the server answered before saving."""

from __future__ import annotations

import ast
import inspect
import json
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import redis

from jobsleuth.keyspace import MessageField, Projected, projection_json
from jobsleuth.sources import _native

MAX = 2 << 30
FAR = 4_102_444_800_000
"""A time in 2100, Unix ms."""

pytestmark = pytest.mark.integration


class Server:
    """A redis-server of our own on loopback that saves only when told."""

    def __init__(self, folder: Path, *options: str) -> None:
        binary = shutil.which("redis-server")
        if binary is None:
            pytest.skip("redis-server is not installed: nothing can be compared with its replies")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.folder = folder
        command = [binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self.port = port
        for _ in range(200):
            try:
                self.client().ping()
                return
            except redis.ConnectionError:
                time.sleep(0.05)
        self.stop()
        raise RuntimeError("redis-server did not start")

    def client(self, db: int = 0) -> redis.Redis:
        return redis.Redis(port=self.port, db=db)

    def save(self, name: str) -> Path:
        self.client().save()
        return (self.folder / "dump.rdb").rename(self.folder / name)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="jobsleuth-native-") as folder:
        started = Server(Path(folder), "--rdbchecksum", "yes", "--proto-max-bulk-len", "1gb")
        yield started
        started.stop()


@dataclass
class Dump:
    """A saved file and what the server answered, per (database, key)."""

    path: Path
    types: dict[tuple[int, bytes], str] = field(default_factory=dict)
    encodings: dict[tuple[int, bytes], str] = field(default_factory=dict)
    expiries: dict[tuple[int, bytes], int | None] = field(default_factory=dict)
    values: dict[tuple[int, bytes], Any] = field(default_factory=dict)


def fill(client: redis.Redis, rng: random.Random) -> None:
    blob = bytes(range(256))
    client.set("s:text", "grüße")
    client.set("s:int", 42)
    client.set("s:negative", -(2**31))
    client.set("s:long", 2**40)
    client.set("s:zip", "x" * 5000)
    client.set("s:noise", rng.randbytes(5000))
    client.set("s:empty", "")
    client.set(blob, blob, pxat=FAR)
    client.set("123456", "a key stored as a number")
    client.rpush("l:small", *[b"a", b"7", b"-70000", blob, b"", b"9223372036854775807"])
    client.rpush("l:long", *[f"item {i}" * (i % 9) for i in range(3000)])
    client.sadd("set:int", *range(-5, 400, 7))
    client.sadd("set:mixed", "a", "b", 5, blob)
    client.sadd("set:big", *[f"m{i}" for i in range(2000)])
    client.zadd("z:small", {"b": 1, "a": 1, "c": -1.5, blob: float("inf"), "low": float("-inf"), "pi": 3.14159})
    client.zadd("z:big", {f"m{i}": (i * 7919 % 1000) / 8 for i in range(3000)})
    client.hset("h:small", mapping={"a": "1", "b": "x" * 60, "": "empty name", blob: "binary name"})
    client.hset("h:big", mapping={f"f{i}": f"value {i}" for i in range(2000)})
    client.hset("h:long", mapping={"data": '{"a": ' + "[1]" * 1 + "}" + " " * 3000, "text": "y" * 3000})
    client.pexpireat("h:small", FAR + 1)
    for i in range(250):
        client.xadd(
            "stream",
            {"event": "waiting", "n": i, **({"only": "sometimes"} if i % 3 else {})},
            id=f"{i + 1}-{i % 5 + 1}",
        )
    client.xdel("stream", "7-2", "100-5")
    client.xgroup_create("stream", "g", id="0")
    client.xreadgroup("g", "c", {"stream": ">"}, count=3)


def answers(dump: Dump, client: redis.Redis, db: int) -> None:
    read: dict[str, Callable[[bytes], Any]] = {
        "string": client.get,
        "list": lambda key: client.lrange(key, 0, -1),
        "set": client.smembers,
        "zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        "hash": client.hgetall,
        "stream": lambda key: client.xrange(key),
    }
    for key in client.scan_iter(count=1000):
        kind = client.type(key).decode()
        at = client.execute_command("PEXPIRETIME", key)
        dump.types[db, key] = kind
        dump.encodings[db, key] = client.object("encoding", key).decode()
        dump.expiries[db, key] = None if at < 0 else at
        dump.values[db, key] = read[kind](key)


@pytest.fixture(scope="module")
def dump(server: Server) -> Dump:
    rng = random.Random(1)
    server.client().flushall()
    for db in (0, 3):
        fill(server.client(db), rng)
    dump = Dump(server.save("all.rdb"))
    for db in (0, 3):
        answers(dump, server.client(db), db)
    return dump


def open_index(path: Path, *, salvage: bool = False) -> _native.Index:
    return _native.index(str(path), salvage, MAX, None)


def numbers(values: Sequence[int] | np.ndarray[Any, Any]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(np.asarray(values, dtype=np.int64))])


def keys_of(index: _native.Index) -> list[tuple[int, bytes]]:
    table = pa.table(index.keys())
    return list(zip(table["db"].to_pylist(), table["key"].to_pylist(), strict=True))


def read(stream: _native.ArrowStream) -> pa.Table:
    table = pa.RecordBatchReader.from_stream(stream).read_all()
    table.validate(full=True)
    return table


def grouped(table: pa.Table) -> dict[int, list[dict[str, Any]]]:
    rows: dict[int, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        rows.setdefault(row["row"], []).append(row)
    return rows


def test_keys_are_the_servers_keys(dump: Dump) -> None:
    """Every key is there once, with the server's type, expiry and, where the name says it, encoding."""
    index = open_index(dump.path)
    table = pa.table(index.keys())
    table.validate(full=True)
    keys = keys_of(index)
    assert len(keys) == len(set(keys))
    assert set(keys) == set(dump.types)
    assert dict(zip(keys, table["type"].to_pylist(), strict=True)) == dump.types
    assert dict(zip(keys, table["expire_at"].to_pylist(), strict=True)) == dump.expiries
    told = dict(zip(keys, table["encoding"].to_pylist(), strict=True))
    for at, encoding in dump.encodings.items():
        # On disk every string is one of three, and a list of any size is a quicklist.
        if dump.types[at] not in ("string", "list"):
            assert told[at] == encoding, at
    assert (told[0, b"s:int"], told[0, b"s:zip"], told[0, b"s:noise"]) == ("int", "lzf", "raw")


def test_places_cover_the_file(dump: Dump) -> None:
    """Entries follow each other: the bytes of an entry are its own, from its first modifier on."""
    table = pa.table(open_index(dump.path).keys())
    offset, nbytes = table["offset"].to_numpy(), table["nbytes"].to_numpy()
    ends = offset + nbytes
    assert (ends[:-1] <= offset[1:]).all()
    same_db = table["db"].to_numpy()[1:] == table["db"].to_numpy()[:-1]
    assert (ends[:-1][same_db] == offset[1:][same_db]).all()


def test_element_counts(dump: Dump) -> None:
    """`elements` is what LLEN, SCARD, ZCARD, HLEN and XLEN say; strings have none."""
    index = open_index(dump.path)
    for at, n in zip(keys_of(index), pa.table(index.keys())["elements"].to_pylist(), strict=True):
        if dump.types[at] == "string":
            assert n is None
        elif n is not None:
            assert n == len(dump.values[at]), at


def test_elements_are_the_servers_elements(dump: Dump) -> None:
    """Lists in order, sets, sorted sets by rank with their scores, hashes: as LRANGE, SMEMBERS, ZRANGE, HGETALL say."""
    index = open_index(dump.path)
    keys = keys_of(index)
    found = grouped(read(index.elements(numbers(range(len(keys))), 2, 1 << 20)))
    for row, at in enumerate(keys):
        rows, value = found.get(row, []), dump.values[at]
        members = [r["member"] for r in rows]
        assert [r["position"] for r in rows] == list(range(len(rows)))
        match dump.types[at]:
            case "list":
                assert members == value
            case "set":
                assert set(members) == value and len(members) == len(value)
            case "zset":
                assert [(r["member"], r["score"]) for r in rows] == value
            case "hash":
                assert {r["member"]: r["value"] for r in rows} == value and len(rows) == len(value)
            case _:
                assert rows == []


def test_strings_are_the_servers_strings(dump: Dump) -> None:
    """Strings come whole or cut, always with their size; keys of other types give nothing."""
    index = open_index(dump.path)
    keys = keys_of(index)
    expected = {row: dump.values[at] for row, at in enumerate(keys) if dump.types[at] == "string"}
    everything = numbers(range(len(keys)))
    whole = read(index.strings(everything, None, 2, 1 << 20)).to_pylist()
    assert {r["row"]: r["value"] for r in whole} == expected
    assert {r["row"]: r["size"] for r in whole} == {row: len(value) for row, value in expected.items()}
    cut = read(index.strings(everything, 3, 2, 1 << 20)).to_pylist()
    assert {r["row"]: (r["value"], r["size"]) for r in cut} == {r: (v[:3], len(v)) for r, v in expected.items()}


def test_stream_entries_are_the_servers_entries(dump: Dump) -> None:
    """Entries in order, deleted ones left out, fields in columns or in `rest`: together what XRANGE says."""
    index = open_index(dump.path)
    keys = keys_of(index)
    fields = (Projected("event", "event", "text"), Projected("n", "n", "int"))
    entries = grouped(read(index.stream_entries(numbers(range(len(keys))), projection_json(fields), 2, 1 << 20)))
    streams = {row: at for row, at in enumerate(keys) if dump.types[at] == "stream"}
    assert set(entries) == set(streams)
    for row, at in streams.items():
        told = [
            (
                f"{e['ms']}-{e['seq']}".encode(),
                {b"event": e["event"].encode(), b"n": b"%d" % e["n"]}
                | {name.encode(): value for name, value in e["rest"]},
            )
            for e in entries[row]
        ]
        assert told == dump.values[at]


def test_hashes_lose_nothing(dump: Dump) -> None:
    """Without any column everything is in `rest`; a key of another type is a row of nulls."""
    index = open_index(dump.path)
    keys = keys_of(index)
    table = read(index.records(numbers(range(len(keys))), "[]", 2, 1 << 20))
    assert table["row"].to_pylist() == list(range(len(keys)))
    for at, rest in zip(keys, table["rest"].to_pylist(), strict=True):
        if dump.types[at] != "hash":
            assert rest is None
            continue
        names = dict(rest)
        assert len(names) == len(rest)
        text = {_native_text(name): value for name, value in dump.values[at].items()}
        assert names == text


def _native_text(name: bytes) -> str:
    return pa.table(_native.to_text(pa.chunked_array([pa.array([name])])))["text"][0].as_py()


def test_batches_do_not_depend_on_threads(dump: Dump) -> None:
    """One thread or many, the same rows arrive in the same batches."""
    index = open_index(dump.path)
    rows = numbers(range(len(keys_of(index))))
    for batches in (
        lambda threads: index.records(rows, "[]", threads, 1 << 16),
        lambda threads: index.elements(rows, threads, 1 << 16),
    ):
        one, two, many = ([*pa.RecordBatchReader.from_stream(batches(n))] for n in (1, 2, 16))
        assert [b.num_rows for b in one] == [b.num_rows for b in two] == [b.num_rows for b in many]
        assert pa.Table.from_batches(one) == pa.Table.from_batches(two) == pa.Table.from_batches(many)
        assert len(one) > 1


def test_order_over_many_tasks(server: Server) -> None:
    """Far more values than one task holds arrive in file order, whoever decoded them, also when only some are asked."""
    client = server.client()
    client.flushall()
    pipe = client.pipeline(transaction=False)
    rng = random.Random(2)
    for i in range(30_000):
        pipe.hset(f"bull:q:{i}", mapping={"name": f"job {i}", "data": rng.randbytes(600), "n": i})
    pipe.execute()
    index = open_index(server.save("many.rdb"))
    keys = keys_of(index)
    fields = (Projected("n", "n", "int"), Projected("data", "data", "bytes", limit=0, size=True))
    for rows in (range(len(keys)), range(5, len(keys), 97), [3, 29_999]):
        table = read(index.records(numbers(rows), projection_json(fields), 4, 1 << 18))
        assert table["row"].to_pylist() == list(rows)
        assert table["n"].to_pylist() == [int(keys[row][1].rsplit(b":", 1)[1]) for row in rows]
        assert set(table["data_size"].to_pylist()) == {600} and set(table["data"].to_pylist()) == {b""}


def test_a_reader_that_leaves_early(server: Server, dump: Dump) -> None:
    """Dropping a stream half-way, or never reading it, hangs nothing; a stream can be read once."""
    index = open_index(dump.path)
    rows = numbers(range(len(keys_of(index))))
    for _ in range(20):
        reader = pa.RecordBatchReader.from_stream(index.elements(rows, 4, 1 << 16))
        reader.read_next_batch()
        del reader
        index.elements(rows, 4, 1 << 16)
    stream = index.elements(rows, 1, 1 << 20)
    read(stream)
    with pytest.raises(RuntimeError, match="read already"):
        pa.RecordBatchReader.from_stream(stream)


def test_large_values_stream(server: Server) -> None:
    """A list of 30 MB comes in batches near the size asked for, complete and in order; so does a zset by rank."""
    client = server.client()
    client.flushall()
    pipe = client.pipeline(transaction=False)
    rng = random.Random(3)
    body = rng.randbytes(20_000)
    for i in range(1_500):
        pipe.rpush("l", b"%d:" % i + body)
    for start in range(0, 250_000, 10_000):
        pipe.zadd("z", {f"member {i} {'.' * 20}": i % 1000 for i in range(start, start + 10_000)})
    pipe.execute()
    index = open_index(server.save("large.rdb"))
    keys = keys_of(index)
    limit = 1 << 20
    at = numbers([keys.index((0, b"l"))])
    n = 0
    for batch in pa.RecordBatchReader.from_stream(index.elements(at, 2, limit)):
        assert batch.nbytes < 2 * limit
        for member in batch["member"].to_pylist():
            assert member == b"%d:" % n + body
            n += 1
    assert n == 1_500
    table = read(index.elements(numbers([keys.index((0, b"z"))]), 2, limit))
    expected = client.zrange("z", 0, -1, withscores=True)
    assert list(zip(table["member"].to_pylist(), table["score"].to_pylist(), strict=True)) == expected
    assert table["position"].to_pylist() == list(range(250_000))


def hash_dump(server: Server, name: str, **hashes: dict[Any, Any]) -> _native.Index:
    client = server.client()
    client.flushall()
    for key, mapping in hashes.items():
        client.hset(key, mapping=mapping)
    return open_index(server.save(name))


def project(index: _native.Index, *fields: Projected) -> dict[str, dict[str, Any]]:
    keys = keys_of(index)
    table = read(index.records(numbers(range(len(keys))), projection_json(fields), 2, 1 << 20))
    return {keys[row["row"]][1].decode(): row for row in table.to_pylist()}


def test_scalar_columns(server: Server) -> None:
    """Fields that fit are in their column alone; what does not fit, or not exactly, is whole in `rest`."""
    index = hash_dump(
        server,
        "scalars.rdb",
        good={"t": "é", "i": "-5", "ms": "1700000000123", "b": b"\xff\x00", "more": "1"},
        odd={"t": b"a\xffb\xe2\x82", "i": "007", "ms": "1700000000123.9", "b": ""},
        bad={"i": "5.5", "ms": "99999999999999999"},
        none={"x": "y"},
    )
    rows = project(
        index,
        Projected("t", "t", "text"),
        Projected("i", "i", "int"),
        Projected("ms", "ms", "ms"),
        Projected("b", "b", "bytes", limit=1, size=True, format=True),
        Projected("has_t", "t", "present"),
    )
    good, odd, bad, none = (rows[name] for name in ("good", "odd", "bad", "none"))
    assert (good["t"], good["i"], good["b"], good["b_size"], good["b_format"]) == ("é", -5, b"\xff", 2, "opaque")
    assert int(good["ms"].timestamp() * 1000) == 1_700_000_000_123
    assert good["has_t"] is True and good["rest"] == [("more", b"1")]
    assert (odd["t"], odd["i"], odd["b"], odd["b_size"], odd["b_format"]) == ("a\\xffb\\xe2\\x82", 7, b"", 0, "empty")
    assert int(odd["ms"].timestamp() * 1000) == 1_700_000_000_123
    assert dict(odd["rest"]) == {"t": b"a\xffb\xe2\x82", "i": b"007", "ms": b"1700000000123.9"}
    assert (bad["i"], bad["ms"], bad["t"], bad["has_t"]) == (None, None, None, False)
    assert dict(bad["rest"]) == {"i": b"5.5", "ms": b"99999999999999999"}
    assert [none[c] for c in ("t", "i", "ms", "b", "b_size", "b_format")] == [None] * 6
    assert none["has_t"] is False and none["rest"] == [("x", b"y")]


def test_json_columns(server: Server) -> None:
    """Members of a JSON object are taken out of it; the field stays in `rest` unless another column has it whole."""
    options = json.dumps({"attempts": 3, "jobId": "a\n", "repeat": {"every": 5}, "nothing": None, "x": [1, 2]})
    index = hash_dump(server, "json.rdb", a={"opts": options}, b={"opts": "{broken"}, c={"opts": '{"attempts":"3"}'})
    members = (
        Projected("attempts", "opts", "json_int", path="attempts"),
        Projected("id", "opts", "json_text", path="jobId"),
        Projected("repeat", "opts", "json_text", path="repeat"),
        Projected("nothing", "opts", "json_text", path="nothing"),
        Projected("missing", "opts", "json_text", path="missing"),
    )
    rows = project(index, *members)
    a = rows["a"]
    assert [a[c] for c in ("attempts", "id", "nothing", "missing")] == [3, "a\n", "null", None]
    assert json.loads(a["repeat"]) == {"every": 5}
    assert a["rest"] == [("opts", options.encode())]
    assert [rows["b"][c] for c in ("attempts", "id")] == [None, None] and rows["b"]["rest"] == [("opts", b"{broken")]
    assert rows["c"]["attempts"] is None
    whole = project(index, *members, Projected("opts", "opts", "bytes", format=True))
    assert whole["a"]["opts"] == options.encode() and whole["a"]["rest"] == []
    assert [whole[k]["opts_format"] for k in ("a", "b", "c")] == ["json", "opaque", "json"]


def message_class() -> Any:
    """The message of the tests as the protobuf package knows it."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="native_test.proto", package="native_test", syntax="proto3")
    message = file.message_type.add(name="M")
    kinds = descriptor_pb2.FieldDescriptorProto
    for number, name, kind in (
        (1, "type", kinds.TYPE_STRING),
        (2, "payload", kinds.TYPE_BYTES),
        (5, "retry", kinds.TYPE_INT32),
        (8, "timeout", kinds.TYPE_INT64),
    ):
        message.field.add(name=name, number=number, type=kind, label=kinds.LABEL_OPTIONAL)
    entry = message.nested_type.add(name="HeadersEntry")
    entry.options.map_entry = True
    for number, name in ((1, "key"), (2, "value")):
        entry.field.add(name=name, number=number, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    message.field.add(
        name="headers",
        number=15,
        type=kinds.TYPE_MESSAGE,
        label=kinds.LABEL_REPEATED,
        type_name=".native_test.M.HeadersEntry",
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("native_test.M"))


MESSAGE = Projected(
    "msg",
    "msg",
    "message",
    message=(
        MessageField(1, "type", "string"),
        MessageField(2, "payload", "bytes", limit=4, size=True, format=True),
        MessageField(5, "retry", "int32"),
        MessageField(8, "timeout", "int64"),
        MessageField(15, "headers", "string_map"),
    ),
)


def test_messages_as_protobuf_reads_them(server: Server) -> None:
    """What the protobuf package wrote is read back: extremes, absent fields (zero), maps, payloads cut but sized."""
    cls = message_class()
    messages = {
        "full": cls(type="ü", payload=b"[1,2]", retry=-1, timeout=-(2**63), headers={"a": "1", "": ""}),
        "large": cls(type="x" * 300, payload=bytes(range(256)) * 9, retry=2**31 - 1, timeout=2**63 - 1),
        "zero": cls(),
    }
    hashes = {name: {"msg": message.SerializeToString()} for name, message in messages.items()}
    rows = project(hash_dump(server, "messages.rdb", **hashes), MESSAGE)
    for name, message in messages.items():
        row = rows[name]
        assert (row["msg.type"], row["msg.retry"], row["msg.timeout"]) == (message.type, message.retry, message.timeout)
        assert (row["msg.payload"], row["msg.payload_size"]) == (message.payload[:4], len(message.payload))
        assert dict(row["msg.headers"]) == dict(message.headers)
        assert (row["msg.error"], row["msg.raw"], row["msg.unknown"], row["msg.unknown_fields"]) == (
            None,
            None,
            None,
            [],
        )
        assert row["msg_size"] == len(hashes[name]["msg"]) and row["rest"] == []
    assert [rows[n]["msg.payload_format"] for n in messages] == ["json", "opaque", "empty"]


def test_messages_with_more_or_less(server: Server) -> None:
    """Unknown fields are kept and named; what protobuf refuses is an error with its offset, and kept whole."""
    from google.protobuf.message import DecodeError

    cls = message_class()
    good = cls(type="t", retry=3).SerializeToString()
    cases = {
        "newer": good + b"\x98\x06\x07" + b"\xa2\x06\x02hi",
        "other_wire_type": good + b"\x0d\x01\x02\x03\x04",
        "cut": good[:-1],
        "text": b"\x0a\x02a\xff",
        "garbage": b"{not a message}",
    }
    rows = project(hash_dump(server, "odd-messages.rdb", **{n: {"msg": m} for n, m in cases.items()}), MESSAGE)
    for name, message in cases.items():
        row = rows[name]
        try:
            parsed = cls.FromString(message)
        except DecodeError:
            parsed = None
        assert (row["msg.error"] is None) == (parsed is not None), name
        if parsed is None:
            assert row["msg.raw"] == message and row["msg.type"] is None and row["msg.headers"] is None
        else:
            assert (row["msg.type"], row["msg.retry"], row["msg.raw"]) == (parsed.type, parsed.retry, None)
    assert rows["newer"]["msg.unknown"] == b"\x98\x06\x07\xa2\x06\x02hi"
    assert rows["newer"]["msg.unknown_fields"] == ["99:varint", "100:bytes"]
    assert rows["other_wire_type"]["msg.unknown_fields"] == ["1:fixed32"]
    assert rows["cut"]["msg.error"] == "the message is cut short in field 5 at byte 4"
    assert rows["text"]["msg.error"] == "text is not UTF-8 in field 1 at byte 3"


def test_projection_that_makes_no_sense(dump: Dump) -> None:
    """A projection that cannot be read, or names a column twice, is refused before any work; so are unsorted rows."""
    index = open_index(dump.path)
    for fields in (
        (Projected("a", "x", "int"), Projected("a", "y", "int")),
        (Projected("row", "x", "int"),),
        (Projected("a", "x", "json_int"),),
        (Projected("a", "x", "int", limit=5),),
        (Projected("a", "x", "message"),),
    ):
        with pytest.raises(ValueError, match="projection"):
            index.records(numbers([0]), projection_json(fields), 1, 1 << 20)
    with pytest.raises(ValueError, match="projection"):
        index.records(numbers([0]), "{", 1, 1 << 20)
    for rows, why in (([1, 0], "ascending"), ([0, 0], "ascending"), ([-1], "no row"), ([10**9], "no row")):
        with pytest.raises(ValueError, match=why):
            index.elements(numbers(rows), 1, 1 << 20)
    with pytest.raises(TypeError, match="__arrow_c_stream__"):
        index.elements([0], 1, 1 << 20)  # type: ignore[arg-type]
    assert read(index.elements(numbers([]), 2, 1 << 20)).num_rows == 0


@pytest.fixture(scope="module")
def damaged(server: Server, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A file whose fifth hash has a broken second field, and no checksum that would tell: path, offset of the break."""
    client = server.client()
    client.flushall()
    client.config_set("rdbcompression", "no")
    for i in range(9):
        client.hset(f"h{i}", mapping={"first": "1" * 30, "second": f"mark-{i}" + "2" * 20, "third": "3"})
    path = server.save("undamaged.rdb")
    client.config_set("rdbcompression", "yes")
    fifth = keys_of(open_index(path))[4][1]
    data = bytearray(path.read_bytes())
    at = data.index(b"mark-" + fifth[1:]) - 1
    # The header of the element: a string of 26 bytes becomes one of 27, which no longer ends where the next starts.
    assert data[at] == 0x80 | 26
    data[at] += 1
    # As a server that computes no checksum writes it.
    data[-8:] = bytes(8)
    path = tmp_path_factory.mktemp("damaged") / "damaged.rdb"
    path.write_bytes(data)
    return path, at


def test_damage_has_a_place(damaged: tuple[Path, int]) -> None:
    """A damaged value ends the stream with key and offset in the message, after the rows before it."""
    path, at = damaged
    index = open_index(path)
    key = keys_of(index)[4][1].decode()
    reader = pa.RecordBatchReader.from_stream(index.records(numbers(range(9)), "[]", 2, 1 << 20))
    got: list[dict[str, bytes]] = []
    with pytest.raises(pa.ArrowInvalid, match=rf'damaged: .* in the value of key "{key}" \(hash\) \(at byte \d+\)'):
        for batch in reader:
            got += map(dict, batch["rest"].to_pylist())
    assert [sorted(rest) for rest in got] == [["first", "second", "third"]] * 4
    [fault] = json.loads(index.value_faults())
    assert (fault["kind"], fault["key"]) == ("corrupt", key)
    assert at <= fault["offset"] < at + 40


def test_damage_in_a_salvage(damaged: tuple[Path, int]) -> None:
    """With salvage the stream goes on: the damaged value has the fields before the damage, and the fault is listed."""
    path, _ = damaged
    index = open_index(path, salvage=True)
    table = read(index.records(numbers(range(9)), "[]", 2, 1 << 20))
    names = [sorted(dict(rest)) for rest in table["rest"].to_pylist()]
    assert names[4] == ["first"]
    assert names[:4] + names[5:] == [["first", "second", "third"]] * 8
    read(index.elements(numbers(range(9)), 2, 1 << 20))
    assert len(json.loads(index.value_faults())) == 1


def test_faults_of_the_file(dump: Dump, tmp_path: Path) -> None:
    """What is no snapshot, ends early or has a wrong checksum is a Fault that says where, and whether to salvage."""
    data = dump.path.read_bytes()

    def fault(content: bytes) -> tuple[Any, ...]:
        path = tmp_path / "evidence.rdb"
        path.write_bytes(content)
        with pytest.raises(_native.Fault) as caught:
            open_index(path)
        return caught.value.args

    assert fault(b"")[::3] == ("empty", False)
    assert fault(b"hello, this is text")[::3] == ("not_rdb", False)
    assert fault(data[:-3])[::3] == ("truncated", True)
    assert fault(data[:-1] + bytes([data[-1] ^ 1]))[::3] == ("checksum", True)
    kind, message, offset, salvageable = fault(data[: len(data) // 2])
    assert (kind, salvageable) == ("truncated", True) and "at byte" not in message
    assert 0 < offset <= len(data) // 2
    with pytest.raises(_native.Fault) as caught:
        open_index(tmp_path / "absent.rdb")
    assert caught.value.args[0] == "io"


def test_salvage_keeps_what_came_before(dump: Dump, tmp_path: Path) -> None:
    """Of a file cut in half, salvage gives the keys before the cut, all readable, and says what is wrong."""
    path = tmp_path / "half.rdb"
    path.write_bytes(dump.path.read_bytes()[: dump.path.stat().st_size // 2])
    index = open_index(path, salvage=True)
    whole = keys_of(open_index(dump.path))
    keys = keys_of(index)
    assert 0 < len(keys) < len(whole) and keys == whole[: len(keys)]
    info = json.loads(index.info())
    assert info["fault"]["kind"] == "truncated" and info["checksum"]["status"] == "unverified"
    found = read(index.strings(numbers(range(len(keys))), None, 2, 1 << 20))
    for row, value in zip(found["row"].to_pylist(), found["value"].to_pylist(), strict=True):
        assert value == dump.values[keys[row]]


def test_info(dump: Dump) -> None:
    """The facts about the file are the server's own: version, counts per database, a checksum that is right."""
    info = json.loads(open_index(dump.path).info())
    assert (info["family"], info["fault"], info["trailing_bytes"]) == ("redis", None, 0)
    assert info["aux"]["redis-ver"].count(".") == 2 and int(info["aux"]["ctime"]) > 1_700_000_000
    assert info["checksum"]["status"] == "ok" and info["checksum"]["stored"] == info["checksum"]["computed"]
    assert info["bytes"] == info["end_offset"] == dump.path.stat().st_size
    for db in (0, 3):
        keys = sum(1 for at in dump.types if at[0] == db)
        expires = sum(1 for at, when in dump.expiries.items() if at[0] == db and when is not None)
        facts = {"keys": keys, "expires": expires, "hint_keys": keys, "hint_expires": expires}
        assert info["databases"][str(db)] == facts
    assert info["counts"]["keys"] == len(dump.types)


def test_progress(server: Server, dump: Dump) -> None:
    """Progress ends at the file's size; what the callback raises ends the walk and arrives unchanged."""
    calls: list[tuple[int, int]] = []
    _native.index(str(dump.path), False, MAX, lambda done, total: calls.append((done, total)))
    size = dump.path.stat().st_size
    assert calls[-1] == (size, size) and calls == sorted(calls)

    class Enough(Exception):
        pass

    def stop(done: int, total: int) -> None:
        raise Enough

    with pytest.raises(Enough):
        _native.index(str(dump.path), False, MAX, stop)


def test_find_prefix_and_suffix() -> None:
    """The longest of many nested and overlapping prefixes and suffixes is found, as trying each in turn finds it."""
    rng = random.Random(4)
    for _ in range(60):
        alphabet = rng.choice([b"ab", b"ab\xff\x00", b"abcdefgh:"])

        def some(longest: int, alphabet: bytes = alphabet) -> bytes:
            return bytes(rng.choices(alphabet, k=rng.randrange(longest)))

        parts = [b"bull:" * rng.randrange(2) + some(14) for _ in range(rng.randrange(1, 40))]
        values = [rng.choice([*parts, b"", b"bull:"]) + some(12) for _ in range(200)]
        values += [some(12) + rng.choice(parts) for _ in range(200)]
        column = pa.chunked_array([pa.array(values[:150], pa.binary()), pa.array([*values[150:], None], pa.binary())])

        def slow(value: bytes | None, fits: Callable[[bytes, bytes], bool], parts: list[bytes] = parts) -> int:
            best = [i for i, p in enumerate(parts) if value is not None and fits(value, p)]
            return max(best, key=lambda i: (len(parts[i]), -i), default=-1)

        found = pa.chunked_array(_native.find_prefix(column, parts))
        assert found.type == pa.int32() and [len(c) for c in found.chunks] == [len(c) for c in column.chunks]
        assert found.to_pylist() == [slow(v, bytes.startswith) for v in [*values, None]]
        found = pa.chunked_array(_native.find_suffix(column, parts))
        assert found.to_pylist() == [slow(v, bytes.endswith) for v in [*values, None]]
    assert pa.chunked_array(_native.find_prefix(column, [])).to_pylist() == [-1] * 401


def test_cut_and_text() -> None:
    """Cutting beyond a value gives an empty one; text shows what is not UTF-8 as `\\xNN` and keeps those bytes."""
    odd = b"\xff\\x00a\xe2\x82"
    column = pa.chunked_array([pa.array([b"bull:q:1", b"", None]), pa.array([b"abc", "ü".encode(), odd])])
    cut = pa.chunked_array(_native.cut(column, numbers([5, 1, 1, 0, 9, 1]), numbers([2, 0, 1, 3, 0, 0])))
    assert cut.to_pylist() == [b"q", b"", None, b"", b"", b"\\x00a\xe2\x82"]
    assert [len(c) for c in cut.chunks] == [3, 3]
    text = pa.table(_native.to_text(column))
    assert text["text"].to_pylist() == ["bull:q:1", "", None, "abc", "ü", "\\xff\\x00a\\xe2\\x82"]
    assert text["exact"].to_pylist() == [None] * 5 + [odd]
    with pytest.raises(ValueError, match="6 values, but 1 heads"):
        _native.cut(column, numbers([1]), numbers([1] * 6))
    sliced = pa.chunked_array([pa.array([b"\xff", b"keep", b"x"]).slice(1)])
    assert pa.table(_native.to_text(sliced))["text"].to_pylist() == ["keep", "x"]
    strings = pa.chunked_array([pa.array(["ab", "c"])])
    assert pa.chunked_array(_native.find_prefix(strings, [b"a"])).to_pylist() == [0, -1]
    large = pa.chunked_array([pa.array(["ab", "c"], pa.large_string())])
    assert pa.chunked_array(_native.find_prefix(large, [b"a"])).to_pylist() == [0, -1]
    empty = pa.chunked_array([], type=pa.binary())
    assert len(pa.chunked_array(_native.find_prefix(empty, [b"a"]))) == 0
    with pytest.raises(TypeError, match="byte strings"):
        _native.find_prefix(numbers([1]), [b"a"])


def test_lookup(dump: Dump) -> None:
    """Keys are found by database and composed name, and nothing else is; no key of another database is taken for it."""
    index = open_index(dump.path)
    keys = keys_of(index)
    prefixes = [(0, b""), (3, b""), (0, b"h:"), (7, b""), (0, b"bull")]
    middles: list[bytes | None] = [key for _, key in keys] + [b"sma", None, b"nothing", b"s:text", b"s:text"]
    codes = [0 if db == 0 else 1 for db, _ in keys] + [2, 0, 0, 3, -1]
    middle = pa.chunked_array([pa.array(middles[:5], pa.binary()), pa.array(middles[5:], pa.binary())])
    found = pa.chunked_array(index.lookup(prefixes, numbers(codes), middle, b""))
    assert found.type == pa.int64()
    assert found.to_pylist() == [*range(len(keys)), -1, -1, -1, -1, -1]
    composed = pa.chunked_array(index.lookup([(0, b"h:")], numbers([0]), pa.chunked_array([pa.array([b"sma"])]), b"ll"))
    assert composed.to_pylist() == [keys.index((0, b"h:small"))]


def test_cat(dump: Dump, tmp_path: Path) -> None:
    """`cat` writes a line a key and a last line; a reader that goes away after one line is no error."""
    out = tmp_path / "keys.ndjson"
    done = json.loads(_native.cat(str(dump.path), str(out), MAX))
    lines = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert done == {"keys": len(dump.types), "warnings": []}
    assert lines[0]["format"] == "jobsleuth-keyspace" and lines[-1] == {"end": True, "keys": len(dump.types)}
    assert len(lines) == len(dump.types) + 2
    code = f"from jobsleuth.sources import _native; _native.cat({str(dump.path)!r}, None, {MAX})"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stderr is not None
        child.stdout.readline()
        child.stdout.close()
        assert b"Traceback" not in child.stderr.read()
    assert child.returncode == 0
    with pytest.raises(OSError, match="directory"):
        _native.cat(str(dump.path), str(tmp_path), MAX)


def test_hand_over_copies_nothing(dump: Dump) -> None:
    """The keys table is shared: pyarrow allocates nothing for it, and asking twice gives the same memory."""
    index = open_index(dump.path)
    before = pa.total_allocated_bytes()
    first, second = pa.table(index.keys()), pa.table(index.keys())
    assert pa.total_allocated_bytes() == before
    address = [table["key"].chunk(0).buffers()[2].address for table in (first, second)]
    assert address[0] == address[1]
    del index
    assert first["key"].to_pylist() == second["key"].to_pylist()


def test_stub_says_what_the_module_has() -> None:
    """The type stub and the compiled module agree in every name, parameter and default."""
    tree = ast.parse(Path(_native.__file__).with_name("_native.pyi").read_text("utf-8"))
    public = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name[0] != "_"]
    assert {node.name for node in public} | {"__version__"} == set(_native.__all__)
    compared = 0
    for node in public:
        thing = getattr(_native, node.name)
        if isinstance(node, ast.FunctionDef):
            pairs = [(node, thing)]
        else:
            methods = [m for m in node.body if isinstance(m, ast.FunctionDef)]
            names = {name for name in vars(thing) if not name.startswith("__")}
            assert names == {m.name for m in methods if not m.name.startswith("__")}, node.name
            pairs = [(m, getattr(thing, m.name)) for m in methods]
        for stub, real in pairs:
            signature = inspect.signature(real).parameters.values()
            assert [p.name for p in signature] == [a.arg for a in stub.args.args], stub.name
            assert sum(p.default is not p.empty for p in signature) == len(stub.args.defaults), stub.name
            compared += 1
    assert compared >= 19
