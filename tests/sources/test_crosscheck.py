"""The second opinion: agreement with the real rdbtools, and each disagreement told, with a reader that lies."""

from __future__ import annotations

import base64
import gzip
import json
import sys
import types
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from jobsleuth.errors import EvidenceError, UsageError
from jobsleuth.sources import Crosscheck, crosscheck, write_keyspace

ROOT = Path(__file__).parents[2]
RDB9 = ROOT / "fixtures" / "rdb9" / "every-encoding"
NEWER = ROOT / "fixtures" / "bullmq" / "v5-healthy" / "evidence.rdb"
SERVERS = ROOT.parent / "shared" / "corpus" / "servers"
READABLE = ("2.2.15", "2.4.18", "2.6.17", "2.8.24", "3.2.13", "4.0.14", "5.0.14", "6.0.20", "6.2.5", "6.2.14")


def _string(data: bytes) -> bytes:
    return bytes([len(data)]) + data


FEW = (
    b"REDIS0009\xfe\x00"
    + (b"\x00" + _string(b"a") + _string(b"1"))
    + (b"\xfc" + (1_700_000_000_123).to_bytes(8, "little") + b"\x00" + _string(b"b") + _string(b"2"))
    + (b"\x04" + _string(b"c") + b"\x02" + _string(b"f") + _string(b"v") + _string(b"g") + _string(b"w"))
    + (b"\xfe\x02\x01" + _string(b"d") + b"\x02" + _string(b"x") + _string(b"y"))
    + b"\xff"
    + bytes(8)
)
"""Strings a and b (which expires) and hash c in database 0, list d in database 2."""


@pytest.fixture
def few(tmp_path: Path) -> Path:
    path = tmp_path / "few.rdb"
    path.write_bytes(FEW)
    return path


def true_reading(callback: Any) -> Iterator[None]:
    """What rdbtools calls for the file above; a pause after each key, so that a test can leave one out or end it."""
    callback.start_rdb()
    callback.start_database(0)
    callback.set(b"a", 1, None, {})
    yield
    callback.set(b"b", b"2", datetime(2023, 11, 14, 22, 13, 20, 123_000), {})
    yield
    callback.start_hash(b"c", 2, None, {})
    callback.hset(b"c", b"f", b"v")
    callback.hset(b"c", b"g", b"w")
    callback.end_hash(b"c")
    yield
    callback.end_database(0)
    callback.start_database(2)
    callback.start_list(b"d", None, {})
    callback.rpush(b"d", b"x")
    callback.rpush(b"d", b"y")
    callback.end_list(b"d", {})
    yield
    callback.end_rdb()


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Any], None]], None]:
    """Puts a reader in the place of rdbtools: a function that is given the callback and calls it."""

    def install(read: Callable[[Any], None]) -> None:
        class Parser:
            def __init__(self, callback: Any) -> None:
                self.callback = callback

            def lzf_decompress(self, packed: bytes, size: int) -> bytes:
                raise NotImplementedError

            def parse_fd(self, file: Any) -> None:
                read(self.callback)

        module = types.ModuleType("rdbtools")
        module.RdbParser = Parser  # type: ignore[attr-defined]
        module.__version__ = "of this test"  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "rdbtools", module)

    return install


def told(result: Crosscheck) -> list[tuple[str, int, str]]:
    return [(d.what, d.db, d.key) for d in result.differences]


def test_both_readers_agree_on_every_encoding() -> None:
    """The real rdbtools on a file of a real server: all keys the server told of, in all encodings of the version."""
    pytest.importorskip("rdbtools", reason="needs jobsleuth[crosscheck]")
    keys = json.loads((RDB9 / "expect" / "raw.json").read_text())["keys"]
    result = crosscheck(RDB9 / "evidence.rdb")
    assert result.same
    assert (result.jobsleuth_keys, result.rdbtools_keys, result.agreed) == (len(keys),) * 3
    assert (result.checksum, result.format_version) == ("ok", 9)
    assert result.not_compared == {"stream": sum(k["type"] == "stream" for k in keys)}


def test_both_readers_agree_with_the_server(tmp_path: Path) -> None:
    """The fixture's own truth: `cat` of the file gives what the server replied, key by key."""
    write_keyspace(RDB9 / "evidence.rdb", tmp_path / "keys.ndjson")
    lines = [json.loads(line) for line in (tmp_path / "keys.ndjson").read_text().split("\n")[1:-2]]
    ours = {(item["db"], str(item["key"])): item for item in lines}
    truth = json.loads((RDB9 / "expect" / "raw.json").read_text())["keys"]
    assert len(ours) == len(truth)
    for wanted in truth:
        found = ours[wanted["db"], str(wanted["key"])]
        value = found["value"]
        if wanted["type"] in ("set", "hash"):
            value = sorted(value, key=lambda v: as_bytes(v[0] if wanted["type"] == "hash" else v))
        elif wanted["type"] == "zset":  # the file has the highest first
            value, wanted["value"] = sorted(value), sorted(wanted["value"])
        elif wanted["type"] == "stream":
            value = {"length": len(value["entries"])}
        assert (found["type"], found["expire_at_ms"], value) == (
            wanted["type"],
            wanted["expire_at_ms"],
            wanted["value"],
        )


