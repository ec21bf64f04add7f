"""`cat` on dumps of 25 server builds equals what those servers replied just before they saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobsleuth.sources import _native, write_keyspace

from .truth import LABELS, SERVERS, compare_cat, keys_of, needs_corpus, past_ms, plain, truth_of

pytestmark = needs_corpus

MAX = 2 << 30
SAME_WORD = {"hashtable", "listpackex", "intset", "skiplist", "stream", "ziplist", "sliced-array"}
"""Encodings that OBJECT ENCODING and the file name alike."""
FIRST_WITH_IDLE = 9
"""RDB version since which idle times and frequencies are saved."""


def cat(rdb: Path, folder: Path) -> dict[tuple[int, bytes], dict[str, Any]]:
    out = folder / "out.ndjson"
    out.unlink(missing_ok=True)
    write_keyspace(rdb, out)
    parsed: dict[tuple[int, bytes], dict[str, Any]] = compare_cat().parse(out.read_bytes())
    return parsed


def bytes_of(value: Any) -> bytes:
    parsed: bytes = compare_cat().b(value)
    return parsed


def stream_details(truth: dict[str, Any], got: dict[str, Any]) -> list[str]:
    """What `compare_cat` leaves out of streams: counters, delivery times and counts, times of consumers."""
    wrong = []
    if (added := truth.get("entries_added")) is not None and (got["entries_added"], got["max_deleted_id"]) != (
        added,
        truth["max_deleted_entry_id"],
    ):
        wrong.append("counters")
    groups = {bytes_of(group["name"]): group for group in got["groups"]}
    for told in truth["groups"]:
        group = groups[plain(told["name"])]
        name = told.get("name_text", told["name"])
        if "entries_read" in told and told["entries_read"] != group["entries_read"]:
            wrong.append(f"{name}: entries_read {group['entries_read']} for {told['entries_read']}")
        # A server of 5.0 tells how long ago: now minus then is a ms off at times.
        near = 10 if told.get("times_are_approximate") else 0
        times = {(p[0], p[3]): p[2] for p in group["pending"]}
        for p in told["pel"]:
            time = times.get((p["id"], p["delivery_count"]))
            if time is None or abs(time - p["delivery_time_ms"]) > near:
                wrong.append(f"{name}: {p['id']} delivered at {time} for {p['delivery_time_ms']}")
        consumers = {bytes_of(c[0]): c for c in group["consumers"]}
        for c in told["consumers"]:
            _, seen, active = consumers[plain(c["name"])]
            # -1: never active, which the file says in no other way and a line as null.
            if "active_time_ms" in c and c["active_time_ms"] != (-1 if active is None else active):
                wrong.append(f"{name}: consumer active at {active} for {c['active_time_ms']}")
            if abs(c["seen_time_ms"] - seen) > near:
                wrong.append(f"{name}: consumer seen at {seen} for {c['seen_time_ms']}")
    return wrong


def details(truth: dict[str, Any], got: dict[str, Any]) -> list[str]:
    """What else a line says and the server said too."""
    wrong = []
    if truth["type"] == "stream":
        wrong += stream_details(truth["value"], got["value"])
    if "slot" in truth and got.get("slot") not in (None, truth["slot"]):
        wrong.append(f"slot {got['slot']} for {truth['slot']}")
    if truth.get("lfu_freq") is not None and got.get("lfu_freq") != truth["lfu_freq"]:
        wrong.append(f"frequency {got.get('lfu_freq')} for {truth['lfu_freq']}")
    if truth.get("idle_seconds") is not None and abs(got.get("lru_idle_s", -99) - truth["idle_seconds"]) > 12:
        wrong.append(f"idle {got.get('lru_idle_s')} s for {truth['idle_seconds']}")
    if truth.get("key_metadata") and len(got.get("key_meta", [])) != len(truth["key_metadata"]):
        wrong.append(f"metadata {got.get('key_meta')} for {truth['key_metadata']}")
    if truth.get("encoding") in SAME_WORD and truth["type"] != "list" and got["encoding"] != truth["encoding"]:
        wrong.append(f"encoding {got['encoding']} for {truth['encoding']}")
    return wrong


@pytest.mark.parametrize("label", LABELS)
def test_every_dump_of_a_server(label: str, tmp_path: Path) -> None:
    """All keys, types, expiries and values of every file, those sent to replicas too, are the server's."""
    wrong = []
    files = sorted((SERVERS / label).glob("*.rdb"))
    assert files
    for rdb in files:
        truth = truth_of(rdb)
        got = cat(rdb, tmp_path)
        wrong += [f"{rdb.name}: {text}" for text in compare_cat().differences(truth, got, past_ms(truth))]
        rdb_version = truth.get("psync", truth)["file"]["rdb_version"]
        for at, told in keys_of(truth).items():
            if rdb_version < FIRST_WITH_IDLE:
                told.pop("idle_seconds", None)
            if at in got:
                wrong += [f"{rdb.name}: {at}: {text}" for text in details(told, got[at])]
    assert wrong == []


@pytest.mark.parametrize("label", [label for label in LABELS if (SERVERS / label / "dump-payloads.json").exists()])
def test_dump_payloads(label: str) -> None:
    """Every answer to DUMP decodes to the value that the server gave in plain."""
    truth = json.loads((SERVERS / label / "dump-payloads.json").read_bytes())
    wrong, count = [], 0
    for at, told in keys_of(truth).items():
        if "payload" not in told:
            continue
        count += 1
        got = {
            "db": at[0],
            "expire_at_ms": told["expire_at_ms"],
            **json.loads(_native.cat_dump(plain(told["payload"]), MAX)),
        }
        one = {**truth, "databases": {str(at[0]): [told]}}
        wrong += compare_cat().differences(one, {at: got}, past_ms(truth))
        wrong += [
            f"{at}: {text}" for text in details({**told, "slot": None, "lfu_freq": None, "key_metadata": {}}, got)
        ]
    assert wrong == []
    assert count > 0


def test_payloads_beside_the_dumps() -> None:
    """Payloads of hashes with field expiries, templates, arrays and keys with metadata decode to the same values."""
    wrong, count = [], 0
    for path in sorted(SERVERS.glob("*/*.json.gz")):
        rdb = path.with_name(path.name.replace(".json.gz", ".rdb"))
        if not rdb.exists():
            continue
        truth = truth_of(rdb)
        for at, told in keys_of(truth).items():
            if "payload" not in told:
                continue
            count += 1
            line = json.loads(_native.cat_dump(plain(told["payload"]), MAX))
            got = {"db": at[0], "expire_at_ms": told["expire_at_ms"], **line}
            one = {**truth, "databases": {str(at[0]): [told]}}
            found = compare_cat().differences(one, {at: got}, past_ms(truth))
            wrong += [f"{path.parent.name}/{path.name}: {text}" for text in found]
    assert wrong == []
    assert count > 100
