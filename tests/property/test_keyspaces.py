"""Whatever a real server is told to store, jobsleuth reads what the server then replies: by `cat`, by every kind of
column, and from each key's DUMP."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import redis
from hypothesis import HealthCheck, given, settings

from jobsleuth.keyspace import Projected
from jobsleuth.sources import RdbKeyspace, _native, write_keyspace

from .keyspaces import configurations, keyspaces

pytestmark = pytest.mark.integration

EXAMPLES = os.environ.get("JOBSLEUTH_EXAMPLES")
"""How many other keyspaces each time; without it the same forty every time."""
MAX = 2 << 30

At = tuple[int, bytes]


def pairs(flat: list[Any]) -> list[tuple[Any, Any]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


def full_stream(r: redis.Redis, key: bytes) -> dict[str, Any]:
    info = {k.decode(): v for k, v in pairs(r.execute_command("XINFO", "STREAM", key, "FULL", "COUNT", 0))}
    groups = {}
    for flat in info["groups"]:
        group = {k.decode(): v for k, v in pairs(flat)}
        consumers = [{k.decode(): v for k, v in pairs(c)} for c in group["consumers"]]
        groups[group["name"]] = {
            "last_id": group["last-delivered-id"].decode(),
            "entries_read": group["entries-read"],
            "pending": [(id_.decode(), owner, time, count) for id_, owner, time, count in group["pending"]],
            "consumers": {c["name"]: c["seen-time"] for c in consumers},
        }
    return {
        "entries": [(id_.decode(), pairs(flat)) for id_, flat in info["entries"]],
        "last_id": info["last-generated-id"].decode(),
        "max_deleted_id": info["max-deleted-entry-id"].decode(),
        "entries_added": info["entries-added"],
        "groups": groups,
    }


def told(server: Any, at: At) -> dict[str, Any]:
    """The server's replies about one key."""
    db, key = at
    r = server.raw(db)
    kind = r.execute_command("TYPE", key).decode()
    value: Any
    match kind:
        case "string":
            value = r.execute_command("GET", key)
        case "list":
            value = r.execute_command("LRANGE", key, 0, -1)
        case "set":
            value = sorted(r.execute_command("SMEMBERS", key))
        case "zset":
            value = [(m, s.decode()) for m, s in pairs(r.execute_command("ZRANGE", key, 0, -1, "WITHSCORES"))]
        case "hash":
            value = sorted(pairs(r.execute_command("HGETALL", key)))
        case "stream":
            value = full_stream(r, key)
    expiry = r.execute_command("PEXPIRETIME", key)
    return {"type": kind, "value": value, "expire_at_ms": None if expiry == -1 else expiry}


def b(written: Any) -> bytes:
    """A byte string of NDJSON."""
    return written.encode() if isinstance(written, str) else base64.b64decode(written["b64"], validate=True)


def from_line(line: dict[str, Any]) -> Any:
    """A value of NDJSON in the shape of `told`."""
    value = line["value"]
    match line["type"]:
        case "string":
            return b(value)
        case "list":
            return [b(x) for x in value]
        case "set":
            return sorted(b(x) for x in value)
        case "zset":
            # Stored from the highest to the lowest, or the other way round when packed.
            return sorted(((b(m), s) for m, s in value), key=lambda pair: (float(pair[1]), pair[0]))
        case "hash":
            return sorted((b(f), b(v)) for f, v in value)
    groups = {
        b(g["name"]): {
            "last_id": g["last_id"],
            "entries_read": g["entries_read"],
            "pending": [(id_, b(owner), time, count) for id_, owner, time, count in g["pending"]],
            "consumers": {b(name): seen for name, seen, _ in g["consumers"]},
        }
        for g in value["groups"]
    }
    entries = [(id_, [(b(f), b(v)) for f, v in fields]) for id_, fields in value["entries"]]
    return {**value, "entries": entries, "groups": groups}


def by_row(reader: pa.RecordBatchReader) -> dict[int, list[dict[str, Any]]]:
    rows: dict[int, list[dict[str, Any]]] = {}
    table = reader.read_all()
    table.validate(full=True)
    for row in table.to_pylist():
        rows.setdefault(row["row"], []).append(row)
    return rows


def as_text(keyspace: RdbKeyspace, names: list[bytes]) -> list[str]:
    text, _ = keyspace.to_text(pa.chunked_array([pa.array(names, pa.binary())]))
    shown: list[str] = text.to_pylist()
    return shown


