"""Files that nine other projects ship for their own tests: each gets the right verdict, and where a project says what
is in a file, the keys and values are those."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobsleuth.errors import EvidenceError
from jobsleuth.sources import RdbKeyspace, write_keyspace

from .truth import THIRD_PARTY, compare_cat, needs_corpus

pytestmark = needs_corpus

SNAPSHOTS = sorted(THIRD_PARTY.glob("*/*.rdb"))
REFUSED = {
    "librdb/future_v19.rdb": (0, "RDB version 99"),
    "librdb/invalid_chksum_v8.rdb": (201, "wrong checksum"),
}
"""Those that must not be read: offset and a part of the reason."""
KEYS = {
    "hdt3213-rdb/function.rdb": 0,
    "librdb/100_lists.rdb": 100,
    "librdb/empty.rdb": 0,
    "librdb/script.rdb": 0,
    "redis/corrupt_empty_keys.rdb": 9,
    "redis/encodings.rdb": 13,
    "redis-rdb-cli/rct-all.rdb": 270,
    "redis-replicator/listpack-bug.rdb": 237,
    "rediscope/native-types.rdb": 11,
}
"""Keys of some, as redis-check-rdb counts them or their names say."""
ODD = {
    "redis/corrupt_empty_keys.rdb": {"empty_key"},
    # Merged from several files, with what the first of them announced.
    "redis-rdb-cli/rct-all.rdb": {"pre_release_function", "database_counts"},
    "redis-rdb-cli/rdt-12.rdb": {"database_counts"},
    "redis-rdb-cli/rdt-34.rdb": {"pre_release_function", "database_counts"},
    "redis-rdb-cli/rmt-dump.rdb": {"pre_release_function", "database_counts"},
    # Announces no key that expires, and has one.
    "librdb/misc_with_stream.rdb": {"database_counts"},
    "redis-rdb-tools/redis_40_with_module.rdb": {"transfer_end_mark"},
    "redis-replicator/function.rdb": {"pre_release_function"},
    "librdb/redis_ent_opcode_ram_lru.rdb": {"vendor_opcode"},
}
"""What must be remarked of a file; of no other is there anything to remark."""


def name_of(path: Path) -> str:
    return path.relative_to(THIRD_PARTY).as_posix()


Keys = dict[tuple[int, bytes], dict[str, Any]]


def lines_of(path: Path, folder: Path) -> list[dict[str, Any]]:
    """A line a key: files that were merged from several name some keys twice."""
    out = folder / "out"
    out.unlink(missing_ok=True)
    write_keyspace(path, out)
    head, *lines, end = [json.loads(line) for line in out.read_bytes().splitlines()]
    assert head["format"] == "jobsleuth-keyspace"
    assert end == {"end": True, "keys": len(lines)}
    return lines


def read(path: Path, folder: Path) -> Keys:
    lines = lines_of(path, folder)
    keys = {(line["db"], compare_cat().b(line["key"])): line for line in lines}
    assert len(keys) == len(lines)
    return keys


@pytest.mark.parametrize("path", SNAPSHOTS, ids=name_of)
def test_verdict(path: Path, tmp_path: Path) -> None:
    """Sound files are read whole, with what is odd remarked; the others are refused with place and reason."""
    name = name_of(path)
    if name in REFUSED:
        offset, reason = REFUSED[name]
        for verb in (RdbKeyspace.open, lambda p: lines_of(p, tmp_path)):
            with pytest.raises(EvidenceError, match=reason) as refused:
                verb(path)
            assert refused.value.offset == offset
        return
    keys = lines_of(path, tmp_path)
    facts = RdbKeyspace.open(path).facts
    assert facts.counts["keys"] == len(keys) == KEYS.get(name, len(keys))
    assert {r.kind for r in facts.remarks} == ODD.get(name, set())


@pytest.mark.parametrize("path", sorted(THIRD_PARTY.glob("*/*.aof")), ids=name_of)
def test_command_logs_are_named(path: Path) -> None:
    """An append-only file is told apart from a damaged snapshot."""
    with pytest.raises(EvidenceError, match="append-only") as refused:
        RdbKeyspace.open(path)
    assert refused.value.offset == 0


def value_of(line: dict[str, Any]) -> Any:
    """A value in a shape that JSON of any project can be brought into."""
    b = compare_cat().b
    value = line["value"]
    match line["type"]:
        case "string":
            return b(value)
        case "list":
            return [b(x) for x in value]
        case "set":
            return sorted(b(x) for x in value)
        case "zset":
            return {b(m): float(s) for m, s in value}
        case "hash":
            return {b(x[0]): b(x[1]) for x in value}
        case "stream":
            return [(id_, {b(f): b(v) for f, v in fields}) for id_, fields in value["entries"]]
    return None


def theirs(kind: str, value: Any) -> Any:
    """The same shape from their JSON, where text stands for bytes."""
    match kind:
        case "string":
            return value.encode()
        case "list":
            return [x.encode() for x in value]
        case "set":
            return sorted(x.encode() for x in value)
        case "zset":
            return {m.encode(): float(s) for m, s in value.items()}
        case "hash":
            return {f.encode(): v.encode() for f, v in value.items()}
    return None


def is_text(value: Any) -> bool:
    """No byte was lost when they made text of it."""
    return "\ufffd" not in json.dumps(value, ensure_ascii=False)


HDT = sorted(THIRD_PARTY.glob("hdt3213-rdb/*.json"))


@pytest.mark.parametrize("path", HDT, ids=lambda p: p.stem)
def test_hdt3213(path: Path, tmp_path: Path) -> None:
    """Keys, databases, types, values, expiries and field expiries are those that HDT3213/rdb prints."""
    keys = read(path.with_suffix(".rdb"), tmp_path)
    told = [o for o in json.loads(path.read_bytes()) if o["type"] not in ("aux", "functions", "dbsize")]
    assert len(told) == len(keys)
    for o in told:
        if not is_text(o):
            continue
        line = keys[o["db"], o["key"].encode()]
        kind = line["type"]
        assert kind == o["type"]
        if kind == "stream":
            entries = [m for node in o["entries"] for m in node["msgs"] if not m["deleted"]]
            expected = [(m["id"], {f.encode(): v.encode() for f, v in m["fields"].items()}) for m in entries]
            assert value_of(line) == expected
            assert line["value"]["last_id"] == o["lastId"]
            continue
        raw = o.get({"list": "values", "set": "members", "zset": "entries", "string": "value"}.get(kind, kind))
        if kind == "zset":
            raw = {e["member"]: e["score"] for e in raw}
        assert value_of(line) == theirs(kind, raw)
        if "expire" in o:
            got = {x[0]: x[2] if len(x) > 2 else 0 for x in line["value"]}
            assert {f: ms or 0 for f, ms in got.items()} == o["expire"]


LIBRDB = {
    "hash_data": "hash_v3",
    "hash_ex_v12_data": "hash_with_expire_v12",
    "hash_lp_ex_v12_data": "hash_lp_with_hexpire_v12",
    "mem_policy_lfu": "mem_policy_lfu",
    "module_aux_data": "module_aux",
    "multiple_dbs_data": "multiple_dbs",
    "plain_list_v6_data": "plain_list_v6",
    "plain_zset_2_v11_data": "plain_zset_2_v11",
    "plain_zset_v6_data": "plain_zset_v6",
    "quicklist_data": "quicklist",
    "set_is_v11_data": "set_is_v11",
    "single_key_data": "single_key",
    "ziplist_data": "ziplist_v3",
}
"""Expected output → the dump it is of."""


def compare_databases(keys: Keys, databases: list[dict[str, Any]], is_sure: Callable[[Any], bool] = is_text) -> int:
    """Their databases are in the order of ours and without numbers. Returns how many values were compared."""
    numbers = sorted({db for db, _ in keys})
    assert len(numbers) == len(databases)
    compared = 0
    for number, told in zip(numbers, databases, strict=True):
        ours = {key: line for (db, key), line in keys.items() if db == number}
        assert len(ours) == len(told)
        if is_sure(list(told)):
            assert sorted(ours) == sorted(key.encode() for key in told)
        for key, value in told.items():
            if is_sure([key, value]):
                line = ours[key.encode()]
                assert value_of(line) == theirs(line["type"], value), key
                compared += 1
    return compared


@pytest.mark.parametrize("name", LIBRDB)
def test_librdb(name: str, tmp_path: Path) -> None:
    """Keys and values are those that librdb's JSON handler prints."""
    keys = read(THIRD_PARTY / "librdb" / f"{LIBRDB[name]}.rdb", tmp_path)
    text = (THIRD_PARTY / "librdb" / f"{name}.json").read_text().strip()
    told = json.loads(text if text.startswith("[") else f"[{{{text}}}]")
    for database in told:
        database.pop("__aux__", None)
    assert compare_databases(keys, told) > 0


