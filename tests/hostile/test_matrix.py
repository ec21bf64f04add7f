"""Small files of each type that a real server wrote, every byte of them changed and every length cut.

Two changes a byte; all 255 with JOBSLEUTH_THOROUGH=1.
"""

from __future__ import annotations

import contextlib
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import redis

from jobsleuth.errors import EvidenceError
from jobsleuth.sources import RdbKeyspace, _native, write_keyspace

from .damage import THOROUGH, changed_bytes, crc64

pytestmark = pytest.mark.integration

HEADER = 9
SLOW_S = 2.0
"""No verdict on a few hundred bytes may take longer."""
ROOM_KB = 200 << 10
"""What the process may grow by over a whole matrix."""
FAR_MS = 4_102_444_800_000

TABLES = {"hash_max_listpack_entries": 0, "zset_max_listpack_entries": 0, "set_max_intset_entries": 0}
PACKED = {"hash_max_listpack_entries": 128, "zset_max_listpack_entries": 128, "set_max_intset_entries": 512}


def strings(r: redis.Redis) -> None:
    r.set("raw", "some text")
    r.set("int", -31999)
    r.set("lzf", "ab" * 40)
    r.set("timed", b"\xff\x00", pxat=FAR_MS)


def lists(r: redis.Redis) -> None:
    r.rpush("list", "a", 7, -5000, 1 << 40, "x" * 70, "")


def list_nodes(r: redis.Redis) -> None:
    r.config_set("list-max-listpack-size", 2)
    r.rpush("nodes", *[f"item {n}" for n in range(7)])
    r.config_set("list-max-listpack-size", -2)


def sets(r: redis.Redis) -> None:
    r.sadd("ints", 1, 300, -70000)
    r.sadd("table", "a", 5, "c" * 30)


def zsets(r: redis.Redis) -> None:
    r.zadd("zset", {"a": 1, "b": 2.5, "c": float("-inf")})


def hashes(r: redis.Redis) -> None:
    r.hset("hash", mapping={"f": "v", "n": 12, "long": "v" * 66})


def streams(r: redis.Redis) -> None:
    r.xadd("stream", {"a": 1, "b": "x"}, id="5-1")
    r.xadd("stream", {"a": 2, "b": "y"}, id="5-2")
    r.xadd("stream", {"other": "z"}, id="6-0")
    r.xdel("stream", "5-2")
    r.xgroup_create("stream", "g", "0")
    r.xreadgroup("g", "c", {"stream": ">"}, count=1)


def functions(r: redis.Redis) -> None:
    r.function_load("#!lua name=lib\nredis.register_function('f', function() return 1 end)", replace=True)
    r.set("k", "v")


MAKERS: dict[str, tuple[dict[str, int], Callable[[redis.Redis], None]]] = {
    "strings": (PACKED, strings),
    "list": (PACKED, lists),
    "list-nodes": (PACKED, list_nodes),
    "sets": (PACKED, sets),
    "zset-listpack": (PACKED, zsets),
    "zset-skiplist": (TABLES, zsets),
    "hash-listpack": (PACKED, hashes),
    "hash-table": (TABLES, hashes),
    "stream": (PACKED, streams),
    "functions": (PACKED, functions),
}


@pytest.fixture(params=MAKERS)
def small(request: pytest.FixtureRequest, redis_server: Any) -> bytes:
    """A file of a real server."""
    settings, make = MAKERS[request.param]
    client = redis_server.client()
    client.flushall()
    client.function_flush()
    redis_server.configure(**settings)
    make(client)
    data: bytes = redis_server.save()
    client.function_flush()
    assert int.from_bytes(data[-8:], "little") == crc64(data[:-8])
    return data


