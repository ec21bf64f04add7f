"""The same comparisons on dumps that the real library makes now: they hold for more than the committed files."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from . import test_library_answers as answers
from .conftest import FIXTURES, Fixture

SCENARIOS = ("every-state", "faults", "healthy")
CHECKS: list[Callable[[Fixture], None]] = [
    check
    for name, check in vars(answers).items()
    if name.startswith("test_") and check.__code__.co_varnames[: check.__code__.co_argcount] == ("fixture",)
]


@pytest.mark.integration
def test_library_answers_on_fresh_dumps(tmp_path: Path) -> None:
    """Every comparison with the library's and the server's answers holds on dumps made a moment ago."""
    for tool in ("go", "redis-server"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: no fresh dumps were compared")
    script = FIXTURES.parent / "make" / "asynq" / "make.sh"
    made = subprocess.run(["sh", script, tmp_path, *SCENARIOS], capture_output=True, text=True)
    if made.returncode and any(sign in made.stderr for sign in ("dial tcp", "no such host", "module lookup disabled")):
        pytest.skip("the library could not be fetched: no fresh dumps were compared")
    assert made.returncode == 0, made.stderr
    folders = sorted(path.parent for path in tmp_path.glob("*/case.toml"))
    assert len(folders) == 2 * len(SCENARIOS)
    assert CHECKS
    for folder in folders:
        fresh = Fixture(folder)
        for check in CHECKS:
            check(fresh)