@pytest.mark.parametrize("path", sorted(THIRD_PARTY.glob("rdb-rs/*.json")), ids=lambda p: p.stem)
def test_rdb_rs(path: Path, tmp_path: Path) -> None:
    """Keys and values are those that rdb-rs prints, but for what it prints of bytes beyond ASCII: now text, now each
    byte as a character."""
    keys = read(path.with_suffix(".rdb"), tmp_path)
    told = json.loads(path.read_bytes())
    compared = compare_databases(keys, told, lambda o: json.dumps(o, ensure_ascii=False).isascii())
    # One file has such bytes in each of its five values.
    assert compared > 0 or path.stem == "hash_list_pack"


def test_redis_rdb_cli(tmp_path: Path) -> None:
    """Keys, databases, types and values of a file with 270 keys are those that redis-rdb-cli prints, where it could
    print them as text."""
    folder = THIRD_PARTY / "redis-rdb-cli"
    lines = lines_of(folder / "rct-all.rdb", tmp_path)
    told = (folder / "rct-all.rdb.jsonl").read_text().split("\n")[: len(lines)]
    compared = 0
    for line, text in zip(lines, told, strict=True):
        try:
            o = json.loads(text)
        except ValueError:
            continue  # it leaves some characters unescaped that JSON wants escaped
        kind = {"sortedset": "zset"}.get(o["type"], o["type"])
        assert (line["db"], line["type"]) == (o["db"], kind)
        if is_text(o) and kind not in ("stream", "module"):
            assert compare_cat().b(line["key"]) == o["key"].encode()
            assert value_of(line) == theirs(kind, o["value"]), o["key"]
            compared += 1
    assert compared > 200
