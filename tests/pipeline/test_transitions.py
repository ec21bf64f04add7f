"""The moves of jobs that an append-only file tells, held against what the libraries answered after each step."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobsleuth.case import Case, open_case
from jobsleuth.pipeline import AnalyzeOptions, analyze
from jobsleuth.reports import timelines
from tests.conftest import RedisServer
from tests.sources.commands import packed, text

FIXTURES = sorted((Path(__file__).parents[2] / "fixtures" / "aof").glob("*/story.json"))
MOVING = {
    "bullmq": {"wait", "paused", "active", "delayed", "prioritized", "completed", "failed", "waiting-children"},
    "asynq": {"pending", "active", "scheduled", "retry", "archived", "completed"},
}
STATES = {"wait": "waiting", "paused": "waiting"}
"""Structures that the library calls otherwise."""


@pytest.fixture(scope="module", params=FIXTURES, ids=lambda p: p.parent.name)
def lived(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Case, dict[str, Any], Path]:
    story: Path = request.param
    case = analyze([story.parent], tmp_path_factory.mktemp("case") / "case", AnalyzeOptions())
    return case, json.loads(story.read_text()), story.parent


def moves(case: Case) -> list[dict[str, Any]]:
    table: pa.Table = case.arrow("transitions")
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def test_the_fixtures_are_there() -> None:
    """Both libraries have lived in a file: without them nothing would be compared."""
    assert [p.parent.name.split("-")[0] for p in FIXTURES] == ["asynq", "bullmq"]


def test_each_step_leads_where_the_library_said(lived: tuple[Case, dict[str, Any], Path]) -> None:
    """After each step, the place that a job's moves lead to by that second is the state that the library answered."""
    case, story, _ = lived
    rows = moves(case)
    moving = MOVING[rows[0]["dialect"]]
    compared = 0
    for step in story["steps"]:
        for job_id, state in step["states"].items():
            place, record = None, False
            for row in rows:
                if row["job_id"] != job_id or row["at"].timestamp() * 1000 > step["at_ms"]:
                    continue
                if row["from_structure"] in moving or row["to_structure"] in moving:
                    assert row["from_structure"] in (place, None), row
                    place = row["to_structure"]
                if "record" in (row["from_structure"], row["to_structure"]):
                    record = row["to_structure"] == "record"
            if not record and rows[0]["dialect"] == "asynq":
                place = None  # without a record the library knows no task
            assert STATES.get(str(place), place or "unknown") == state, (step["what"], job_id)
            compared += 1
    assert compared > 50


def test_the_file_has_the_command_there(lived: tuple[Case, dict[str, Any], Path]) -> None:
    """At the place given in the file given stands the command given; of two, the first."""
    case, _, folder = lived
    for row in moves(case):
        data = (folder / row["file"]).read_bytes()[row["file_offset"] :]
        name = row["command"].split(", ")[0].encode()
        assert data.startswith(b"*")
        assert data.split(b"\r\n")[2].upper() == name


def test_the_end_is_what_the_membership_table_says(lived: tuple[Case, dict[str, Any], Path]) -> None:
    """Who follows all moves ends with the rows of `membership`, which were read from the keys."""
    case, _, _ = lived
    there: set[tuple[str, str]] = set()
    for row in moves(case):
        there.discard((row["job_id"], row["from_structure"]))
        if row["to_structure"] is not None:
            there.add((row["job_id"], row["to_structure"]))
    told = {
        (row["job_id"], row["structure"])
        for row in case.arrow("membership").to_pylist()
        if row["structure"] not in ("marker", "repeat")
    }
    assert {pair for pair in there if pair[1] not in ("record", "lock")} == told
    assert {job for job, place in there if place == "record"} == {
        row["job_id"] for row in case.arrow("jobs").to_pylist() if row["has_record"]
    }


def test_which_command_removed_it(lived: tuple[Case, dict[str, Any], Path]) -> None:
    """A record that someone deleted by hand is told apart from one that the library removed."""
    case, story, _ = lived
    by_hand, by_library = "deleted-by-hand", "removed-by-library"
    if by_library not in story["steps"][-1]["states"]:
        by_library = "deleted-by-library"
    (hand,) = timelines(case, by_hand)
    (removal,) = hand.removals()
    assert (removal["command"], removal["transaction_number"]) == ("DEL", None)
    assert removal["was_in"] in ("paused", "scheduled")
    when = next(step["at_ms"] for step in story["steps"] if step["what"] == "someone deleted a record")
    assert 0 <= when - removal["at"] < 2000
    (library,) = timelines(case, by_library)
    assert library.removals()[0]["transaction_number"] is not None
    assert timelines(case, "nobody") == []


