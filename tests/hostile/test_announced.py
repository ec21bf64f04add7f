"""Counts that a file announces: whatever differs from what is in it is told with its numbers, never passed over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import jobsleuth
from jobsleuth.api import AnalyzeOptions
from jobsleuth.sources import RdbKeyspace

from .damage import crc64

pytestmark = pytest.mark.integration

FAR_MS = 4_102_444_800_000


@pytest.fixture
def three_keys(redis_server: Any) -> bytes:
    """Three keys, one of which expires, as a server saves them: it announces `FB 03 01`."""
    client = redis_server.client()
    client.flushall()
    client.mset({"a": 1, "b": 2})
    client.set("c", "text", pxat=FAR_MS)
    data: bytes = redis_server.save()
    assert data.count(b"\xfe\x00\xfb\x03\x01") == 1
    return data


def resigned(data: bytes) -> bytes:
    return data[:-8] + crc64(data[:-8]).to_bytes(8, "little")


def test_announced_counts(three_keys: bytes, tmp_path: Path) -> None:
    """A database that has fewer or more keys than its file says is a warning in the manifest, with both numbers."""
    path = tmp_path / "dump.rdb"
    path.write_bytes(three_keys)
    assert RdbKeyspace.open(path).facts.remarks == []
    path.write_bytes(resigned(three_keys.replace(b"\xfb\x03\x01", b"\xfb\x07\x00")))
    with jobsleuth.analyze(path, tmp_path / "case") as case:
        (warning,) = case.manifest.evidence[0].warnings
    assert (warning.kind, warning.count) == ("database_counts", 1)
    assert warning.message == "database 0 has 3 keys, 1 that expire; announced were 7 and 0"


def test_slot_counts(three_keys: bytes, tmp_path: Path) -> None:
    """The same for the slots of a cluster, as Redis 7.4 (opcode) and Valkey 8 (beside the keys) announce them."""
    path = tmp_path / "dump.rdb"
    for slot in (b"\xf4\x05\x03\x01", b"\xfa\x09slot-info\x055,3,1"):
        path.write_bytes(resigned(three_keys.replace(b"\xfb\x03\x01", b"\xfb\x03\x01" + slot)))
        assert RdbKeyspace.open(path).facts.remarks == []
        wrong = slot.replace(b"\x05\x03\x01", b"\x05\x04\x01").replace(b"5,3,1", b"5,4,1")
        path.write_bytes(resigned(three_keys.replace(b"\xfb\x03\x01", b"\xfb\x03\x01" + wrong)))
        (remark,) = RdbKeyspace.open(path).facts.remarks
        assert remark.kind == "slot_counts"
        assert remark.offset == three_keys.index(b"\xfb\x03\x01") + 3
        assert remark.message == "slot 5 has 3 keys, 1 that expire; announced were 4 and 1"


def test_a_salvage_says_what_is_missing(three_keys: bytes, tmp_path: Path) -> None:
    """Of a file that was cut short, the announced counts tell how much there was."""
    path = tmp_path / "dump.rdb"
    path.write_bytes(three_keys[:-12])
    with jobsleuth.analyze(path, tmp_path / "case", AnalyzeOptions(salvage=True)) as case:
        info = case.manifest.evidence[0]
    assert info.fault is not None
    (warning,) = info.warnings
    assert warning.message.endswith("announced were 3 and 1")
    assert info.counts["keys"] < 3
