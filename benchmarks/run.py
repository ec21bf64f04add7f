#!/usr/bin/env python3
"""Times jobsleuth and parse-only peers on the same files in one run, and prints medians and ratios.

    python benchmarks/run.py benchmarks/data/*.rdb [--runs 5] [--peer-python PYTHON] [--json OUT]

Every command is a whole process, start-up included, but for `index pass`, which is timed inside of it. The file is in
the page cache after the warm-up. Commands take turns (A B C A B C …), so that a drift of the machine's speed hits all
alike. Peers are parse-only: they iterate over the file and throw away what they read. Ratios are of wall clock; where
the machine is busy, go by the CPU seconds.

rdb-py     `rdb.RdbDecoder`, bare iteration (Rust behind Python)
rdbtools   `RdbParser` with its empty callback (RDB 9 and older only; others are skipped)
librdb     its null handler, if a binary is given with --librdb
           and its handler that writes JSON, as `cat` does, if one is given with --librdb-json (file, output)

`--peer-python` is an interpreter that has rdb-py and rdbtools; by default the one that runs this file.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

RDB_PY = "import rdb, sys\nfor _ in rdb.RdbDecoder(sys.argv[1]): pass"
PASS = "index pass"
JSON = "librdb JSON"
INDEX = """
import sys, time
from pathlib import Path
from jobsleuth.cli import lean
lean.trim()  # as every command does; numpy's idle threads would keep the second core busy
from jobsleuth.sources import RdbKeyspace
wall, cpu = time.perf_counter(), time.process_time()
RdbKeyspace.open(Path(sys.argv[1]))
print(time.perf_counter() - wall, time.process_time() - cpu)
"""
RDBTOOLS = "import sys, rdbtools\nrdbtools.RdbParser(rdbtools.RdbCallback(None)).parse(sys.argv[1])"


@dataclass(frozen=True)
class Run:
    """One whole-process run: seconds of wall clock, seconds of CPU, peak resident bytes."""

    wall: float
    cpu: float
    peak: int


def measure(command: list[str], timed_inside: bool = False) -> Run | None:
    """Runs one command; None when it fails (a peer that cannot read the file).

    With `timed_inside` the command prints its own wall clock and CPU seconds.
    """
    # An installed package has its modules compiled; one that is run from its sources may keep what it compiles.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    out = subprocess.PIPE if timed_inside else subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL, env=environment)
    told = process.stdout.read() if process.stdout is not None else b""
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        return None
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    if timed_inside:
        wall, cpu = map(float, told.split())
        return Run(wall, cpu, peak)
    return Run(wall, usage.ru_utime + usage.ru_stime, peak)


def commands(file: Path, peer: str, librdb: str | None, librdb_json: str | None, scratch: Path) -> dict[str, list[str]]:
    """Name → command line, for one file."""
    jobsleuth = [sys.executable, "-m", "jobsleuth"]
    every = {
        PASS: [sys.executable, "-c", INDEX, str(file)],
        "analyze": [*jobsleuth, "analyze", str(file), "--out", str(scratch / "case"), "--force", "--quiet"],
        "analyze --payload none": [
            *(*jobsleuth, "analyze", str(file), "--out", str(scratch / "bare"), "--force", "--quiet"),
            *("--payload", "none"),
        ],
        "cat": [*jobsleuth, "cat", str(file)],
        "rdb-py": [peer, "-c", RDB_PY, str(file)],
    }
    with file.open("rb") as opened:
        version = opened.read(9)[5:]
    if version <= b"0009":
        every["rdbtools"] = [peer, "-c", RDBTOOLS, str(file)]
    if librdb is not None:
        every["librdb null"] = [librdb, str(file)]
    if librdb_json is not None:
        every[JSON] = [librdb_json, str(file), os.devnull]
    return every


def bench(file: Path, runs: int, peer: str, librdb: str | None, librdb_json: str | None) -> dict[str, list[Run]]:
    """All commands on one file, in turns, after one warm-up each."""
    scratch = Path(tempfile.mkdtemp(prefix="jobsleuth-bench-"))
    try:
        every = commands(file, peer, librdb, librdb_json, scratch)
        slow = {"rdbtools", JSON}
        seen: dict[str, list[Run]] = {name: [] for name in every}
        for turn in range(runs + 1):
            for name, command in every.items():
                if name in slow and turn > 1:
                    continue
                run = measure(command, timed_inside=name == PASS)
                if run is not None and turn > 0:
                    seen[name].append(run)
        return seen
    finally:
        shutil.rmtree(scratch)


_BASES = ("rdb-py", "librdb null", JSON)
"""What the others are held against: a ratio above 1 is faster than that."""


def table(file: Path, seen: dict[str, list[Run]]) -> list[str]:
    """The result as lines of Markdown."""
    size = file.stat().st_size
    bases = [statistics.median(r.wall for r in seen[name]) for name in _BASES if seen.get(name)]
    named = [name for name in _BASES if seen.get(name)]
    lines = [
        f"### {file.name}, {size / 1e6:,.0f} MB",
        "",
        f"| command | wall s (min–max) | MB/s | CPU s | peak MB |{''.join(f' × {name} |' for name in named)}",
        f"|---|---|---|---|---|{'---|' * len(named)}",
    ]
    for name, all_runs in seen.items():
        if not all_runs:
            lines.append(f"| {name} | cannot read this file | | | |{' |' * len(named)}")
            continue
        walls = [r.wall for r in all_runs]
        wall = statistics.median(walls)
        cpu = statistics.median(r.cpu for r in all_runs)
        peak = max(r.peak for r in all_runs) / 1e6
        ratios = "".join(f" {base / wall:.2f} |" for base in bases)
        span = f"{wall:.2f} ({min(walls):.2f}–{max(walls):.2f})"
        lines.append(f"| {name} | {span} | {size / 1e6 / wall:,.0f} | {cpu:.2f} | {peak:,.0f} |{ratios}")
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--librdb", help="a binary that parses the file given to it with librdb's null handler")
    parser.add_argument("--librdb-json", help="a binary that writes its first file as JSON to its second")
    parser.add_argument("--json", type=Path, help="also write every single run here")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    everything = {}
    for file in options.files:
        seen = bench(file, options.runs, options.peer_python, options.librdb, options.librdb_json)
        everything[file.name] = {name: [vars(r) for r in all_runs] for name, all_runs in seen.items()}
        print("\n".join(table(file, seen)), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
