"""Dumps of what comes about seldom, or only in hours: told by the checks that are meant for it, and nothing beside."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path
from typing import Any

import pytest

from jobsleuth.dialects import Described
from jobsleuth.dialects.layouts.file import load_layouts
from jobsleuth.pipeline import AnalyzeOptions, analyze

ROOT = Path(__file__).parents[2]
FOLDERS = sorted((ROOT / "fixtures/rare").iterdir())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_it_is_told_and_nothing_beside_it(folder: Path, tmp_path: Path) -> None:
    """Exactly the findings that the maker of the dump wrote down beside it, of the file that it made."""
    facts: dict[str, Any] = tomllib.loads((folder / "case.toml").read_text(encoding="utf-8"))
    evidence = folder / facts["evidence"]["file"]
    assert hashlib.sha256(evidence.read_bytes()).hexdigest() == facts["evidence"]["sha256"]
    described = load_layouts(ROOT / facts["layouts"]) if "layouts" in facts else Described()
    case = analyze([evidence], tmp_path / "c", AnalyzeOptions(described=described))
    found = case.arrow("findings").to_pylist()
    assert sorted((f["check_id"], f["severity"], f["queue"] or "", f["job_id"] or "") for f in found) == sorted(
        (f["check"], f["severity"], f.get("queue", ""), f.get("job", "")) for f in facts["finding"]
    )
    holders = {(f["check_id"], f["job_id"]): f["held_by"] for f in found}
    for wanted in facts["finding"]:
        if "held_by" in wanted:
            assert holders[wanted["check"], wanted["job"]] == wanted["held_by"]
