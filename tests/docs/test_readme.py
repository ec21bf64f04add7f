"""The README is true: its commands run as written and print what it shows, its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.console import environment, run, shape, steps

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "fixtures/README.md")] + sorted(
    p for p in (ROOT / "docs").rglob("*.md")
)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to work in, with the fixtures where the README says they are."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "fixtures").symlink_to(ROOT / "fixtures")
    return folder


def test_the_commands_print_what_the_readme_shows(desk: Path) -> None:
    """Every `$` line of the console blocks, in order, in one folder; output compared but for the numbers."""
    env = environment()
    told = steps(README)
    for command, shown in told:
        done = run(command, desk, env)
        assert (done.returncode, done.stderr) == (0, ""), command
        assert shape(done.stdout) == shape(shown), command
    assert len(told) >= 4


def test_the_python_runs(desk: Path) -> None:
    """The Python block, on the case that the commands made."""
    if not (desk / "case").exists():
        pytest.fail("the commands before it made no case")
    block = "\n".join(re.findall(r"```python\n(.*?)```", README, re.DOTALL))
    done = subprocess.run([sys.executable, "-c", block], cwd=desk, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_command_is_in_the_table() -> None:
    """The table of commands names all that the command line has, and no other."""
    from jobsleuth.cli.main import app

    has = {c.name for c in app.registered_commands}
    told = set(re.findall(r"^\| `jobsleuth (\w+)", README, re.MULTILINE))
    assert told == has


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of every page is a file or a folder of the repository."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    missing = [t for t in targets if not re.match(r"[a-z]+:", t) and not (page.parent / t).exists()]
    assert missing == []


def test_make_targets_that_the_pages_name_exist() -> None:
    """`make X` in README and CONTRIBUTING is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in (README, (ROOT / "CONTRIBUTING.md").read_text()):
        assert set(re.findall(r"`make ([a-z-]+)`", page)) <= targets


def test_pages_of_the_commands_are_fresh() -> None:
    """docs/cli is what the commands say of themselves: run `make docs`."""
    from jobsleuth.cli.pages import cli_pages

    pages = cli_pages()
    there = {p.name: p.read_text(encoding="utf-8") for p in (ROOT / "docs" / "cli").glob("*")}
    assert sorted(there) == sorted(pages)
    assert [name for name in pages if pages[name] != there[name]] == [], "run `make docs`"
