"""Packed and piped evidence on the command line, and the second opinion."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[2] / "fixtures"
FAULTS = FIXTURES / "bullmq" / "v5-faults" / "evidence.rdb"
RDB9 = FIXTURES / "rdb9" / "every-encoding" / "evidence.rdb"
Run = Callable[..., subprocess.CompletedProcess[str]]


def fed(data: bytes, *words: str | Path, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    """Runs the command line with standard input."""
    command = [sys.executable, "-m", "jobsleuth", *map(str, words)]
    return subprocess.run(command, input=data, capture_output=True, cwd=cwd, timeout=120, check=False)


def test_cat_of_anything_is_cat_of_the_plain_file(run: Run, tmp_path: Path) -> None:
    """The same NDJSON from a packed file, from standard input, and from packed standard input; nothing is left."""
    plain = FAULTS.read_bytes()
    (tmp_path / "dump.xz").write_bytes(lzma.compress(plain))
    wanted = run("cat", FAULTS)
    assert wanted.returncode == 0
    assert run("cat", "dump.xz", "--tmpdir", tmp_path, cwd=tmp_path).stdout == wanted.stdout
    for data in (plain, gzip.compress(plain)):
        done = fed(data, "cat", "-", "--tmpdir", tmp_path, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.decode() == wanted.stdout
    assert [p.name for p in tmp_path.iterdir()] == ["dump.xz"]


def test_a_case_from_standard_input_says_that_it_cannot_be_compared(run: Run, tmp_path: Path) -> None:
    """`verify` of it holds, tells that the evidence is not there to compare, and names the hash it had."""
    data = gzip.compress(FAULTS.read_bytes())
    done = fed(data, "analyze", "-", "--out", "case", "--quiet", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    info = json.loads((tmp_path / "case" / "manifest.json").read_text())["evidence"][0]
    assert (info["path"], info["streamed"], info["bytes"]) == ("-", True, len(data))
    assert info["sha256"] == hashlib.sha256(data).hexdigest()
    assert info["inner"]["sha256"] == hashlib.sha256(FAULTS.read_bytes()).hexdigest()
    verified = run("verify", "case", cwd=tmp_path)
    assert verified.returncode == 0
    assert "0 of the evidence" in verified.stdout
    assert f"cannot be compared; its SHA-256 was {info['sha256']}" in verified.stdout
    assert json.loads(run("verify", "case", "--json", cwd=tmp_path).stdout)["streamed"] == [0]


def test_verify_holds_the_packed_file_against_its_own_hash(run: Run, tmp_path: Path) -> None:
    """Packed anew, the content is the same and the file is not: that is a difference."""
    packed = tmp_path / "dump.gz"
    packed.write_bytes(gzip.compress(FAULTS.read_bytes()))
    assert run("analyze", "dump.gz", "--out", "case", "--quiet", cwd=tmp_path).returncode == 0
    assert run("verify", "case", cwd=tmp_path).returncode == 0
    packed.write_bytes(gzip.compress(FAULTS.read_bytes(), compresslevel=1))
    done = run("verify", "case", cwd=tmp_path)
    assert done.returncode == 1
    assert "evidence 0: dump.gz" in done.stdout


@pytest.mark.parametrize("command", ["analyze", "cat", "crosscheck"])
def test_damaged_packing_exits_2_with_file_and_place(run: Run, tmp_path: Path, command: str) -> None:
    """One line with both, one with the way out; crosscheck compares what there is."""
    packed = gzip.compress(RDB9.read_bytes())[:20_000]
    (tmp_path / "dump.gz").write_bytes(packed)
    done = run(command, "dump.gz", *(["--out", "out"] if command != "crosscheck" else []), cwd=tmp_path)
    if command == "crosscheck":
        assert done.returncode == 1
        assert "could not read on" in done.stdout
    else:
        assert done.returncode == 2
        told = "jobsleuth: dump.gz: the gzip data is cut short: it ends before the compressed data does"
        assert done.stderr.splitlines()[0] == f"{told} (at byte 20,000)"
        assert "--salvage" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["dump.gz"]


def test_cat_in_a_salvage_says_what_was_odd(run: Run, tmp_path: Path) -> None:
    """A gzip file whose last check value is wrong: every key, the end line, and a note on standard error."""
    data = bytearray(gzip.compress(FAULTS.read_bytes()))
    data[-6] ^= 1
    (tmp_path / "dump.gz").write_bytes(bytes(data))
    done = run("cat", "dump.gz", "--salvage", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, run("cat", FAULTS).stdout)
    assert done.stderr.startswith("jobsleuth: note: the gzip data is damaged here (incorrect data check)")


def test_a_bomb_meets_the_limit_that_was_given(run: Run, tmp_path: Path) -> None:
    """The limit is named as the option is written."""
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(FAULTS.read_bytes() + bytes(30 << 20)))
    done = run("analyze", "bomb.gz", "--out", "case", "--max-spool-bytes", "1000000", cwd=tmp_path)
    assert done.returncode == 2
    assert "--max-spool-bytes allows 1,000,000" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["bomb.gz"]


def test_a_terminal_is_not_waited_for(tmp_path: Path) -> None:
    """Who forgets to pipe something in is told, not left waiting."""
    leader, follower = os.openpty()
    command = [sys.executable, "-m", "jobsleuth", "cat", "-"]
    done = subprocess.run(command, stdin=follower, capture_output=True, text=True, timeout=60, check=False)
    os.close(leader)
    os.close(follower)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("jobsleuth: standard input: is a terminal")


def test_crosscheck_tells_what_was_compared(run: Run) -> None:
    """Agreement exits 0; what rdbtools cannot tell of a stream is said."""
    pytest.importorskip("rdbtools", reason="needs jobsleuth[crosscheck]")
    done = run("crosscheck", RDB9)
    assert (done.returncode, done.stderr) == (0, "")
    assert "33 keys agree" in done.stdout
    assert "1 streams were compared by their number of entries only" in done.stdout
    assert json.loads(run("crosscheck", RDB9, "--json").stdout)["same"] is True


def test_crosscheck_of_a_newer_file_exits_2(run: Run) -> None:
    """The version is named, and what can be done."""
    pytest.importorskip("rdbtools", reason="needs jobsleuth[crosscheck]")
    done = run("crosscheck", FAULTS)
    assert (done.returncode, done.stdout) == (2, "")
    assert "is REDIS0010, and rdbtools reads RDB versions up to 9" in done.stderr


def test_a_string_beyond_the_limit_is_refused(run: Run, tmp_path: Path) -> None:
    """50,000 bytes where 1,000 were allowed: both numbers are told; at the limit it passes."""
    value = b"x" * 50_000
    string = b"\x01k\x80" + len(value).to_bytes(4, "big") + value
    (tmp_path / "dump.rdb").write_bytes(b"REDIS0009\xfe\x00\x00" + string + b"\xff" + bytes(8))
    done = run("cat", "dump.rdb", "--out", "keys", "--max-value-bytes", "1000", cwd=tmp_path)
    assert done.returncode == 2
    assert "one string of 50000 bytes, at most 1000 are allowed" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["dump.rdb"]
    assert run("cat", "dump.rdb", "--out", "keys", "--max-value-bytes", "50000", cwd=tmp_path).returncode == 0