def check_columns(path: Path, expected: dict[At, dict[str, Any]]) -> None:
    """Keys, elements, records, strings and stream entries against the server's replies."""
    keyspace = RdbKeyspace.open(path, threads=2)
    keys = keyspace.keys.to_pylist()
    assert {(row["db"], row["key"]) for row in keys} == set(expected)
    assert len(keys) == len(expected)
    rows = np.arange(len(keys))
    elements, strings = by_row(keyspace.elements(rows)), by_row(keyspace.strings(rows))
    projection = (Projected("a", "a", "bytes", size=True), Projected("n", "n", "int"))
    records = by_row(keyspace.records(rows, projection))
    entries = by_row(keyspace.stream_entries(rows, ()))
    for number, row in enumerate(keys):
        server = expected[row["db"], row["key"]]
        value = server["value"]
        assert (row["type"], row["expire_at"]) == (server["type"], server["expire_at_ms"])
        got = elements.get(number, [])
        match server["type"]:
            case "string":
                assert [s["value"] for s in strings[number]] == [value]
                continue
            case "list":
                assert [e["member"] for e in got] == value
            case "set":
                assert sorted(e["member"] for e in got) == value
            case "zset":
                assert [(e["member"], e["score"]) for e in got] == [(m, float(s)) for m, s in value]
            case "hash":
                assert sorted((e["member"], e["value"]) for e in got) == value
                check_record(keyspace, records[number], dict(value))
            case "stream":
                assert got == []
                shown = [
                    (id_, [*zip(as_text(keyspace, [f for f, _ in fs]), [v for _, v in fs], strict=True)])
                    for id_, fs in value["entries"]
                ]
                assert [(f"{e['ms']}-{e['seq']}", e["rest"]) for e in entries.get(number, [])] == shown
                assert row["elements"] == len(value["entries"])
                continue
        if row["elements"] is not None:
            assert row["elements"] == len(value)


def check_record(keyspace: RdbKeyspace, found: list[dict[str, Any]], value: dict[bytes, bytes]) -> None:
    """A hash as one row: two fields have columns, the others and what does not fit are in `rest`."""
    (record,) = found
    assert record["a"] == value.get(b"a")
    assert record["a_size"] == (len(value[b"a"]) if b"a" in value else None)
    others = {f: v for f, v in value.items() if f != b"a"}
    if record["n"] is not None:
        assert record["n"] == int(value[b"n"])
        # What is spelt otherwise than the number would be ("-0", "007") is there as it stands too.
        if value[b"n"] == b"%d" % record["n"]:
            del others[b"n"]
    assert sorted(record["rest"] or []) == sorted(zip(as_text(keyspace, list(others)), others.values(), strict=True))


@settings(
    max_examples=int(EXAMPLES or 40),
    derandomize=EXAMPLES is None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(keyspaces, configurations)
def test_what_a_server_stores_is_read(
    redis_server: Any, keyspace: dict[At, Any], configuration: dict[str, Any]
) -> None:
    """All keys, types, expiries and values, however the server packs them."""
    redis_server.client().flushall()
    redis_server.configure(**configuration)
    for at, (make, expire_at_ms) in keyspace.items():
        r = redis_server.raw(at[0])
        make(r, at[1])
        if expire_at_ms is not None:
            r.execute_command("PEXPIREAT", at[1], expire_at_ms)
    expected = {at: told(redis_server, at) for at in keyspace}
    version = redis_server.client().info("server")["redis_version"]
    path, out = redis_server.folder / "property.rdb", redis_server.folder / "property.ndjson"
    path.write_bytes(redis_server.save())
    out.unlink(missing_ok=True)

    write_keyspace(path, out)
    head, *lines, end = [json.loads(line) for line in out.read_bytes().splitlines()]
    assert (head["format"], head["redis_version"], head["atomic"]) == ("jobsleuth-keyspace", version, True)
    assert end == {"end": True, "keys": len(expected)}
    for line in lines:
        server = expected[line["db"], b(line["key"])]
        assert (line["type"], line["expire_at_ms"]) == (server["type"], server["expire_at_ms"])
        assert from_line(line) == server["value"]

    check_columns(path, expected)

    for at, server in expected.items():
        payload = redis_server.raw(at[0]).execute_command("DUMP", at[1])
        line = json.loads(_native.cat_dump(payload, MAX))
        assert line["type"] == server["type"]
        assert from_line(line) == server["value"]
