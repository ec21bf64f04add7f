"""A snapshot and the keyspace NDJSON that `cat` makes of it give the same case, table by table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobsleuth.case import TABLES, Case
from jobsleuth.errors import JobsleuthError
from jobsleuth.pipeline import AnalyzeOptions, analyze
from jobsleuth.sources import write_keyspace

FIXTURES = sorted(Path(__file__).parents[2].glob("fixtures/*/*/evidence.rdb"))
CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
FAMILIES = sorted(p for p in [*CORPUS.glob("servers/*/"), *CORPUS.glob("rdb/*/")] if p.is_dir())

OF_THE_FILE = {"keys": {"offset", "nbytes", "elements"}}
"""Columns that speak of the file: a line of text has another place and size than an entry of a snapshot, and a snapshot
does not say the number of elements of every value."""


def test_the_fixtures_are_there() -> None:
    """Without them the comparison below would pass on nothing."""
    assert len(FIXTURES) >= 20


@pytest.mark.parametrize("rdb", FIXTURES, ids=lambda p: p.parent.name)
def test_fixture(rdb: Path, tmp_path: Path) -> None:
    """Every fixture, alone, with its findings."""
    assert_same([rdb], tmp_path)


@pytest.mark.corpus
@pytest.mark.skipif(not FAMILIES, reason="the shared corpus is absent: NOTHING was compared on real servers' dumps")
@pytest.mark.parametrize("family", FAMILIES, ids=lambda p: p.name)
def test_corpus(family: Path, tmp_path: Path) -> None:
    """Every dump of the corpus that can be read whole, those of one producer in one case."""
    readable = {}
    for rdb in sorted(family.rglob("*.rdb")):
        # What cannot be told apart as an export counts once.
        content = None if "faults" in rdb.parts else exported_content(rdb, tmp_path)
        if content is not None:
            readable.setdefault(content, rdb)
    if not readable:
        pytest.skip("no dump of its own that can be read whole")
    assert_same(list(readable.values()), tmp_path)


def exported_content(rdb: Path, folder: Path) -> str | None:
    """Hash of the export; None where there is none to compare: that the dump must be readable is tested elsewhere."""
    probe = folder / "probe.ndjson"
    probe.unlink(missing_ok=True)
    try:
        write_keyspace(rdb, probe)
    except JobsleuthError:
        return None
    keys = [(line["db"], repr(line["key"])) for line in map(json.loads, probe.open()) if "key" in line]
    if len(set(keys)) < len(keys):
        # No server writes a key twice, joined dumps do; an export keeps the later one, see test_ndjson.
        return None
    return hashlib.sha256(probe.read_bytes()).hexdigest()


def assert_same(snapshots: Sequence[Path], folder: Path) -> None:
    exports = []
    for number, rdb in enumerate(snapshots):
        exports.append(folder / f"{number}.ndjson")
        write_keyspace(rdb, exports[-1])
    direct = analyze(snapshots, folder / "direct", AnalyzeOptions())
    exported = analyze(exports, folder / "exported", AnalyzeOptions())
    for one, other in zip(direct.manifest.evidence, exported.manifest.evidence, strict=True):
        assert (other.format, other.as_of_ms, other.atomic) == ("keyspace-ndjson", one.as_of_ms, True)
        assert other.redis_version == one.redis_version
        assert other.fault is None
    for table in TABLES:
        expected, actual = rows(direct, table.name), rows(exported, table.name)
        assert actual == expected, f"table {table.name}"


def rows(case: Case, table: str) -> list[dict[str, Any]]:
    """The rows in their order, without what may differ."""
    arrow: pa.Table = case.arrow(table)
    arrow = arrow.drop_columns(sorted(OF_THE_FILE.get(table, set())))
    found: list[dict[str, Any]] = arrow.to_pylist()
    if table in ("findings", "checks"):
        for row in found:
            if "details" in row:
                row["details"] = {name: value for name, value in json.loads(row["details"]).items() if name != "nbytes"}
        # Those about the evidence itself.
        return [row for row in found if not row["check_id"].startswith("EV") or row["check_id"] == "EV003"]
    return found
