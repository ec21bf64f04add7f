"""jobsleuth opens no socket: every command runs in a process to which the kernel grants none."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RDB = ROOT / "fixtures" / "bullmq" / "v5-crash-locks-expired" / "evidence.rdb"
LISTS = ROOT / "fixtures" / "lists" / "plain-7.0.15" / "evidence.rdb"
AOF = ROOT / "fixtures" / "aof" / "bullmq-v5-vanished"
NUMBERS = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
"""Machine → the kernel's number for it, and that of its call `socket`."""

GUARD = """
import ctypes, socket, struct, sys
arch, number = {arch}, {number}
code = [
    (0x20, 0, 0, 4),                 # which machine is this?
    (0x15, 0, 2, arch),              # ours: go on; else let be
    (0x20, 0, 0, 0),                 # which call?
    (0x15, 1, 0, number),            # `socket`: refuse
    (0x06, 0, 0, 0x7FFF0000),        # let be
    (0x06, 0, 0, 0x00050000 | 13),   # EACCES
]
body = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
program = Program(len(code), ctypes.addressof(body))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0, ctypes.get_errno()
try:
    socket.socket()
except PermissionError:
    pass
else:
    sys.exit("sockets are granted: nothing would be proven")
from jobsleuth.cli.main import main
sys.argv = ["jobsleuth", *sys.argv[1:]]
sys.exit(main())
"""

COMMANDS = [
    ["analyze", RDB, "--out", "case"],
    ["analyze", AOF, "--out", "aof"],
    ["cat", RDB, "--out", "export.ndjson"],
    ["cat", AOF, "--out", "aof.ndjson"],
    ["analyze", "export.ndjson", "--out", "exported"],
    ["check", "case", "--fail-on", "never"],
    ["check", "case", "--fail-on", "never", "--format", "sarif"],
    ["report", "case", "--out", "page.html"],
    ["queues", "case"],
    ["jobs", "case"],
    ["keys", "case"],
    ["sql", "case", "select count(*) from jobs"],
    ["guess", RDB],
    ["layout", "test", LISTS, "--layout", LISTS.parents[1] / "layouts.toml"],
    ["explain"],
    ["explain", "MB001"],
    ["timeline", "aof", "deleted-by-hand"],
    ["job", "aof", "still-active"],
    ["export", "case", "--stuck", "--out", "stuck.ndjson"],
    ["baseline", "case", "--out", "baseline.json"],
    ["verify", "case"],
    ["demo"],
    ["--version"],
]


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in NUMBERS,
    reason="needs a Linux kernel to refuse sockets: it was NOT proven that none is opened",
)
def test_every_command_without_sockets(tmp_path: Path) -> None:
    """The kernel refuses `socket` to the whole process, compiled code too; every command does its work all the same."""
    arch, number = NUMBERS[platform.machine()]
    guard = GUARD.format(arch=arch, number=number)
    for command in COMMANDS:
        done = subprocess.run(
            [sys.executable, "-c", guard, *map(str, command)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env={**os.environ, "JOBSLEUTH_DEBUG": "1"},
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)


def test_every_command_is_among_them() -> None:
    """A new command has to be proven, too. (`crosscheck` needs a package that may not be installed.)"""
    told = subprocess.run([sys.executable, "-m", "jobsleuth", "--help"], capture_output=True, text=True, check=True)
    known = {str(command[0]) for command in COMMANDS} | {"crosscheck"}
    listed = {line.split()[1] for line in told.stdout.splitlines() if line.startswith("│ ") and line[2:3].isalpha()}
    assert listed
    assert listed <= known
