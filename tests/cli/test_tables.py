"""Tables on a terminal: what is shown can be read and typed, what is not shown is named."""

from __future__ import annotations

import json
import subprocess
import unicodedata
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
IDS = [str(uuid.uuid5(uuid.NAMESPACE_URL, str(n))) for n in range(3)] + ["日本語の識別子" * 8]
NAME = "send the welcome mail with a name that is longer than any window has room for"


@pytest.fixture(scope="module")
def case(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A queue of BullMQ with ids as long as a UUID and longer, waiting."""
    folder = tmp_path_factory.mktemp("wide")
    keys = [
        {"db": 0, "key": "bull:mail:meta", "type": "hash", "value": [["version", "bullmq:5.30.0"]]},
        {"db": 0, "key": "bull:mail:wait", "type": "list", "value": IDS},
    ]
    for one in IDS:
        fields = [["name", NAME], ["data", "{}"], ["opts", "{}"], ["timestamp", "1772417587000"]]
        keys.append({"db": 0, "key": f"bull:mail:{one}", "type": "hash", "value": fields})
    head = {"format": "jobsleuth-keyspace", "version": 1, "as_of_ms": 1772417647000, "atomic": True}
    lines = [head, *keys, {"end": True, "keys": len(keys)}]
    (folder / "dump.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert run("analyze", "dump.ndjson", "--out", "case", "-q", cwd=folder).returncode == 0
    return folder / "case"


def cells(line: str) -> int:
    """Cells by Unicode's own East Asian width."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line.rstrip())


@pytest.mark.parametrize("columns", [80, 100, 160])
def test_an_id_can_be_typed(run: Run, case: Path, columns: int) -> None:
    """At each width every UUID is whole, no row is wider than the window, and each column is shown or named."""
    told = run("jobs", case, COLUMNS=str(columns)).stdout
    assert [line for line in told.splitlines() if cells(line) > columns] == []
    assert all(one in told for one in IDS[:3])
    for column in ("queue", "job_id", "state", "name", "attempts", "error", "created_at", "started_at"):
        assert column in told
    assert "no value in any row: error, scheduled_at, started_at, finished_at" in " ".join(told.split())


def test_a_narrow_window_shows_the_beginning_of_ids(run: Run, case: Path) -> None:
    """Forty columns: twenty cells of an id, more than any other column, and what has no room is named."""
    told = run("jobs", case, COLUMNS="40").stdout
    assert all(one[:18] in told for one in IDS[:3])
    assert "no room for " in told
    assert [line for line in told.splitlines() if cells(line) > 40] == []


def test_a_number_is_whole_or_not_there(run: Run, case: Path) -> None:
    """Half a number would be another number."""
    query = "select 12345678901234567 as n, repeat('x', 300) as t, 98765432109876543 as m, 5 as last"
    told = run("sql", case, query, COLUMNS="44").stdout
    assert "12345678901234567" in told
    assert "98765432109876543" not in told and "9876…" not in told
    assert "no room for m, last:" in told


def test_a_pipe_gets_all_columns(run: Run, case: Path) -> None:
    """Without a width nothing is left out and nothing is said of it."""
    told = run("jobs", case).stdout
    assert "finished_at" in told.splitlines()[0]
    assert NAME in told
    assert "no room" not in told and "no value" not in told