def as_bytes(text: Any) -> bytes:
    return text.encode() if isinstance(text, str) else base64.b64decode(text["b64"])


@pytest.mark.corpus
@pytest.mark.parametrize("version", READABLE)
def test_both_readers_agree_on_what_servers_wrote(version: str) -> None:
    """Redis 2.2 to 6.2: each file of the corpus is read by both to its end, with the same keys, expiries and values."""
    pytest.importorskip("rdbtools", reason="needs jobsleuth[crosscheck]")
    files = sorted((SERVERS / f"redis-{version}").glob("*.rdb"))
    if not files:
        pytest.skip(f"the corpus of server dumps is not at {SERVERS}")
    for file in files:
        result = crosscheck(file)
        assert result.same, (file.name, result)
        assert result.agreed == result.rdbtools_keys == result.jobsleuth_keys


def test_compressed_evidence_is_compared_too(tmp_path: Path) -> None:
    """The same verdict through the spool."""
    pytest.importorskip("rdbtools", reason="needs jobsleuth[crosscheck]")
    packed = tmp_path / "dump.rdb.gz"
    packed.write_bytes(gzip.compress((RDB9 / "evidence.rdb").read_bytes()))
    plain, result = crosscheck(RDB9 / "evidence.rdb"), crosscheck(packed)
    assert (result.same, result.agreed) == (True, plain.agreed)
    assert result.evidence == str(packed)


def test_a_reader_that_agrees_finds_nothing(few: Path, reader: Callable[..., None]) -> None:
    """The script of calls below is what the file holds: the base that each lie departs from."""
    reader(lambda callback: list(true_reading(callback)) and None)
    result = crosscheck(few)
    assert (result.same, result.agreed, result.counts, result.differences) == (True, 4, {}, [])


@pytest.mark.parametrize(
    ("lie", "what", "ours", "theirs"),
    [
        (lambda c: c.set(b"a", b"2", None, {}), "value", "digest", "digest"),
        (lambda c: c.set(b"a", 1, datetime(2030, 1, 1), {}), "expiry", "None", "1893456000000"),
        (lambda c: (c.start_set(b"a", 0, None, {}), c.sadd(b"a", 1), c.end_set(b"a")), "type", "string", "set"),
    ],
)
def test_each_disagreement_is_told(
    lie: Callable[[Any], None], what: str, ours: str, theirs: str, few: Path, reader: Callable[..., None]
) -> None:
    """One key read differently is one difference with both readings; the other keys agree."""

    def read(callback: Any) -> None:
        steps = true_reading(_Without(callback, b"a", lie))
        list(steps)

    reader(read)
    result = crosscheck(few)
    assert told(result) == [(what, 0, "a")]
    assert (result.same, result.agreed, result.counts) == (False, 3, {what: 1})
    (difference,) = result.differences
    assert str(difference.jobsleuth).startswith(ours)
    assert str(difference.rdbtools).startswith(theirs)


class _Without:
    """A callback that gets a lie in the place of the string `key`."""

    def __init__(self, callback: Any, key: bytes, lie: Callable[[Any], None]) -> None:
        self._callback, self._key, self._lie = callback, key, lie

    def __getattr__(self, name: str) -> Any:
        return getattr(self._callback, name)

    def set(self, key: bytes, *rest: Any) -> None:
        if key == self._key:
            self._lie(self._callback)
        else:
            self._callback.set(key, *rest)


def test_elements_that_are_missing_or_moved_are_told(few: Path, reader: Callable[..., None]) -> None:
    """A hash with a field less; a list in another order. A set or hash in another order is the same."""

    def read(callback: Any) -> None:
        callback.start_database(0)
        callback.set(b"a", b"1", None, {})
        callback.set(b"b", 2, datetime(2023, 11, 14, 22, 13, 20, 123_000), {})
        callback.start_hash(b"c", 2, None, {})
        callback.hset(b"c", b"g", b"w")
        callback.end_hash(b"c")
        callback.start_database(2)
        callback.start_list(b"d", None, {})
        callback.rpush(b"d", b"y")
        callback.rpush(b"d", b"x")
        callback.end_list(b"d", {})

    reader(read)
    result = crosscheck(few)
    assert told(result) == [("value", 0, "c"), ("value", 2, "d")]
    assert (result.differences[0].jobsleuth, result.differences[0].rdbtools) == ("2 elements", "1 elements")

    def shuffled(callback: Any) -> None:
        steps = true_reading(callback)
        next(steps), next(steps)
        callback.start_hash(b"c", 2, None, {})
        callback.hset(b"c", b"g", b"w")
        callback.hset(b"c", b"f", b"v")
        callback.end_hash(b"c")

    reader(shuffled)
    assert told(crosscheck(few)) == [("only_jobsleuth", 2, "d")]


