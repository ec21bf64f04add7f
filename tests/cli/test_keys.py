"""`jobsleuth keys` on a case made by hand, so that every sum is known."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobsleuth.case import CaseWriter, EvidenceInfo, Manifest, conform

Run = Callable[..., subprocess.CompletedProcess[str]]
NOW = 1_772_417_647_000
HOUR = 3_600_000
FAR = 253_402_300_799_999  # the last moment of the year 9999
HOSTILE = "evil\x1b[2J:\u202ename"


def key(name: str, nbytes: int, **more: Any) -> dict[str, Any]:
    return {
        "evidence": 0,
        "db": 0,
        "key": name,
        "type": "string",
        "encoding": "raw",
        "offset": 0,
        "nbytes": nbytes,
        "elements": None,
        "expired": False,
        **more,
    }


EMAILS = {"dialect": "bullmq", "namespace": "bull", "queue": "emails"}
KEYS = [
    key("bull:emails:1", 100, type="hash", elements=7, role="job", **EMAILS),
    key("bull:emails:2", 300, type="hash", elements=9, role="job", **EMAILS),
    key("bull:emails:wait", 50, type="list", elements=2000, role="wait", **EMAILS),
    key("cache:a:x", 1000, expire_at=NOW + 30_000),
    key("cache:a:y", 2000, expire_at=NOW + 2 * HOUR),
    key("cache:b", 500, expire_at=NOW - 1, expired=True),
    key("session", 40, expire_at=NOW + 40 * 24 * HOUR),
    key("forever", 10, expire_at=FAR),
    key(HOSTILE, 5, evidence=1),
    key("unclocked", 6, evidence=1, expire_at=NOW),
]


@pytest.fixture(scope="module")
def keys_case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("keys") / "case"
    schema = {f.name: f.type for f in conform("keys", pa.table({})).schema}
    names = list(dict.fromkeys(name for row in KEYS for name in row))
    rows = pa.table({n: pa.array([row.get(n) for row in KEYS], schema[n]) for n in names})
    evidence = [
        EvidenceInfo(0, "one.rdb", "00", 1, "rdb", as_of_ms=NOW),
        EvidenceInfo(1, "two.rdb", "11", 1, "rdb", as_of_ms=None),
    ]
    with CaseWriter(out) as writer:
        writer.append("keys", rows)
        writer.finish(Manifest("0", evidence=evidence))
    return out


@pytest.fixture
def ask(run: Run, keys_case: Path) -> Callable[..., list[dict[str, Any]]]:
    def ask(*words: str) -> list[dict[str, Any]]:
        done = run("keys", keys_case, *words, "--json")
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found

    return ask


Ask = Callable[..., list[dict[str, Any]]]


def test_the_biggest_come_first(ask: Ask) -> None:
    """By bytes unless told otherwise, by elements when told; unknown numbers of elements come last."""
    assert [(k["key"], k["nbytes"]) for k in ask("--top", "3")] == [
        ("cache:a:y", 2000),
        ("cache:a:x", 1000),
        ("cache:b", 500),
    ]
    most = ask("--by", "elements", "--top", "2")
    assert [(k["key"], k["elements"], k["queue"]) for k in most] == [
        ("bull:emails:wait", 2000, "bull/emails"),
        ("bull:emails:2", 9, "bull/emails"),
    ]
    assert len(ask("--top", "0")) == len(KEYS)


def test_prefixes_end_at_the_colon_that_was_asked_for(ask: Ask) -> None:
    """Keys, bytes, share of all bytes, elements, keys without expiry and the largest, worked out by hand."""
    found = ask("--group-by", "prefix")
    assert found[0] == {
        "prefix": "cache:",
        "keys": 3,
        "nbytes": 3500,
        "percent": round(100 * 3500 / 4011, 1),
        "elements": None,
        "no_expiry": 0,
        "largest": 2000,
    }
    assert [(g["prefix"], g["keys"], g["nbytes"]) for g in found[1:]] == [
        ("bull:", 3, 450),
        (None, 3, 56),
        ("evil\x1b[2J:", 1, 5),
    ]
    deeper = ask("--group-by", "prefix", "--prefix-depth", "2", "--top", "3")
    assert [(g["prefix"], g["nbytes"]) for g in deeper] == [("cache:a:", 3000), ("cache:", 500), ("bull:emails:", 450)]


def test_sums_by_queue_type_and_role(ask: Ask) -> None:
    """Keys of no queue are a group, too, so that nothing is missing from the sum."""
    by_queue = ask("--group-by", "queue")
    assert [(g["queue"], g["keys"], g["nbytes"], g["elements"]) for g in by_queue] == [
        (None, 7, 3561, None),
        ("bull/emails", 3, 450, 2016),
    ]
    assert [(g["type"], g["keys"]) for g in ask("--group-by", "type", "--by", "keys")] == [
        ("string", 7),
        ("hash", 2),
        ("list", 1),
    ]
    assert [g["role"] for g in ask("--group-by", "role", "--queue", "emails")] == ["job", "wait"]


def test_keys_that_never_expire(ask: Ask) -> None:
    """What fills a server for good: three of the queue, one of nobody."""
    assert [k["key"] for k in ask("--no-expiry")] == ["bull:emails:2", "bull:emails:1", "bull:emails:wait", HOSTILE]
    assert [k["key"] for k in ask("--no-expiry", "--type", "list")] == ["bull:emails:wait"]
    (group,) = ask("--no-expiry", "--group-by", "queue", "--queue", "emails")
    assert (group["keys"], group["no_expiry"], group["percent"]) == (3, 3, 100.0)


def test_expiry_is_told_from_the_snapshot_on(ask: Ask) -> None:
    """Time left at the snapshot, soonest first; unknown where the snapshot's time is; no year is too far."""
    assert [(g["expires"], g["keys"], g["nbytes"]) for g in ask("--histogram", "expiry")] == [
        ("expired already", 1, 500),
        ("within a minute", 1, 1000),
        ("within a day", 1, 2000),
        ("within a year", 1, 40),
        ("later", 1, 10),
        ("snapshot time unknown", 1, 6),
        ("never", 4, 455),
    ]


def test_hostile_names_stay_text(run: Run, keys_case: Path) -> None:
    """Neither a key nor a prefix moves the cursor."""
    for words in (["--top", "0"], ["--group-by", "prefix"], ["--format", "csv", "--top", "0"]):
        done = run("keys", keys_case, *words)
        assert done.returncode == 0
        if "csv" not in words:
            assert "\x1b" not in done.stdout
            assert "\u202e" not in done.stdout
            assert r"evil\x1b[2J:" in done.stdout


def test_a_table_says_how_much_there_is(run: Run, keys_case: Path) -> None:
    """The first rows of all, and how to see more."""
    assert run("keys", keys_case, "--top", "2").stdout.splitlines()[-1] == "2 of 10 rows; --top N shows more"


@pytest.mark.parametrize(
    "words", [["--by", "keys"], ["--group-by", "type", "--histogram", "expiry"], ["--group-by", "colour"]]
)
def test_questions_without_sense_are_refused(run: Run, keys_case: Path, words: list[str]) -> None:
    """Exit 2, one reason, no rows."""
    done = run("keys", keys_case, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr
