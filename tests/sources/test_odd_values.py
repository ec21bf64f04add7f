"""Values that no server would load and that can be read all the same: kept whole, and told with their place."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobsleuth.keyspace import Projected
from jobsleuth.sources import ReadOptions, open_keyspace, snapshot


def _text(data: bytes) -> bytes:
    return bytes([len(data)]) + data


def _listpack(items: list[bytes]) -> bytes:
    """A listpack of short texts, by its definition: total bytes, number of entries, entries with lengths, 0xff."""
    entries = b"".join(bytes([0x80 | len(i)]) + i + bytes([len(i) + 1]) for i in items)
    return struct.pack("<IH", 7 + len(entries), len(items)) + entries + b"\xff"


_SCORES = ((b"a", math.nan), (b"b", 1), (b"c", -math.inf))
NO_NUMBERS = {
    "text": b"\x03\x01z\x03" + _text(b"a") + b"\xfd" + _text(b"b") + b"\x011" + _text(b"c") + b"\xff",
    "binary": b"\x05\x01z\x03" + b"".join(_text(m) + struct.pack("<d", s) for m, s in _SCORES),
    "listpack": b"\x11\x01z" + _text(_listpack([b"a", b"nan", b"b", b"1.5", b"c", b"-inf"])),
}
"""Encoding → a sorted set whose member `a` has no number for a score; types 3, 5 and 17 of the format."""


def _file(path: Path, *values: bytes) -> Path:
    path.write_bytes(b"REDIS0011\xfe\x00" + b"".join(values) + b"\xff" + bytes(8))
    return path


def _read(path: Path, row: int = 0) -> tuple[list[tuple[bytes, float, int]], list[Any]]:
    with snapshot(path) as source, open_keyspace(source, ReadOptions()) as keyspace:
        rows = [
            (e["member"], e["score"], e["position"])
            for batch in keyspace.elements(np.array([row], np.int64))
            for e in batch.to_pylist()
        ]
        return rows, [(r.kind, r.message, r.offset) for r in keyspace.value_remarks()]


@pytest.mark.parametrize("encoding", NO_NUMBERS)
def test_a_score_that_is_no_number_is_kept_behind_the_others(tmp_path: Path, encoding: str) -> None:
    """All members are there, in the order of their scores; the oddity has the place where the value begins."""
    rows, remarks = _read(_file(tmp_path / "dump.rdb", NO_NUMBERS[encoding]))
    assert [(member, position) for member, _, position in rows] == [(b"c", 0), (b"b", 1), (b"a", 2)]
    assert math.isnan(rows[2][1])
    assert remarks == [("score_no_number", 'a score is no number in the value of key "z"', 9 + 2 + 3)]


def test_many_scores_that_are_no_numbers_still_sort(tmp_path: Path) -> None:
    """Numbers of both signs of NaN among others, in no order: numbers first, then the rest by member."""
    members = [(b"%03d" % n, [math.nan, -math.nan, float(n), float(-n)][n % 4]) for n in range(60)]
    value = b"\x05\x01z" + bytes([len(members)]) + b"".join(_text(m) + struct.pack("<d", s) for m, s in members)
    rows, _ = _read(_file(tmp_path / "dump.rdb", value))
    numbers = sorted((s, m) for m, s in members if not math.isnan(s))
    assert [m for m, _, _ in rows] == [m for _, m in numbers] + sorted(m for m, s in members if math.isnan(s))


def test_an_export_holds_them_too(tmp_path: Path) -> None:
    """Keyspace NDJSON writes the score as the server would print it, and reads it again."""
    head = {"format": "jobsleuth-keyspace", "version": 1, "as_of_ms": None}
    entry = {"db": 0, "key": "z", "type": "zset", "expire_at_ms": None, "value": [["a", "nan"], ["b", "1"]]}
    export = tmp_path / "e.ndjson"
    export.write_text("".join(json.dumps(line) + "\n" for line in (head, entry, {"end": True, "keys": 1})))
    rows, remarks = _read(export)
    assert [member for member, _, _ in rows] == [b"b", b"a"]
    assert [kind for kind, _, _ in remarks] == ["score_no_number"]


HASHES = {
    "once": ([b"f", b"g", b"h"], False),
    "asked for": ([b"f", b"g", b"f"], True),
    "not asked for": ([b"g", b"f", b"x", b"g"], True),
    "many": ([b"k%d" % n for n in range(40)] + [b"k7"], True),
    "many once": ([b"k%d" % n for n in range(40)], False),
}


@pytest.mark.parametrize("case", HASHES)
def test_a_field_stored_twice_is_told(tmp_path: Path, case: str) -> None:
    """Fields with a column and fields without: the key is named once, whoever reads it, and both values are there."""
    fields, twice = HASHES[case]
    value = b"\x04\x01h" + bytes([len(fields)]) + b"".join(_text(f) + _text(b"%d" % n) for n, f in enumerate(fields))
    healthy = b"\x04\x01i\x01" + _text(b"f") + _text(b"1")
    with snapshot(_file(tmp_path / "dump.rdb", value, healthy)) as source, open_keyspace(source) as keyspace:
        for _ in range(2):
            (batch,) = keyspace.records(np.array([0, 1], np.int64), (Projected("f", "f", "bytes"),))
        remarks = [(r.kind, r.message) for r in keyspace.value_remarks()]
    row = batch.to_pylist()[0]
    assert len(row["rest"]) + (row["f"] is not None) == len(fields)
    assert remarks == ([("field_twice", 'a field is stored twice in the value of key "h"')] if twice else [])
