#!/usr/bin/env python3
"""Times jobsleuth and parse-only peers on the same files in one run, and prints medians and ratios.

    python benchmarks/run.py benchmarks/data/*.rdb [--runs 5] [--peer-python PYTHON] [--json OUT]

Every command is a whole process, start-up included; the file is in the page cache after the warm-up. Commands take
turns (A B C A B C …), so that a drift of the machine's speed hits all alike. Peers are parse-only: they iterate over
the file and throw away what they read.

rdb-py     `rdb.RdbDecoder`, bare iteration (Rust behind Python)
rdbtools   `RdbParser` with its empty callback (RDB 9 and older only; others are skipped)
librdb     its null handler, if a binary is given with --librdb

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
RDBTOOLS = "import sys, rdbtools\nrdbtools.RdbParser(rdbtools.RdbCallback(None)).parse(sys.argv[1])"


@dataclass(frozen=True)
class Run:
    """One whole-process run: seconds of wall clock, seconds of CPU, peak resident bytes."""

    wall: float
    cpu: float
    peak: int


def measure(command: list[str]) -> Run | None:
    """Runs one command; None when it fails (a peer that cannot read the file)."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        return None
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Run(wall, usage.ru_utime + usage.ru_stime, peak)


def commands(file: Path, peer: str, librdb: str | None, scratch: Path) -> dict[str, list[str]]:
    """Name → command line, for one file."""
    jobsleuth = [sys.executable, "-m", "jobsleuth"]
    index = "import sys\nfrom pathlib import Path\nfrom jobsleuth.sources import RdbKeyspace\n"
    every = {
        "index": [sys.executable, "-c", index + "RdbKeyspace.open(Path(sys.argv[1]))", str(file)],
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
    return every


def bench(file: Path, runs: int, peer: str, librdb: str | None) -> dict[str, list[Run]]:
    """All commands on one file, in turns, after one warm-up each."""
    scratch = Path(tempfile.mkdtemp(prefix="jobsleuth-bench-"))
    try:
        every = commands(file, peer, librdb, scratch)
        slow = {"rdbtools"}
        seen: dict[str, list[Run]] = {name: [] for name in every}
        for turn in range(runs + 1):
            for name, command in every.items():
                if name in slow and turn > 1:
                    continue
                run = measure(command)
                if run is not None and turn > 0:
                    seen[name].append(run)
        return seen
    finally:
        shutil.rmtree(scratch)


def table(file: Path, seen: dict[str, list[Run]]) -> list[str]:
    """The result as lines of Markdown."""
    size = file.stat().st_size
    base = statistics.median(r.wall for r in seen["rdb-py"]) if seen["rdb-py"] else None
    lines = [
        f"### {file.name}, {size / 1e6:,.0f} MB",
        "",
        "| command | wall s (min–max) | MB/s | CPU s | peak MB | times as fast as rdb-py |",
        "|---|---|---|---|---|---|",
    ]
    for name, all_runs in seen.items():
        if not all_runs:
            lines.append(f"| {name} | cannot read this file | | | | |")
            continue
        walls = [r.wall for r in all_runs]
        wall = statistics.median(walls)
        cpu = statistics.median(r.cpu for r in all_runs)
        peak = max(r.peak for r in all_runs) / 1e6
        ratio = f"{base / wall:.1f}" if base is not None else "–"
        span = f"{wall:.2f} ({min(walls):.2f}–{max(walls):.2f})"
        lines.append(f"| {name} | {span} | {size / 1e6 / wall:,.0f} | {cpu:.2f} | {peak:,.0f} | {ratio} |")
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--librdb", help="a binary that parses the file given to it with librdb's null handler")
    parser.add_argument("--json", type=Path, help="also write every single run here")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    everything = {}
    for file in options.files:
        seen = bench(file, options.runs, options.peer_python, options.librdb)
        everything[file.name] = {name: [vars(r) for r in all_runs] for name, all_runs in seen.items()}
        print("\n".join(table(file, seen)), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