def test_a_queue_that_is_wholly_gone_is_still_told(lived: tuple[Case, dict[str, Any], Path], tmp_path: Path) -> None:
    """After FLUSHALL no key is left, and the file still says where each job was when it was flushed."""
    case, _, folder = lived
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    file = next((copy / "appendonlydir").glob("*.incr.aof"))
    at = file.stat().st_size
    with file.open("ab") as out:
        out.write(packed([text("FLUSHALL")]))
    gone = analyze([copy], tmp_path / "case", AnalyzeOptions())
    assert gone.manifest.evidence[0].counts["keys"] == 0
    assert gone.arrow("jobs").num_rows == 0
    before, after = moves(case), moves(gone)
    assert len(after) > len(before)
    flushed = [row for row in after if row["command"] == "FLUSHALL"]
    assert {row["file_offset"] for row in flushed} == {at}
    records = {row["job_id"] for row in case.arrow("jobs").to_pylist() if row["has_record"]}
    assert {row["job_id"] for row in flushed if row["from_structure"] == "record"} == records


def test_until_there_are_no_later_moves(lived: tuple[Case, dict[str, Any], Path], tmp_path: Path) -> None:
    """Replayed up to a moment, the moves are those up to it."""
    case, story, folder = lived
    until_ms = story["steps"][len(story["steps"]) // 2]["at_ms"]
    half = analyze([folder], tmp_path / "case", AnalyzeOptions(until_ms=until_ms))
    expected = [row for row in moves(case) if row["at"].timestamp() * 1000 <= until_ms]
    assert moves(half) == expected
    assert half.manifest.evidence[0].as_of_ms == until_ms


@pytest.mark.integration
@pytest.mark.parametrize("preamble", ["yes", "no"])
def test_what_a_rewrite_puts_there_is_no_move(preamble: str, tmp_path: Path) -> None:
    """A server that rewrites its file says anew what is there, in a snapshot or as commands. Nobody moved a job then:
    the moves are those that came after, and the keys are all there."""
    (tmp_path / "s").mkdir()
    server = RedisServer(
        tmp_path / "s", "--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", preamble
    )
    try:
        client = server.client()
        client.hset("bull:q:meta", "version", "bullmq:5.1.0")
        for job_id in ("1", "2"):
            client.hset(f"bull:q:{job_id}", mapping={"name": "n", "data": "{}", "opts": "{}", "timestamp": 1})
            client.lpush("bull:q:wait", job_id)
        client.bgrewriteaof()
        while (
            client.info("persistence")["aof_rewrite_in_progress"] or client.info("persistence")["aof_rewrite_scheduled"]
        ):
            time.sleep(0.05)
        client.rpoplpush("bull:q:wait", "bull:q:active")
    finally:
        server.stop()
    case = analyze([tmp_path / "s" / "appendonlydir"], tmp_path / "case", AnalyzeOptions())
    told = [(row["job_id"], row["from_structure"], row["to_structure"], row["command"]) for row in moves(case)]
    assert told == [("1", "wait", "active", "RPOPLPUSH")]
    assert {row["job_id"]: row["state"] for row in case.arrow("jobs").to_pylist()} == {"1": "active", "2": "waiting"}


def test_the_file_is_named_however_it_came(tmp_path: Path) -> None:
    """Plain, packed or through a pipe: who reads where a command stands learns in which bytes, each time the same."""
    commands = packed([text("SELECT", 0), text("HSET", "bull:q:meta", "version", "bullmq:5.1.0")])
    at = len(commands)
    commands += packed([text("LPUSH", "bull:q:wait", "1")])
    plain = tmp_path / "appendonly.aof"
    plain.write_bytes(commands)
    squeezed = tmp_path / "appendonly.aof.gz"
    squeezed.write_bytes(gzip.compress(commands))
    for evidence, name in ((plain, "appendonly.aof"), (squeezed, "appendonly.aof.gz (unpacked)")):
        case = analyze([evidence], tmp_path / f"{evidence.name}.case", AnalyzeOptions())
        assert [(row["file"], row["file_offset"]) for row in moves(case)] == [(name, at)]
    for data, name in ((plain, "standard input"), (squeezed, "standard input (unpacked)")):
        command = [sys.executable, "-m", "jobsleuth", "analyze", "-", "--out", tmp_path / "case", "--force"]
        subprocess.run(command, input=data.read_bytes(), check=True, capture_output=True)
        assert [row["file"] for row in moves(open_case(tmp_path / "case"))] == [name]


def test_a_snapshot_has_none(tmp_path: Path) -> None:
    """The table is there and empty."""
    rdb = FIXTURES[0].parents[2] / "bullmq" / "v5-healthy" / "evidence.rdb"
    assert moves(analyze([rdb], tmp_path / "case", AnalyzeOptions())) == []
