"""`jobsleuth job --db`: the same queue in several databases."""

from __future__ import annotations

import json
from pathlib import Path

from .conftest import FIXTURES, run_jobsleuth

HOSTILE = FIXTURES / "bullmq" / "v6-hostile"


def test_the_database_says_which_of_the_same_queue(tmp_path: Path) -> None:
    """Job 1 of `orders` is in databases 0 and 3 in other states, by BullMQ's own getState; --db chooses, else both."""
    answers = json.loads((HOSTILE / "expect" / "library.json").read_text())["queues"]
    states = {queue["db"]: queue["jobs"]["1"]["state"] for queue in answers.values() if queue["queue"] == "orders"}
    assert set(states) == {0, 3}
    assert len(set(states.values())) == 2
    case = tmp_path / "case"
    assert run_jobsleuth("analyze", HOSTILE / "evidence.rdb", "--out", case, "--quiet").returncode == 0
    both = json.loads(run_jobsleuth("job", case, "1", "--queue", "bull/orders", "--json").stdout)
    assert [(told["job"]["db"], told["job"]["state"]) for told in both] == sorted(states.items())
    for db, state in states.items():
        done = run_jobsleuth("job", case, "1", "--queue", "orders", "--db", str(db))
        assert done.stdout.startswith(f"1 in bull/orders (db {db}): {state}\n"), done.stdout
        assert done.stdout.count("bull/orders (db ") == 1
    none = run_jobsleuth("job", case, "1", "--queue", "orders", "--db", "7")
    assert (none.returncode, none.stdout) == (2, "")
    assert "no job 1 in queue orders of database 7" in none.stderr
