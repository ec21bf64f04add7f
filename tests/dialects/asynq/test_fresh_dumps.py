"""The same comparisons on dumps that the real library makes now: they hold for more than the committed files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from . import test_library_answers, test_whole_messages
from .conftest import FIXTURES, Fixture, release

OLDEST_GO = (1, 21)
"""From here on go fetches a newer one where a module asks for it; what Debian 12 packages is older."""
SCENARIOS = ("every-state", "faults", "healthy")


def checks(module: ModuleType, argument: str) -> list[Callable[[Fixture], None]]:
    """The comparisons of a module that take nothing but a dump."""
    return [
        check
        for name, check in vars(module).items()
        if name.startswith("test_") and check.__code__.co_varnames[: check.__code__.co_argcount] == (argument,)
    ]


@pytest.mark.integration
@pytest.mark.parametrize("releases", [("v026", "v021", "v018"), ("v017", "v011", "v009", "v007")])
def test_library_answers_on_fresh_dumps(tmp_path: Path, releases: tuple[str, ...]) -> None:
    """Every comparison with the library's and the server's answers holds on dumps made a moment ago."""
    for tool in ("go", "redis-server"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: no fresh dumps were compared")
    version = re.match(
        r"go(\d+)\.(\d+)", subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True).stdout
    )
    if version is None or (int(version[1]), int(version[2])) < OLDEST_GO:
        pytest.skip(
            f"go is older than {OLDEST_GO[0]}.{OLDEST_GO[1]}, which the library needs: NO fresh dumps were compared"
        )
    script = FIXTURES.parent / "make" / "asynq" / "make.sh"
    wanted = {**os.environ, "RELEASES": " ".join(releases)}
    made = subprocess.run(["sh", script, tmp_path, *SCENARIOS], capture_output=True, text=True, env=wanted)
    if made.returncode and any(sign in made.stderr for sign in ("dial tcp", "no such host", "module lookup disabled")):
        pytest.skip("the library could not be fetched: no fresh dumps were compared")
    assert made.returncode == 0, made.stderr
    folders = sorted(path.parent for path in tmp_path.glob("*/case.toml"))
    assert len(folders) == 7
    for folder in folders:
        fresh = Fixture(folder)
        old = release(fresh.name) < (0, 18)
        compared = checks(test_whole_messages, "whole") if old else checks(test_library_answers, "fixture")
        assert compared
        for check in compared:
            check(fresh)
