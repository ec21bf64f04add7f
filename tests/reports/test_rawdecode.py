"""Bytes without a schema: against protoc itself and against the msgpack package."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from typing import Any

import pytest

from jobsleuth.reports import rawdecode


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def fields(rnd: random.Random, depth: int = 0) -> bytes:
    """Random fields: every wire type, groups, messages in messages beyond the depth that is tried."""
    out = b""
    for _ in range(rnd.randint(0, 4)):
        number, wire = rnd.choice([1, 2, 15, 16, 99, 2**29 - 1]), rnd.choice([0, 1, 2, 2, 2, 3, 5])
        out += varint(number << 3 | wire)
        if wire == 0:
            out += varint(rnd.choice([0, 1, 300, 2**63, 2**64 - 1]))
        elif wire in (1, 5):
            out += rnd.randbytes(8 if wire == 1 else 4)
        elif wire == 3:
            out += (fields(rnd, depth + 1) if depth < 14 else b"") + varint(number << 3 | 4)
        else:
            texts = [b"", b"abc", b"hello \xff\n\"'\\ \x7f", rnd.randbytes(5), "zoë".encode()]
            inner = fields(rnd, depth + 1) if depth < 14 and rnd.random() < 0.7 else rnd.choice(texts)
            out += varint(len(inner)) + inner
    return out


def protoc(data: bytes) -> str | None:
    """What `protoc --decode_raw` prints; None where it calls the bytes no message."""
    binary = shutil.which("protoc")
    if binary is None:
        pytest.skip("protoc is not installed: raw decoding was not compared with it")
    run = subprocess.run([binary, "--decode_raw"], input=data, capture_output=True)
    return run.stdout.decode() if run.returncode == 0 else None


def test_protobuf_is_what_protoc_prints() -> None:
    """Random messages, whole, cut and with a byte changed: the same text as protoc, or both find no message."""
    rnd = random.Random(20260101)
    failed = 0
    for _ in range(120):
        data = fields(rnd)
        if data and rnd.random() < 0.4:
            at = rnd.randrange(len(data))
            data = rnd.choice([data[:at], data[:at] + rnd.randbytes(1) + data[at + 1 :]])
        said, ours = protoc(data), rawdecode.protobuf(data)
        if said is None:
            failed += 1
            assert ours.error is not None and " at byte " in ours.error, data.hex()
        else:
            assert (ours.error, "".join(line + "\n" for line in ours.lines)) == (None, said), data.hex()
    assert 5 < failed < 60


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x08\x96\x01\x12\x03abc", b"\x00", b"\x08", b"\x0b\x0c", b"\x0b", b"\x0c", b"\x0f", b"\x12\x05abc",
        b"\x08" + b"\xff" * 10, b"\x08" + b"\xff" * 9 + b"\x7f", b"\x0b" * 99 + b"\x0c" * 99,
        b"\x0b" * 101 + b"\x0c" * 101,
        b"\x80\x80\x80\x80\x10\x01", b"\x88\x80\x80\x80\x00\x01", b"\x88\x80\x80\x80\x80\x00\x01",
        b"\xf8\xff\xff\xff\x7f\x01", b"\x0a\x81\x80\x80\x80\x00a", b"\x0a\x81\x80\x80\x80\x80\x00a",
        b"\x0b\x8c\x80\x80\x80\x00", b"\x0b\x8c\x80\x80\x80\x80\x00", b"\x0a\x80\x80\x80\x80\x80\x01\x00",
        b"\x0a\x07\x88\x80\x80\x80\x80\x00\x01", b"\x0a\x0a\x88\x80\x80\x80\x80\x80\x80\x80\x00\x01",
        b"\x0a\x09\x12\x81\x80\x80\x80\x80\x80\x00a", b"\x0a\x09\x12\x81\x80\x80\x80\x80\x80\x01a",
        b"\x0a\x09\x12\xff\xff\xff\xff\xff\x80\x00a",
    ],
    ids=bytes.hex,
)  # fmt: skip
def test_edges_are_protocs(data: bytes) -> None:
    """Where a number, a group or a length ends, and how deep groups go, is protoc's own decision."""
    said, ours = protoc(data), rawdecode.protobuf(data)
    assert (ours.error is None) == (said is not None)
    if said is not None:
        assert "".join(line + "\n" for line in ours.lines) == said


def test_what_stands_before_the_damage() -> None:
    """A message that was cut short shows what it says up to there, and where it ends."""
    read = rawdecode.protobuf(b"\x08\x96\x01\x12\x09abc")
    assert (read.lines, read.error) == (["1: 150"], "9 bytes wanted, 3 left at byte 5")


