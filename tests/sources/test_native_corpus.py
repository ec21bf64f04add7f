"""The native core on files of many real servers, held against what those servers said of them."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from jobsleuth.sources import _native

CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "servers"
FILES = sorted(p for p in CORPUS.glob("*/*.rdb") if p.with_suffix(".json.gz").exists())

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not FILES, reason="the shared corpus is absent: NOTHING was compared with real servers"),
]


def d(text: str) -> bytes:
    return base64.b64decode(text)


def read(stream: _native.ArrowStream) -> dict[int, list[dict[str, Any]]]:
    table = pa.RecordBatchReader.from_stream(stream).read_all()
    table.validate(full=True)
    rows: dict[int, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        rows.setdefault(row["row"], []).append(row)
    return rows


def told(kind: str, key: dict[str, Any]) -> Any:
    """The server's answer in the shape that `found` gives."""
    value = key["value"]
    match kind:
        case "string":
            return d(value)
        case "list":
            return [d(item) for item in value]
        case "set":
            return sorted(d(item) for item in value)
        case "zset":
            return [(d(member), float(score)) for member, score in value]
        case "hash":
            expiry = {d(f): ms for f, ms in (key.get("field_expire_at_ms") or {}).items()}
            return sorted((d(f), d(v), expiry.get(d(f))) for f, v in value)
        case "stream":
            return [(id_, [(d(f), d(v)) for f, v in fields]) for id_, fields in value["entries"]]
    return None


def found(kind: str, elements: list[Any], string: list[Any], entries: list[Any]) -> Any:
    match kind:
        case "string":
            return string[0]["value"]
        case "list":
            return [e["member"] for e in elements]
        case "set":
            return sorted(e["member"] for e in elements)
        case "zset":
            return [(e["member"], e["score"]) for e in elements]
        case "hash":
            return sorted((e["member"], e["value"], e["field_expire_at"]) for e in elements)
        case "stream":
            return [(f"{e['ms']}-{e['seq']}", e["rest"]) for e in entries]
    return None


def readable(kind: str, value: Any) -> Any:
    """Stream fields as `rest` names them: text, with what is not UTF-8 escaped."""
    if kind != "stream":
        return value
    names = sorted({name for _, fields in value for name, _ in fields})
    column = pa.chunked_array([pa.array(names, pa.binary())])
    text = dict(zip(names, pa.table(_native.to_text(column))["text"].to_pylist(), strict=True))
    return [(id_, [(text[name], v) for name, v in fields]) for id_, fields in value]


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_values_are_the_servers_values(path: Path) -> None:
    """Types, expiries and all values of lists, sets, zsets, hashes, strings and streams: as the server said.

    Keys and fields that were past when the file was written may be in it or not: a server drops them when it likes.
    """
    truth = json.loads(gzip.decompress(path.with_suffix(".json.gz").read_bytes()))
    index = _native.index(str(path), False, 2 << 30, None)
    info = json.loads(index.info())
    assert info["checksum"]["status"] in ("ok", "absent", "disabled")
    table = pa.table(index.keys())
    table.validate(full=True)
    rows = pa.chunked_array([pa.array(np.arange(table.num_rows))])
    elements = read(index.elements(rows, 2, 1 << 16))
    strings = read(index.strings(rows, None, 2, 1 << 16))
    entries = read(index.stream_entries(rows, "[]", 2, 1 << 16))
    places = {at: row for row, at in enumerate(zip(table["db"].to_pylist(), table["key"].to_pylist(), strict=True))}
    assert len(places) == table.num_rows
    types, expiries = table["type"].to_pylist(), table["expire_at"].to_pylist()
    past = truth["saved_between_ms"][1]
    expected = {(int(db), d(key["key"])): key for db, keys in truth["databases"].items() for key in keys}
    assert set(places) <= set(expected)
    for at, key in expected.items():
        expire_at = key["expire_at_ms"]
        if at not in places:
            assert expire_at is not None and expire_at <= past, at
            continue
        row, kind = places[at], key["type"]
        assert expiries[row] == expire_at, at
        if kind not in ("string", "list", "set", "zset", "hash", "stream"):
            assert row not in elements and row not in strings and row not in entries
            continue
        assert types[row] == kind, at
        got = found(kind, elements.get(row, []), strings.get(row, []), entries.get(row, []))
        want = readable(kind, told(kind, key))
        if kind == "hash":
            live = [f for f in want if f[2] is None or f[2] > past]
            assert [f for f in got if f[2] is None or f[2] > past] == live, at
            assert set(got) <= set(want), at
        else:
            assert got == want, at
