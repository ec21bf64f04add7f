#!/usr/bin/env python3
"""Makes a dump larger than a server can be asked to: the keys of a real one again and again, under new queue names.

    python benchmarks/grow.py benchmarks/data/bullmq-300.rdb --times 14 --out benchmarks/data/bullmq-4g.rdb

What a server wrote stays as it is, value for value; only the names of keys change (`bull:emails:7` becomes
`bull:emails.3:7`, any other key gets the number in front), and the checksum is made anew. Not for Asynq, whose tasks
say which queue they belong to.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import struct
from pathlib import Path

import numpy as np

from jobsleuth.sources import RdbKeyspace, _native

_QUEUE = re.compile(rb"^(bull:\w+)(.*)$", re.DOTALL)
_SIZES = re.compile(rb"\xfb(?:[\x00-\x3f]|[\x40-\x7f].|\x80....){2}$", re.DOTALL)
"""What the file says of the number of keys, which is true no more."""
_GIB = 1 << 30


def length(count: int) -> bytes:
    """A length as RDB writes it."""
    if count < 1 << 6:
        return bytes([count])
    return struct.pack(">H", 0x4000 | count) if count < 1 << 14 else b"\x80" + struct.pack(">I", count)


def renamed(key: bytes, turn: int) -> bytes:
    """The key's name in the given turn."""
    found = _QUEUE.match(key)
    return b"%b.%d%b" % (found[1], turn, found[2]) if found else b"%d.%b" % (turn, key)


def grow(source: Path, times: int, out: Path) -> None:
    """Writes `source` with its keys `times` times over to `out`."""
    data = source.read_bytes()
    keys = RdbKeyspace.open(source).keys
    names: list[bytes] = keys.column("key").to_pylist()
    starts = keys.column("offset").to_numpy()
    ends = starts + keys.column("nbytes").to_numpy()
    if len(np.unique(keys.column("db").to_numpy())) != 1 or any(name.startswith(b"asynq:") for name in names):
        raise SystemExit("the dump must have one database, and nothing of Asynq in it")
    # An entry is what modifies it (an expiry, say), its type, the name, and the value: the name is found by its bytes.
    entries = []
    for name, start, end in zip(names, starts.tolist(), ends.tolist(), strict=True):
        spelled = length(len(name)) + name
        at = data.find(spelled, start, start + 32 + len(spelled))
        if at < 0:
            spelled = integer(name)
            at = data.index(spelled, start, start + 32)
        entries.append((data[start:at], name, memoryview(data)[at + len(spelled) : end]))
    with out.open("wb") as file:
        # Without what it says of the number of keys, which is true no more.
        file.write(
            re.sub(rb"\xfb(?:[\x00-\x3f]|[\x40-\x7f].|\x80....){2}$", b"", data[: int(starts[0])], flags=re.DOTALL)
        )
        for turn in range(times):
            for head, name, value in entries:
                new = renamed(name, turn) if turn else name
                file.write(b"".join((head, length(len(new)), new, value)))
        file.write(data[int(ends[-1]) : -8] + b"\x01" * 8)
    info = json.loads(_native.index(os.fspath(out), True, 2 * _GIB, None).info())
    with out.open("r+b") as file:
        file.seek(-8, os.SEEK_END)
        file.write(int(info["checksum"]["computed"], 16).to_bytes(8, "little"))
    print(f"{out}: {out.stat().st_size:,} bytes, {times * len(names):,} keys")


def integer(name: bytes) -> bytes:
    """A name that is a whole number, as RDB writes it."""
    number = int(name)
    for code, form in ((0xC0, "<b"), (0xC1, "<h"), (0xC2, "<i")):
        if -(1 << 8 * struct.calcsize(form) - 1) <= number < 1 << 8 * struct.calcsize(form) - 1:
            return bytes([code]) + struct.pack(form, number)
    raise SystemExit(f"a key named {name!r} was not found")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--times", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    grow(options.source, options.times, options.out)


if __name__ == "__main__":
    main()
