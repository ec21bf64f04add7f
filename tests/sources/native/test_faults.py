"""Damaged values and files: where the fault is, and what a salvage keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobsleuth.sources import _native
from tests.conftest import RedisServer
from tests.sources.native.served import Dump, keys_of, numbers, open_index, read, saved

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def damaged(server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A file whose fifth hash has a broken second field, and no checksum that would tell: path, offset of the break."""
    client = server.client()
    client.flushall()
    client.config_set("rdbcompression", "no")
    for i in range(9):
        client.hset(f"h{i}", mapping={"first": "1" * 30, "second": f"mark-{i}" + "2" * 20, "third": "3"})
    path = saved(server, "undamaged.rdb")
    client.config_set("rdbcompression", "yes")
    fifth = keys_of(open_index(path))[4][1]
    data = bytearray(path.read_bytes())
    at = data.index(b"mark-" + fifth[1:]) - 1
    # The header of the element: a string of 26 bytes becomes one of 27, which no longer ends where the next starts.
    assert data[at] == 0x80 | 26
    data[at] += 1
    # As a server that computes no checksum writes it.
    data[-8:] = bytes(8)
    path = tmp_path_factory.mktemp("damaged") / "damaged.rdb"
    path.write_bytes(data)
    return path, at


def test_damage_has_a_place(damaged: tuple[Path, int]) -> None:
    """A damaged value ends the stream with key and offset in the message, after the rows before it."""
    path, at = damaged
    index = open_index(path)
    key = keys_of(index)[4][1].decode()
    reader = pa.RecordBatchReader.from_stream(index.records(numbers(range(9)), "[]", True, 2, 1 << 20))
    got: list[dict[str, bytes]] = []
    with pytest.raises(pa.ArrowInvalid, match=rf'damaged: .* in the value of key "{key}" \(hash\) \(at byte \d+\)'):
        for batch in reader:
            got += map(dict, batch["rest"].to_pylist())
    assert [sorted(rest) for rest in got] == [["first", "second", "third"]] * 4
    [fault] = json.loads(index.value_faults())
    assert (fault["kind"], fault["key"]) == ("corrupt", key)
    assert at <= fault["offset"] < at + 40


def test_damage_in_a_salvage(damaged: tuple[Path, int]) -> None:
    """With salvage the stream goes on: the damaged value has the fields before the damage, and the fault is listed."""
    path, _ = damaged
    index = open_index(path, salvage=True)
    table = read(index.records(numbers(range(9)), "[]", True, 2, 1 << 20))
    names = [sorted(dict(rest)) for rest in table["rest"].to_pylist()]
    assert names[4] == ["first"]
    assert names[:4] + names[5:] == [["first", "second", "third"]] * 8
    read(index.elements(numbers(range(9)), 2, 1 << 20))
    assert len(json.loads(index.value_faults())) == 1


def test_faults_of_the_file(dump: Dump, tmp_path: Path) -> None:
    """What is no snapshot, ends early or has a wrong checksum is a Fault that says where, and whether to salvage."""
    data = dump.path.read_bytes()

    def fault(content: bytes) -> tuple[Any, ...]:
        path = tmp_path / "evidence.rdb"
        path.write_bytes(content)
        with pytest.raises(_native.Fault) as caught:
            open_index(path)
        return caught.value.args

    assert fault(b"")[::3] == ("empty", False)
    assert fault(b"hello, this is text")[::3] == ("not_rdb", False)
    assert fault(data[:-3])[::3] == ("truncated", True)
    assert fault(data[:-1] + bytes([data[-1] ^ 1]))[::3] == ("checksum", True)
    kind, message, offset, salvageable = fault(data[: len(data) // 2])
    assert (kind, salvageable) == ("truncated", True) and "at byte" not in message
    assert 0 < offset <= len(data) // 2
    with pytest.raises(_native.Fault) as caught:
        open_index(tmp_path / "absent.rdb")
    assert caught.value.args[0] == "io"


def test_salvage_keeps_what_came_before(dump: Dump, tmp_path: Path) -> None:
    """Of a file cut in half, salvage gives the keys before the cut, all readable, and says what is wrong."""
    path = tmp_path / "half.rdb"
    path.write_bytes(dump.path.read_bytes()[: dump.path.stat().st_size // 2])
    index = open_index(path, salvage=True)
    whole = keys_of(open_index(dump.path))
    keys = keys_of(index)
    assert 0 < len(keys) < len(whole) and keys == whole[: len(keys)]
    info = json.loads(index.info())
    assert info["fault"]["kind"] == "truncated" and info["checksum"]["status"] == "unverified"
    found = read(index.strings(numbers(range(len(keys))), None, 2, 1 << 20))
    for row, value in zip(found["row"].to_pylist(), found["value"].to_pylist(), strict=True):
        assert value == dump.values[keys[row]]