def test_keys_of_one_reader_alone_are_told(few: Path, reader: Callable[..., None]) -> None:
    """One missing in the middle, one made up, one in the wrong database: what stands behind is still compared."""

    def read(callback: Any) -> None:
        steps = true_reading(_Without(callback, b"b", lambda c: c.set(b"\x1b[2J", b"", None, {})))
        for _ in range(3):
            next(steps)
        callback.start_database(1)
        callback.start_list(b"d", None, {})
        callback.end_list(b"d", {})

    reader(read)
    result = crosscheck(few)
    assert told(result) == [
        ("only_rdbtools", 0, "\x1b[2J"),
        ("only_jobsleuth", 0, "b"),
        ("only_rdbtools", 1, "d"),
        ("only_jobsleuth", 2, "d"),
    ]
    assert (result.agreed, result.counts) == (2, {"only_rdbtools": 2, "only_jobsleuth": 2})


def test_a_reader_that_gives_up_is_told(few: Path, reader: Callable[..., None]) -> None:
    """Whatever it raises is its reason, one line and escaped; the keys it did not come to are ours alone."""

    def read(callback: Any) -> None:
        next(true_reading(callback))
        raise Exception("read_object", "Invalid\n\x1b[2J object")

    reader(read)
    result = crosscheck(few)
    assert result.rdbtools_stopped is not None
    assert "\x1b" not in result.rdbtools_stopped
    assert (result.same, result.agreed, result.counts) == (False, 1, {"only_jobsleuth": 3})


def test_a_cut_file_is_compared_up_to_the_cut(tmp_path: Path) -> None:
    """Both stop, and what they read before is the same."""
    pytest.importorskip("rdbtools", reason="needs jobsleuth[crosscheck]")
    cut = tmp_path / "cut.rdb"
    cut.write_bytes((RDB9 / "evidence.rdb").read_bytes()[:40_000])
    result = crosscheck(cut)
    assert not result.same
    assert result.counts == {}
    assert result.agreed == result.jobsleuth_keys == result.rdbtools_keys > 0
    assert "cut short" in str(result.jobsleuth_stopped)
    assert "at byte" in str(result.rdbtools_stopped)


def test_no_string_unfolds_without_bound(tmp_path: Path) -> None:
    """Three bytes that claim to unfold to a terabyte: the other reader is stopped before it reserves it."""
    pytest.importorskip("rdbtools", reason="needs jobsleuth[crosscheck]")
    bomb = tmp_path / "bomb.rdb"
    lzf = b"\xc3\x03\x81" + (1 << 40).to_bytes(8, "big") + b"\x01aa"
    bomb.write_bytes(b"REDIS0009\xfe\x00\x00" + _string(b"k") + lzf + b"\xff" + bytes(8))
    result = crosscheck(bomb)
    assert not result.same
    assert "claim to unfold" in str(result.rdbtools_stopped)
    huge = tmp_path / "huge.rdb"
    huge.write_bytes(b"REDIS0009\xfe\x00\x00" + _string(b"k") + b"\x81" + (1 << 40).to_bytes(8, "big") + b"abc")
    assert "too early" in str(crosscheck(huge).rdbtools_stopped)


def test_newer_files_are_refused_with_the_version() -> None:
    """rdbtools would only say that the version is invalid."""
    pytest.importorskip("rdbtools", reason="needs jobsleuth[crosscheck]")
    with pytest.raises(EvidenceError, match="REDIS0010, and rdbtools reads RDB versions up to 9"):
        crosscheck(NEWER)


def test_the_missing_extra_is_named(few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without rdbtools there is no second opinion, but a hint how to get one."""
    monkeypatch.setitem(sys.modules, "rdbtools", None)
    with pytest.raises(UsageError, match="not installed") as missing:
        crosscheck(few)
    assert missing.value.hint == "pip install 'jobsleuth[crosscheck]'"


def test_times_beyond_what_rdbtools_holds_are_no_difference(tmp_path: Path) -> None:
    """It cuts expiry times at the year 9002 and reads them as unsigned: known, and not the file's fault."""
    pytest.importorskip("rdbtools", reason="needs jobsleuth[crosscheck]")
    path = tmp_path / "times.rdb"
    keys = b"".join(
        b"\xfc" + ms.to_bytes(8, "little", signed=True) + b"\x00" + _string(b"k%d" % n) + _string(b"v")
        for n, ms in enumerate([1, 221_925_052_800_999, 221_925_052_801_000, 253_402_300_799_999, -1])
    )
    path.write_bytes(b"REDIS0009\xfe\x00" + keys + b"\xff" + bytes(8))
    result = crosscheck(path)
    assert (result.same, result.agreed) == (True, 5), result
