"""`jobsleuth job` for an id that no longer is a job: what still names it is told."""

from __future__ import annotations

import json
import re
from pathlib import Path

from .conftest import FIXTURES, run_jobsleuth

LEFTOVERS = FIXTURES / "asynq" / "leftovers-0.26.0"


def test_what_still_names_a_job_that_is_gone(tmp_path: Path) -> None:
    """A lock whose holder the library's Inspector has no more is told by its key, as the server has it; of an id that
    nothing names nothing is told but how to find ids."""
    keys = json.loads((LEFTOVERS / "expect" / "raw.json").read_text())["keys"]
    library = json.loads((LEFTOVERS / "expect" / "library.json").read_text())
    there = {id for queue in library["queues"].values() for id in queue["tasks"]}
    left = {k["value"]: k["key"] for k in keys if ":unique:" in str(k["key"]) and k["value"] not in there}
    assert left
    case = tmp_path / "case"
    assert run_jobsleuth("analyze", LEFTOVERS / "evidence.rdb", "--out", case, "--quiet").returncode == 0
    id, key = min(left.items())
    gone = run_jobsleuth("job", case, id)
    assert (gone.returncode, gone.stdout) == (2, "")
    assert f"no job {id}\n  Named by uniqueness {key} in asynq/" in gone.stderr
    assert re.search(r", until 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\S* UTC$", gone.stderr)
    nothing = run_jobsleuth("job", case, "no-such\x1b[31m")
    assert re.search(r"no job no-such\\x1b\[31m\n  (?i:jobsleuth) jobs \S+ lists the ids", nothing.stderr)
