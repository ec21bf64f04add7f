"""`analyze` and the index on dumps of 25 server builds: every key counted, typed and measured as the server said."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import jobsleuth
from jobsleuth.sources import RdbKeyspace

from .truth import LABELS, SERVERS, keys_of, needs_corpus, past_ms, truth_of

pytestmark = needs_corpus

STORED_AS = {
    ("list", "linkedlist"): {"linkedlist"},
    ("list", "ziplist"): {"ziplist"},
    # A list in one listpack (7.2) is written as a quicklist with one node.
    ("list", "listpack"): {"quicklist"},
    ("list", "quicklist"): {"quicklist"},
    ("set", "intset"): {"intset"},
    ("set", "listpack"): {"listpack"},
    ("set", "hashtable"): {"hashtable"},
    ("zset", "ziplist"): {"ziplist"},
    ("zset", "listpack"): {"listpack"},
    ("zset", "skiplist"): {"skiplist"},
    ("hash", "zipmap"): {"zipmap"},
    ("hash", "ziplist"): {"ziplist"},
    ("hash", "listpack"): {"listpack", "template-listpack"},
    ("hash", "listpackex"): {"listpackex"},
    ("hash", "hashtable"): {"hashtable", "template-array"},
    ("stream", "stream"): {"stream"},
    ("string", "int"): {"int", "raw"},
    ("string", "embstr"): {"raw", "lzf", "int"},
    ("string", "raw"): {"raw", "lzf", "int"},
}
"""(TYPE, OBJECT ENCODING) → how such a value is stored."""
FIRST_WITH_MS = 3
"""RDB version since which expiries are saved in ms, not in s."""
ANNOUNCED_BUT_DEAD = 7
"""The RDB version whose servers announce counts, and leave keys out that have expired."""
UNMEASURED = {"module", "template-listpack", "template-array", "listpackex"}
"""Encodings for which DEBUG OBJECT tells another length than that in the file; it does too where fields expire."""


def elements_of(told: dict[str, Any]) -> int | None:
    value = told["value"]
    match told["type"]:
        case "list" | "set" | "zset" | "hash":
            return len(value)
        case "stream":
            length: int = value["length"]
            return length
        case "array":
            return len(value["items"])
        case "vectorset":
            return len(value["elements"])
    return None


def plain_head(at: tuple[int, bytes], told: dict[str, Any], rdb_version: int) -> int | None:
    """Bytes of an entry before its value, where that is plain: expiry, type, a short key stored as it reads."""
    key = at[1]
    if not 0 < len(key) <= 20 or (key[-1:].isdigit() and key.lstrip(b"-").isdigit()):
        return None
    expiry = 9 if rdb_version >= FIRST_WITH_MS else 5
    return (expiry if told["expire_at_ms"] is not None else 0) + 1 + 1 + len(key)


def wrong_row(at: tuple[int, bytes], told: dict[str, Any], row: dict[str, Any], rdb_version: int) -> list[str]:
    wrong = []
    if told["type"] in ("string", "list", "set", "zset", "hash", "stream", "array", "vectorset"):
        if row["type"] != told["type"]:
            wrong.append(f"type {row['type']} for {told['type']}")
    elif row["type"] != "module":
        wrong.append(f"type {row['type']} for a module's {told['type']}")
    if row["expire_at"] != told["expire_at_ms"]:
        wrong.append(f"expires at {row['expire_at']} for {told['expire_at_ms']}")
    stored = STORED_AS.get((told["type"], told.get("encoding", "")))
    if stored is not None and row["encoding"] not in stored:
        wrong.append(f"encoding {row['encoding']} for {told['encoding']}")
    if row["elements"] is not None and row["elements"] != elements_of(told) and "field_expire_at_ms" not in told:
        wrong.append(f"{row['elements']} elements for {elements_of(told)}")
    head = plain_head(at, told, rdb_version)
    measured = told.get("serializedlength")
    is_exact = row["encoding"] not in UNMEASURED and not told.get("field_expire_at_ms")
    if measured and head and is_exact and row["nbytes"] != head + measured:
        wrong.append(f"{row['nbytes']} bytes for {head} + {measured}")
    return wrong


@pytest.mark.parametrize("label", LABELS)
def test_index(label: str) -> None:
    """Types, expiries, encodings, numbers of elements and sizes in the file are those the server told of each key; the
    counts are those that the file itself announces."""
    wrong = []
    for rdb in sorted((SERVERS / label).glob("*.rdb")):
        truth = truth_of(rdb)
        expected = keys_of(truth)
        keyspace = RdbKeyspace.open(rdb)
        facts, rows = keyspace.facts, keyspace.keys.to_pylist()
        got = {(row["db"], row["key"]): row for row in rows}
        assert len(got) == len(rows)
        gone = {at for at, told in expected.items() if (told["expire_at_ms"] or 1 << 62) <= past_ms(truth)}
        wrong += [f"{rdb.name}: {at} missing" for at in expected.keys() - got.keys() - gone]
        wrong += [f"{rdb.name}: {at} is not the server's" for at in got.keys() - expected.keys()]
        rdb_version = truth.get("psync", truth)["file"]["rdb_version"]
        with_idle = "lru" in truth["variant"] or "lfu" in truth["variant"]
        for at, row in got.items():
            told = {**expected[at]}
            if with_idle or told.get("key_metadata") or rdb.name.endswith(".psync.rdb"):
                told.pop("serializedlength", None)
            wrong += [f"{rdb.name}: {at}: {text}" for text in wrong_row(at, told, row, rdb_version)]
        assert facts.counts["keys"] == len(rows)
        assert facts.counts["expires"] == sum(row["expire_at"] is not None for row in rows)
        per_db = Counter(row["db"] for row in rows)
        assert {int(db): database["keys"] for db, database in facts.databases.items() if database["keys"]} == per_db
        odd = {r.kind for r in facts.remarks}
        if rdb_version == ANNOUNCED_BUT_DEAD and gone - got.keys():
            assert odd == {"database_counts"}
        else:
            assert odd == ({"key_metadata"} if any(told.get("key_metadata") for told in expected.values()) else set())
        assert facts.checksum["status"] in ("ok", "absent", "disabled")
        assert facts.fault is None
    assert wrong == []


@pytest.mark.parametrize("label", LABELS)
def test_analyze(label: str, tmp_path: Path) -> None:
    """All dumps of a server make one clean case: a row per key, each value's whereabouts inside its file, no fault."""
    files = sorted((SERVERS / label).glob("*.rdb"))
    with jobsleuth.analyze(files, tmp_path / "case") as case:
        keys = case.arrow("keys").to_pylist()
        rows = Counter(row["evidence"] for row in keys)
        for number, info in enumerate(case.manifest.evidence):
            assert info.fault is None
            assert rows.get(number, 0) == info.counts["keys"]
            assert info.bytes == files[number].stat().st_size
        for row in keys:
            assert 9 <= row["offset"] < row["offset"] + row["nbytes"] <= files[row["evidence"]].stat().st_size
        assert case.verify() == []
        json.loads((tmp_path / "case" / "manifest.json").read_bytes())
