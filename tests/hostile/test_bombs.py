"""Small files that unfold to much: read within bounded memory, or refused with the limit that they pass."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from jobsleuth.errors import EvidenceError
from jobsleuth.sources import RdbKeyspace, write_keyspace

from .damage import crc64

ELEMENTS = 8_000_000
ROOM_MB = 150
"""What a run may take beyond the value itself, expanded, and what an empty run takes."""


def length(n: int) -> bytes:
    return b"\x80" + n.to_bytes(4, "big")


def lzf_of_runs(head: bytes, run: bytes, times: int, tail: bytes) -> bytes:
    """LZF of `head`, `run` so many times, `tail`, where `run` is as long as its own period."""
    packed = bytearray([len(head) - 1, *head, len(run) - 1, *run])
    left = len(run) * (times - 1)
    while left:
        # The longest match is 264 bytes; the shortest is three, so that no smaller rest may be left over.
        n = left if left <= 264 else min(264, left - 3)
        back = len(run) - 1
        packed += bytes([(n - 2) << 5 | back >> 8, back & 0xFF] if n <= 8 else [0xE0 | back >> 8, n - 9, back & 0xFF])
        left -= n
    packed += bytes([len(tail) - 1, *tail])
    return bytes(packed)


def listpack_bomb(elements: int) -> bytes:
    """A set in one compressed listpack of so many small integers: two bytes each, 88 times smaller in the file."""
    size = 6 + 2 * elements + 1
    head = size.to_bytes(4, "little") + (0xFFFF).to_bytes(2, "little")
    packed = lzf_of_runs(head, b"\x07\x01", elements, b"\xff")
    value = b"\xc3" + length(len(packed)) + length(size) + packed
    body = b"REDIS0011\xfe\x00\x14\x04bomb" + value + b"\xff"
    return body + crc64(body).to_bytes(8, "little")


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bombs") / "listpack.rdb"
    path.write_bytes(listpack_bomb(ELEMENTS))
    assert path.stat().st_size < 2 * ELEMENTS / 80
    return path


SCRIPT = textwrap.dedent(
    """
    import json, re, sys
    from pathlib import Path
    import numpy as np
    from jobsleuth.sources import RdbKeyspace, write_keyspace
    # Not what getrusage tells: to it a new process has the peak of the one that started it.
    peak = lambda: int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) // 2**10
    before, what, path = peak(), sys.argv[1], Path(sys.argv[2])
    if what == "cat":
        write_keyspace(path, Path(sys.argv[3]))
        counted = 0
    else:
        keyspace = RdbKeyspace.open(path)
        counted = sum(batch.num_rows for batch in keyspace.elements(np.arange(keyspace.keys.num_rows)))
    print(json.dumps([counted, peak() - before]))
    """
)


def run(what: str, path: Path, out: Path) -> tuple[int, int]:
    """Elements counted, and MB that the work has added to the process."""
    command = [sys.executable, "-c", SCRIPT, what, str(path), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    counted, grown = json.loads(done.stdout)
    return counted, grown


def test_elements_of_a_bomb(bomb: Path, tmp_path: Path) -> None:
    """Eight million elements from 180 KB come as columns, batch by batch, without ever being held together."""
    counted, grown = run("elements", bomb, tmp_path / "out")
    assert counted == ELEMENTS
    assert grown < 2 * ELEMENTS / 2**20 + ROOM_MB


def test_lines_of_a_bomb(bomb: Path, tmp_path: Path) -> None:
    """The same in one line of `cat`, which is never held as a whole."""
    _, grown = run("cat", bomb, tmp_path / "out")
    assert grown < 2 * ELEMENTS / 2**20 + ROOM_MB
    assert (tmp_path / "out").stat().st_size > len('"7",') * ELEMENTS


def test_a_limit_refuses_it(bomb: Path, tmp_path: Path) -> None:
    """Over `--max-value-bytes` the value is refused: an error that names limit, key and place."""
    for verb in (
        lambda: write_keyspace(bomb, tmp_path / "out", max_value_bytes=1 << 20),
        lambda: (
            RdbKeyspace.open(bomb, max_value_bytes=1 << 20)
            .elements(RdbKeyspace.open(bomb).live.nonzero()[0])
            .read_all()
        ),
    ):
        with pytest.raises(
            EvidenceError, match="over the limit: one string of 16000007 bytes, at most 1048576"
        ) as refused:
            verb()
        assert refused.value.offset is not None
        assert refused.value.offset < 40
        assert '"bomb"' in str(refused.value)


def test_names_that_unfold_to_more_than_the_file_can_account_for(tmp_path: Path) -> None:
    """Names are kept of all keys: a hundred of a megabyte in 400 KB are refused at the first that passes four times
    the file and 64 MiB; a salvage keeps those before it."""
    size = 1_000_000
    packed = [lzf_of_runs(b"k%03d" % n, b"xy", (size - 8) // 2, b"end.") for n in range(100)]
    entries = [b"\x00\xc3" + length(len(p)) + length(size) + p + b"\x01v" for p in packed]
    body = b"REDIS0011\xfe\x00" + b"".join(entries) + b"\xff"
    path = tmp_path / "names.rdb"
    path.write_bytes(body + crc64(body).to_bytes(8, "little"))
    room = 4 * path.stat().st_size + (64 << 20)
    fits = room // size
    assert 60 < fits < 80
    with pytest.raises(EvidenceError) as refused:
        RdbKeyspace.open(path)
    assert refused.value.offset == 11 + sum(map(len, entries[:fits]))
    assert f"names of keys of {(fits + 1) * size} bytes, at most {room} are allowed" in str(refused.value)
    kept = RdbKeyspace.open(path, salvage=True)
    assert kept.keys.num_rows == fits and kept.facts.fault is not None and kept.facts.fault["kind"] == "limit"
    assert kept.keys.column("key")[5].as_py() == b"k005" + b"xy" * ((size - 8) // 2) + b"end."
