"""A file that a real server saved, what it answered before, and the native core on that file."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import redis

from jobsleuth.sources import _native
from tests.conftest import RedisServer

MAX = 2 << 30
FAR = 4_102_444_800_000
"""A time in 2100, Unix ms."""


def saved(server: RedisServer, name: str) -> Path:
    """The file that SAVE writes now, under a name of its own."""
    server.client().save()
    return (server.folder / "dump.rdb").rename(server.folder / name)


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