VALUES: list[Any] = [
    None, True, False, 0, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**64 - 1, -1, -32, -33, -128, -129,
    -32768, -32769, -(2**31), -(2**31) - 1, -(2**63), 1.5, float("inf"), "", "a" * 31, "a" * 32, "a" * 256, "a" * 70000,
    "zoë \x1b[31m\x7f\u202e", b"", b"\xff" * 255, b"x" * 256, b"x" * 70000, [], list(range(15)), list(range(16)),
    list(range(70000)), {}, {"a": [1, {"b": None}]}, {i: str(i) for i in range(16)}, {i: i for i in range(70000)},
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda v: f"{type(v).__name__}-{len(repr(v))}")
def test_msgpack_is_what_was_packed(value: Any) -> None:
    """Every type at the edges of its sizes, packed by the msgpack package, is told as it was."""
    packer = pytest.importorskip("msgpack", reason="msgpack is not installed: it was not compared")
    read = rawdecode.msgpack(packer.packb(value))
    assert read.error is None
    assert read.lines[0].isascii() and read.lines[0].isprintable()
    assert told(read.lines[0]) == value


def told(text: str) -> Any:
    """The notation back as Python values."""
    if text.startswith("h'"):
        return bytes.fromhex(text[2:-1])
    return eval(text, {"null": None, "true": True, "false": False, "inf": float("inf")})


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x82\xa2id\x07\xa4tags\x92\xa1a\xa1b", '{"id": 7, "tags": ["a", "b"]}'),
        (b"\xca" + struct.pack(">f", 0.5), "0.5"), (b"\xd4\x05\xff", "ext(5, h'ff')"),
        (b"\xd6\xff\x00\x00\x00\x01", "ext(-1, h'00000001')"), (b"\xc7\x03\x01abc", "ext(1, h'616263')"),
        (b"\xa1\xff", "h'ff'"), (b"\x81\x90\xc0", "{[]: null}"), (b"\x81\xc4\x01\x00\x01", "{h'00': 1}"),
    ],
)  # fmt: skip
def test_msgpack_notation(data: bytes, text: str) -> None:
    """Examples of the format's specification: extensions, 32-bit floats, keys that are no text, text that is none."""
    assert rawdecode.msgpack(data) == rawdecode.RawDecode("msgpack", [text], None)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "1 bytes wanted, 0 left at byte 0"), (b"\xc1", "the unused type c1 at byte 0"),
        (b"\xdd\xff\xff\xff\xff", "4294967295 values wanted, 0 bytes left at byte 5"),
        (b"\xc6\xff\xff\xff\xffx", "4294967295 bytes wanted, 1 left at byte 5"),
        (b"\x91" * 100_000, "nested too deeply at byte 64"), (b"\x01\x02", "more bytes than one value has at byte 1"),
        (b"\xdf\x80\x00\x00\x00" + b"\xc0" * 9, "4294967296 values wanted, 9 bytes left at byte 5"),
    ],
)  # fmt: skip
def test_msgpack_bombs(data: bytes, why: str) -> None:
    """Sizes that the bytes cannot hold, and nesting without end, are found before anything is made of them."""
    read = rawdecode.msgpack(data)
    assert (read.lines, read.error) == ([], why)


def test_readings_that_fit_come_first() -> None:
    """Both readings are given, the one that takes all bytes first: bytes do not say what they are."""
    assert [(r.format, r.error is None) for r in rawdecode.raw_decodes(b"\x82\xa2id\x07\xa4tags\x92\xa1a\xa1b")] == [
        ("msgpack", True), ("protobuf", False),
    ]  # fmt: skip
    assert [r.format for r in rawdecode.raw_decodes(b"\x08\x96\x01\x12\x03abc")] == ["protobuf", "msgpack"]


def test_columns_of_a_job() -> None:
    """All bytes of a job that have no schema are read; where nothing fits, each format says why and how far it came."""
    job = {"payload": b"\x08\x01", "payload_bytes": 9, "result": None, "undecoded": b"\x08\x01\x0a\x09ab", "name": "x"}
    assert list(rawdecode.raw_lines(job)) == [
        "Raw decode: payload (2 bytes, cut: the first of 9 bytes)",
        "  as protobuf",
        "    1: 1",
        "Raw decode: stored message (6 bytes)",
        "  no protobuf: 9 bytes wanted, 2 left at byte 4",
        "    1: 1",
        "  no msgpack: more bytes than one value has at byte 1",
    ]
    assert [(f["column"], f["format"], f["error"] is None) for f in rawdecode.raw_facts(job)] == [
        ("payload", "protobuf", True), ("payload", "msgpack", False),
        ("undecoded", "protobuf", False), ("undecoded", "msgpack", False),
    ]  # fmt: skip
