"""The command line as a user runs it: a process of its own, judged by exit code, output and what it leaves behind."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[2] / "fixtures"
FAULTS = FIXTURES / "bullmq" / "v5-faults" / "evidence.rdb"

Run = Callable[..., subprocess.CompletedProcess[str]]


def run_jobsleuth(*words: str | Path, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    plain = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    return subprocess.run(
        [sys.executable, "-m", "jobsleuth", *map(str, words)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**plain, **env},
        timeout=120,
        check=False,
    )


def on_terminal(words: list[str], *, module: bool = True, **env: str) -> str:
    """What the command writes to a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    clean = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "FORCE_COLOR")}
    process = subprocess.Popen(
        [sys.executable, *(["-m", "jobsleuth"] if module else []), *words],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env={"TERM": "xterm-256color", **clean, **env},
    )
    os.close(theirs)
    pieces = []
    try:
        while piece := os.read(ours, 65536):
            pieces.append(piece)
    except OSError:
        pass  # Linux says EIO when the other side is closed.
    os.close(ours)
    process.wait(timeout=60)
    return b"".join(pieces).decode().replace("\r\n", "\n")


@pytest.fixture(scope="session")
def run() -> Run:
    """Runs the command line: words, then `cwd` and environment variables by name."""
    return run_jobsleuth


@pytest.fixture(scope="session")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A case of the BullMQ dump with one planted fault a queue."""
    out = tmp_path_factory.mktemp("cli") / "case"
    done = run_jobsleuth("analyze", FAULTS, "--out", out, "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return out
