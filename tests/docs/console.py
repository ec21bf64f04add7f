"""Runs what a page of the documentation tells to type, in order, and holds its output against what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"^( *)```(\w+)([^\n]*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block: language, what stands behind it on the line, text."""

    language: str
    more: str
    text: str


def blocks(page: str) -> list[Block]:
    """Fenced blocks of a page, also indented ones."""
    return [Block(m[2], m[3], textwrap.dedent(m[4])) for m in _BLOCK.finditer(page)]


def steps(page: str) -> list[tuple[str, str]]:
    """(command, what the page shows below it) of every `$` line of the console blocks."""
    found = []
    for block in blocks(page):
        if block.language == "console":
            for step in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                command, _, shown = step.partition("\n")
                found.append((command, shown))
    return found


def shape(text: str) -> list[str]:
    """Lines without what differs from one making of the fixtures to the next: numbers, and how wide they are."""
    lines = [re.sub(r"[\s─]+", " ", re.sub(r"\d+", "N", line)).strip() for line in text.splitlines()]
    return [line for line in lines if line]


def environment(*first: Path, **more: str) -> dict[str, str]:
    """The environment of a user: `jobsleuth` and `python` of this installation on the path, no terminal."""
    folders = [*map(str, first), str(Path(sys.executable).parent), os.environ["PATH"]]
    env = {**os.environ, "PATH": os.pathsep.join(folders), "NO_COLOR": "1", **more}
    env.pop("COLUMNS", None)
    return env


def run(command: str, desk: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """One command in a shell, in the folder `desk`."""
    shell = ["bash", "-o", "pipefail", "-c", command]
    return subprocess.run(shell, cwd=desk, env=env, capture_output=True, text=True, timeout=120, check=False)


def follow(page: str, desk: Path, env: dict[str, str]) -> int:
    """Writes the files, types the commands and runs the Python of a page; the number of commands.

    Every command must succeed, ours in silence on standard error, and print what the page shows, if it shows anything.
    """
    for block in blocks(page):
        named = re.search(r'title="([\w.]+)"', block.more)
        if named:
            (desk / named[1]).write_text(block.text, encoding="utf-8")
    told = steps(page)
    for command, shown in told:
        done = run(command, desk, env)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        if command.startswith("jobsleuth "):
            assert done.stderr == "", command
        if shown.strip():
            assert shape(done.stdout) == shape(shown), command
    code = "\n".join(b.text for b in blocks(page) if b.language == "python" and not b.more.strip())
    if code:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=desk, env=env, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), code
    return len(told)