@contextlib.contextmanager
def within_bounds() -> Iterator[None]:
    """The work in the block keeps its memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    unit = 1024 if sys.platform == "darwin" else 1
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // unit < ROOM_KB


def verdict(work: Callable[[], Any], size: int) -> EvidenceError | None:
    """The error that the work ends in, if it does: in time, with a place inside the file."""
    began = time.monotonic()
    try:
        work()
    except EvidenceError as error:
        assert error.offset is not None
        assert 0 <= error.offset <= size
        return error
    finally:
        assert time.monotonic() - began < SLOW_S
    return None


def extract(path: Path) -> None:
    """Everything that columns can be made of."""
    keyspace = RdbKeyspace.open(path, threads=1)
    rows = np.arange(keyspace.keys.num_rows)
    for reader in (keyspace.elements(rows), keyspace.strings(rows), keyspace.stream_entries(rows, ())):
        for batch in reader:
            batch.validate(full=True)


def cat(path: Path, out: Path) -> None:
    out.unlink(missing_ok=True)
    write_keyspace(path, out)


def test_the_sound_file(small: bytes, tmp_path: Path) -> None:
    """What the matrix starts from reads without a word."""
    path = tmp_path / "f"
    path.write_bytes(small)
    extract(path)
    assert RdbKeyspace.open(path).facts.checksum["status"] == "ok"


def test_every_byte_changed(small: bytes, tmp_path: Path) -> None:
    """With the old checksum no change goes unnoticed, and a salvage says so. With a right one, the columns and `cat`
    come to the same verdict: an error with its place, or a value."""
    path, out = tmp_path / "f", tmp_path / "out"
    with within_bounds():
        for at, wrong, right in changed_bytes(small, len(small) - 8):
            path.write_bytes(wrong)
            assert verdict(lambda: RdbKeyspace.open(path), len(small)) is not None, at
            if at >= HEADER and (THOROUGH or at % 3 == 0):
                facts = RdbKeyspace.open(path, salvage=True).facts
                assert facts.fault is not None or facts.checksum["status"] == "mismatch", at
            path.write_bytes(right)
            columns = verdict(lambda: extract(path), len(small))
            lines = verdict(lambda: cat(path, out), len(small))
            assert (columns is None) == (lines is None), (at, columns, lines)
            assert out.exists() == (lines is None)


def test_every_byte_of_the_checksum_changed(small: bytes, tmp_path: Path) -> None:
    """A checksum that is not that of the bytes is an error at its place."""
    path = tmp_path / "f"
    for at in range(len(small) - 8, len(small)):
        path.write_bytes(small[:at] + bytes([small[at] ^ 0x10]) + small[at + 1 :])
        error = verdict(lambda: RdbKeyspace.open(path), len(small))
        assert error is not None
        assert error.offset == len(small) - 8
        assert "wrong checksum" in str(error)


def test_every_cut(small: bytes, tmp_path: Path) -> None:
    """Each beginning of a file is an error; a salvage of it has exactly the keys that are whole, and the fault."""
    path = tmp_path / "f"
    path.write_bytes(small)
    whole = RdbKeyspace.open(path).keys.to_pylist()
    for size in range(len(small)):
        path.write_bytes(small[:size])
        assert verdict(lambda: RdbKeyspace.open(path), size) is not None, size
        assert verdict(lambda: cat(path, tmp_path / "out"), size) is not None, size
        if size < HEADER:
            continue
        salvaged = RdbKeyspace.open(path, salvage=True)
        assert salvaged.keys.to_pylist() == [row for row in whole if row["offset"] + row["nbytes"] <= size], size
        assert salvaged.facts.fault is not None
        assert salvaged.facts.fault["kind"] == "truncated"


def test_dump_payloads(small: bytes, redis_server: Any) -> None:
    """The same for answers to DUMP: a changed byte or a cut is an error; with a right checksum an error or a value."""
    client = redis_server.client()
    for key in client.scan_iter():
        payload = client.dump(key)
        assert isinstance(payload, bytes)
        assert _native.cat_dump(payload, 1 << 30).endswith(b"\n")
        for size in range(len(payload)):
            with pytest.raises(_native.Fault):
                _native.cat_dump(payload[:size], 1 << 30)
        for _, wrong, right in changed_bytes(payload, len(payload) - 8):
            with pytest.raises(_native.Fault):
                _native.cat_dump(wrong, 1 << 30)
            with contextlib.suppress(_native.Fault):
                _native.cat_dump(right, 1 << 30)
