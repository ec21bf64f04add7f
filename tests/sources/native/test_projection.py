"""Fields, JSON members and messages as columns: what fits is in its column, the rest is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jobsleuth.keyspace import MessageField, Projected, projection_json
from jobsleuth.sources import _native
from tests.conftest import RedisServer
from tests.sources.native.served import Dump, keys_of, numbers, open_index, read, saved

pytestmark = pytest.mark.integration


def hash_dump(server: RedisServer, name: str, **hashes: dict[Any, Any]) -> _native.Index:
    client = server.client()
    client.flushall()
    for key, mapping in hashes.items():
        client.hset(key, mapping=mapping)
    return open_index(saved(server, name))


def project(index: _native.Index, *fields: Projected) -> dict[str, dict[str, Any]]:
    keys = keys_of(index)
    table = read(index.records(numbers(range(len(keys))), projection_json(fields), True, 2, 1 << 20))
    return {keys[row["row"]][1].decode(): row for row in table.to_pylist()}


def test_scalar_columns(server: RedisServer) -> None:
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


def test_json_columns(server: RedisServer) -> None:
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


def test_messages_as_protobuf_reads_them(server: RedisServer) -> None:
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


def test_messages_with_more_or_less(server: RedisServer) -> None:
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


def test_without_rest_only_what_is_asked_for_is_kept(server: RedisServer) -> None:
    """A look at a few fields: the columns say the same, and the other fields take no memory, however large."""
    index = hash_dump(server, "look.rdb", job={"name": "a", "big": b"x" * 5_000_000}, other={"name": b"\xff"})
    fields = projection_json((Projected("name", "name", "text"), Projected("big", "big", "present")))
    with_rest = read(index.records(numbers([0, 1]), fields, True, 1, 1 << 20))
    without = read(index.records(numbers([0, 1]), fields, False, 1, 1 << 20))
    assert without.to_pydict() == with_rest.drop_columns(["rest"]).to_pydict()
    assert sorted(without["name"].to_pylist()) == ["\\xff", "a"]
    assert with_rest.nbytes > 5_000_000 and without.nbytes < 1_000


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
            index.records(numbers([0]), projection_json(fields), True, 1, 1 << 20)
    with pytest.raises(ValueError, match="projection"):
        index.records(numbers([0]), "{", True, 1, 1 << 20)
    for rows, why in (([1, 0], "ascending"), ([0, 0], "ascending"), ([-1], "no row"), ([10**9], "no row")):
        with pytest.raises(ValueError, match=why):
            index.elements(numbers(rows), 1, 1 << 20)
    with pytest.raises(TypeError, match="__arrow_c_stream__"):
        index.elements([0], 1, 1 << 20)  # type: ignore[arg-type]
    assert read(index.elements(numbers([]), 2, 1 << 20)).num_rows == 0
