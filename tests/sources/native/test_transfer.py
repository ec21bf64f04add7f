"""Snapshots that came through a pipe from a server that sends them without a disk."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jobsleuth.pipeline import AnalyzeOptions, analyze
from tests.conftest import RedisServer


def test_the_mark_behind_a_transfer_is_known(server: RedisServer, tmp_path: Path) -> None:
    """The real redis-cli leaves the server's mark behind the snapshot: it is told as what it is, at its place, and is
    no finding; a snapshot with other 40 bytes behind it is one."""
    cli = shutil.which("redis-cli")
    if cli is None:
        pytest.skip("redis-cli is not installed: NOTHING was transferred")
    server.configure(repl_diskless_sync="yes", repl_diskless_sync_delay=0)
    server.client().set("k", "v")
    run = [cli, "-s", str(server.folder / "s"), "--rdb", "-"]
    sent = subprocess.run(run, capture_output=True, check=True).stdout
    whole = sent[:-40]
    assert whole.startswith(b"REDIS") and set(sent[-40:]) <= set(b"0123456789abcdef")
    dump = tmp_path / "dump.rdb"
    for data, kind, findings in ((sent, "transfer_end_mark", []), (whole + b"x" * 40, "trailing_bytes", ["EV004"])):
        dump.write_bytes(data)
        case = analyze([dump], tmp_path / "case", AnalyzeOptions(force=True))
        (warning,) = case.manifest.evidence[0].warnings
        assert (warning.kind, warning.offset, warning.count) == (kind, len(whole), 40)
        assert case.manifest.evidence[0].checksum["status"] == "ok"
        assert case.arrow("findings", ["check_id"]).column("check_id").to_pylist() == findings
        cat = subprocess.run([sys.executable, "-m", "jobsleuth", "cat", str(dump)], capture_output=True, check=True)
        assert json.loads(cat.stdout.splitlines()[-1])["end"] is True
        told = cat.stderr.decode()
        assert ("mark that ends a transfer" in told) == (kind == "transfer_end_mark"), told
