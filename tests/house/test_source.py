"""House rules that hold for all source files."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
_CLOCKS = {
    ("datetime", "now"),
    ("datetime", "utcnow"),
    ("datetime", "today"),
    ("date", "today"),
    ("time", "time"),
    ("time", "time_ns"),
    ("time", "localtime"),
    ("time", "gmtime"),
    ("time", "strftime"),
    ("time", "ctime"),
}
_REACHING = {
    *("socket", "ssl", "http", "urllib.request", "ftplib", "requests", "redis"),
    *("subprocess", "pickle", "marshal", "shelve"),
}


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT / "src")))
def test_no_wall_clock(path: Path) -> None:
    """Ages, leases and locks are judged at the snapshot's time; a clock in the source would creep into results."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else getattr(node.value, "attr", "")
            assert (owner, node.attr) not in _CLOCKS, f"{path}:{node.lineno}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT / "src")))
def test_no_sockets_and_no_shell(path: Path) -> None:
    """A run opens no connection and starts no program."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            assert not _REACHING & {name, name.split(".")[0]}, f"{path}:{node.lineno} imports {name}"


def test_files_stay_readable() -> None:
    """A file over 500 lines is two files."""
    long = {str(p): n for p in SOURCES if "_pb2" not in p.name and (n := len(p.read_text("utf-8").splitlines())) > 500}
    assert not long


def test_rooms_import_only_downwards() -> None:
    """The import contracts of pyproject.toml hold."""
    pytest.importorskip("importlinter", reason="import-linter is not installed")
    program = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-1000:]


def test_importing_a_case_is_cheap() -> None:
    """DuckDB and pandas take half a second: they load when they are used."""
    program = (
        "import sys, jobsleuth.case, jobsleuth.checks; print([m for m in ('duckdb', 'pandas') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
