"""Damaged copies of real dumps: a cut is named with its place, a wrong checksum is no good result, and a salvage keeps
exactly what stands before the fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import jobsleuth
from jobsleuth.api import AnalyzeOptions
from jobsleuth.errors import EvidenceError
from jobsleuth.sources import RdbKeyspace, write_keyspace

from .truth import SERVERS, compare_cat, needs_corpus, past_ms, truth_of

pytestmark = needs_corpus

FOLDERS = sorted(SERVERS.glob("*/faults"))
FILES = [path for folder in FOLDERS for path in sorted(folder.glob("*.rdb")) if path.name != "good.rdb"]
HEADER = 9


def name_of(path: Path) -> str:
    return f"{path.parent.parent.name}/{path.stem}"


def done_to(path: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((path.parent / "faults.json").read_bytes())["files"][path.name]
    return told


def is_readable(told: dict[str, Any]) -> bool:
    """Whether it should be read. One that a server loads should not: "001 " for a version, of which it takes the 1."""
    loaded: bool = told["server"]["server_loads_it"]
    return loaded and told["kind"] != "bitflip"


def rows_of(keyspace: RdbKeyspace) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = keyspace.keys.to_pylist()
    return rows


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.parent.name)
def test_the_good_file(folder: Path, tmp_path: Path) -> None:
    """What the damaged copies were made from reads as the server said: the measure for the tests below."""
    truth = truth_of(folder / "good.rdb")
    write_keyspace(folder / "good.rdb", tmp_path / "out")
    got = compare_cat().parse((tmp_path / "out").read_bytes())
    assert compare_cat().differences(truth, got, past_ms(truth)) == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_verdict_is_the_servers(path: Path, tmp_path: Path) -> None:
    """What the server refused is an error with its place, in every verb, and leaves nothing behind; what the server
    loaded is read."""
    told = done_to(path)
    out = tmp_path / "out"
    if is_readable(told):
        truth = truth_of(path.parent / "good.rdb")
        remarks = write_keyspace(path, out)
        assert compare_cat().differences(truth, compare_cat().parse(out.read_bytes()), past_ms(truth)) == []
        keyspace = RdbKeyspace.open(path)
        assert keyspace.facts.fault is None
        if told["kind"] == "trailing":
            assert [(r.kind, r.count, r.offset) for r in keyspace.facts.remarks] == [
                ("trailing_bytes", told["added"], told["size"] - told["added"])
            ]
            assert [r.kind for r in remarks] == ["trailing_bytes"]
        else:
            assert keyspace.facts.checksum["status"] == "disabled"
        return
    with pytest.raises(EvidenceError) as refused:
        RdbKeyspace.open(path)
    assert refused.value.offset is not None
    assert 0 <= refused.value.offset <= told["size"]
    for verb in (lambda: write_keyspace(path, out), lambda: jobsleuth.analyze(path, tmp_path / "case")):
        with pytest.raises(EvidenceError) as also:
            verb()
        assert also.value.offset is not None
        assert also.value.offset <= told["size"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_salvage_keeps_what_stands_before(path: Path, tmp_path: Path) -> None:
    """A salvage of a cut file has exactly the keys that were whole before the cut, and says what is missing; of a file
    with a changed byte it says that nothing in it is sure, and of unchanged entries keeps all before the change."""
    told = done_to(path)
    if is_readable(told):
        return
    changed = told.get("at", told.get("offset"))
    if changed < HEADER:
        with pytest.raises(EvidenceError):
            RdbKeyspace.open(path, salvage=True)
        return
    good = rows_of(RdbKeyspace.open(path.parent / "good.rdb"))
    whole = [row for row in good if row["offset"] + row["nbytes"] <= changed]
    with jobsleuth.analyze(path, tmp_path / "case", AnalyzeOptions(salvage=True)) as case:
        info = case.manifest.evidence[0]
        kept = case.arrow("keys").to_pylist()
    got = rows_of(RdbKeyspace.open(path, salvage=True))
    assert len(kept) == len(got)
    assert got[: len(whole)] == whole
    if told["kind"] == "truncated":
        assert len(got) == len(whole)
        assert info.fault is not None
        assert info.fault["kind"] == "truncated"
        assert changed - 4096 <= info.fault["offset"] <= changed
        assert info.checksum["status"] == "unverified"
    else:
        mistrusted = info.checksum["status"] == "mismatch" and "wrong_checksum" in [w.kind for w in info.warnings]
        assert info.fault is not None or mistrusted
