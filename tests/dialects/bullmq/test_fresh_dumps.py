"""The same comparisons on dumps that the published releases make now: they hold for more than the committed files."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from . import test_against_library, test_against_server
from .conftest import FIXTURES, Evidence, read

RELEASES = {
    "bull3": "3.29.3",
    "bull4": "4.16.5",
    "v1.23": "1.23.0",
    "v1": "1.91.1",
    "v2": "2.4.0",
    "v3": "3.15.8",
    "v4": "4.18.3",
    "v5.0": "5.0.0",
    "v5.40": "5.40.5",
    "v5": "5.81.5",
    "v6": "6.7.0",
}
"""Folder that pins the release → the release."""


def _wanted(release: str) -> list[str]:
    wanted = ["every-state" if release in ("v5", "v6") else "every-structure", "names"]
    if release in ("v3", "v4", "v5.0", "v5.40", "v5", "v6"):
        wanted.append("priorities")
    return [f"{release}-{name}" for name in wanted]


def _checks() -> Iterator[Callable[..., None]]:
    """Every comparison of one dump, those with parameters once for each."""
    for module in (test_against_library, test_against_server):
        for name, check in vars(module).items():
            if not name.startswith("test_") or "evidence" not in check.__code__.co_varnames:
                continue
            marks = [m for m in getattr(check, "pytestmark", []) if m.name == "parametrize"]
            if not marks:
                yield check
            for mark in marks:
                for values in mark.args[1]:
                    given = dict(zip(mark.args[0], values, strict=True))
                    yield lambda evidence, check=check, given=given: check(evidence, **given)


@pytest.mark.integration
@pytest.mark.parametrize("release", RELEASES)
def test_every_id_of_a_fresh_dump_is_as_the_library_says(release: str, tmp_path: Path) -> None:
    """Installed afresh, the release makes jobs in every state: every id, count and field as it and the server say."""
    for tool in ("node", "npm", "redis-server"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: no fresh dumps were compared")
    script = FIXTURES.parent / "make" / "bullmq" / "make.sh"
    made = subprocess.run(["sh", script, tmp_path, *_wanted(release)], capture_output=True, text=True, timeout=300)
    if made.returncode and any(sign in made.stderr for sign in ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT")):
        pytest.skip("the library could not be fetched: no fresh dumps were compared")
    assert made.returncode == 0, made.stderr
    checks = list(_checks())
    assert len(checks) > 30
    for name in _wanted(release):
        fresh: Evidence = read(tmp_path / name / "evidence.rdb")
        assert fresh.library["version"] == RELEASES[release]
        ids = sum(len(queue["jobs"]) for queue in fresh.library["queues"].values())
        assert ids > (20 if name.endswith("-priorities") else 40)
        for check in checks:
            check(fresh)
