"""Spoiled exports and files of commands: a clean error or a result, never a crash of the core."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from jobsleuth.errors import JobsleuthError
from jobsleuth.sources import ReadOptions, open_keyspace, snapshot, write_keyspace
from tests.sources.commands import Maker, packed, text
from tests.sources.test_foreign import RIOT

ROOT = Path(__file__).parents[2]
AOF = ROOT / "fixtures" / "aof" / "bullmq-v5-vanished" / "appendonlydir" / "appendonly.aof.1.incr.aof"
RDB = ROOT / "fixtures" / "bullmq" / "v5-faults" / "evidence.rdb"


def sample(kind: str, folder: Path) -> bytes:
    if kind == "aof":
        return AOF.read_bytes()
    if kind == "random commands":
        maker = Maker(5)
        return packed([text("SELECT", 0), *(maker.command() for _ in range(150))])
    if kind == "riot":
        return json.dumps(RIOT).encode()
    out = folder / "cat.ndjson"
    write_keyspace(RDB, out)
    return out.read_bytes()[:20_000]


@pytest.mark.parametrize("kind", ["aof", "random commands", "ndjson", "riot"])
@pytest.mark.parametrize("salvage", [False, True])
def test_changed_bytes(kind: str, salvage: bool, tmp_path: Path) -> None:
    """Hundreds of copies with bytes changed, cut out or doubled: each is read or refused, and the reason told."""
    good = sample(kind, tmp_path)
    rng = random.Random(f"{kind}{salvage}")
    refused = 0
    for number in range(250):
        bad = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(bad))
            match rng.randrange(4):
                case 0:
                    bad[at] = rng.randrange(256)
                case 1:
                    del bad[at : at + rng.randint(1, 40)]
                case 2:
                    bad[at:at] = bad[at : at + rng.randint(1, 40)]
                case 3:
                    bad[at : at + 1] = rng.choice(
                        [b"9", b"-", b"$", b"*", b'"', b"{", b"[", b"\xff", b"99999999999999999999"]
                    )
        spoiled = tmp_path / "spoiled"
        spoiled.write_bytes(bad)
        try:
            options = ReadOptions(salvage=salvage, moves=number % 2 == 0)
            with snapshot(spoiled) as source, open_keyspace(source, options) as keyspace:
                assert keyspace.keys.num_rows >= 0
        except JobsleuthError as error:
            refused += 1
            assert error.message
    assert salvage or refused > 0


HOSTILE = {
    "a count beyond all": b"*99999999999\r\n",
    "a length beyond all": b"*1\r\n$9999999999\r\nx",
    "no argument": packed([text("SET")]) + packed([text("ZADD", "z")]) + packed([text("XADD", "x")]),
    "a far bit": packed([text("SETBIT", "s", 2**62, 1), text("SETRANGE", "s", 2**40, "x")]),
    "a huge number": packed([text("SET", "n", 2**63 - 1), text("INCR", "n"), text("DECRBY", "n", -(2**63))]),
    "many keys told": packed([text("ZUNIONSTORE", "z", 2**63, "a"), text("LMPOP", 2**64 - 1, "a", "LEFT")]),
    "times beyond": packed([text("SET", "s", "v", "EX", 2**62), text("PEXPIREAT", "s", -(2**63))]),
    "a database beyond": packed([text("SELECT", 2**64 - 1), text("SET", "s", "v"), text("SWAPDB", 0, 2**64 - 1)]),
    "ids beyond": packed([text("XADD", "x", f"{2**64 - 1}-{2**64 - 1}", "f", "v"), text("XTRIM", "x", "MAXLEN", 0)]),
    "range beyond": packed(
        [text("RPUSH", "l", "a"), text("LTRIM", "l", -(2**63), 2**63 - 1), text("LSET", "l", -(2**63), "b")]
    ),
    "a payload that is none": packed([text("RESTORE", "k", 0, b"\x00" * 30), text("RESTORE", "k", 0, b"")]),
    "bits beyond": packed(
        [text("BITFIELD", "s", "SET", "i64", f"#{2**60}", 1), text("BITFIELD", "s", "SET", "u99", 0, 1)]
    ),
    "itself": packed(
        [
            text("RPUSH", "l", "a"),
            text("LMOVE", "l", "l", "LEFT", "LEFT"),
            text("RENAME", "l", "l"),
            text("COPY", "l", "l"),
        ]
    ),
    "endless open": packed([text("MULTI")] * 1000 + [text("EXEC")] * 3),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_hostile_commands(content: bytes, tmp_path: Path) -> None:
    """Numbers at every edge cost neither the process nor its memory."""
    file = tmp_path / "appendonly.aof"
    file.write_bytes(packed([text("SELECT", 0), text("DEL", "nothing")]) + content)
    try:
        with snapshot(file) as source, open_keyspace(source, ReadOptions(moves=True)) as keyspace:
            assert keyspace.keys.num_rows < 5
    except JobsleuthError as error:
        assert error.message
