"""The notebooks run from top to bottom and show what they were committed with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def shape(outputs: list[Any]) -> str:
    """What a cell shows, but for numbers, spacing and line order: they differ with each making of the fixtures."""
    text = "\n".join(str(o.get("text") or o.get("data", {}).get("text/plain", "")) for o in outputs)
    return "\n".join(sorted(re.sub(r"\s+", " ", re.sub(r"\d+", "N", line)) for line in text.splitlines()))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_runs_and_its_outputs_are_fresh(path: Path) -> None:
    """Executed in its own folder, every code cell shows what the committed notebook shows."""
    committed = nbformat.read(path, as_version=4)
    fresh = nbformat.read(path, as_version=4)
    NotebookClient(fresh, timeout=120, resources={"metadata": {"path": str(path.parent)}}).execute()
    for was, now in zip(committed.cells, fresh.cells, strict=True):
        if was.cell_type == "code":
            assert shape(now.outputs) == shape(was.outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_is_small_and_clean(path: Path) -> None:
    """Outputs are committed, under 100 KB in all, without errors, and code imports only the public package."""
    notebook = nbformat.read(path, as_version=4)
    assert path.stat().st_size < 100_000
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert any(cell.outputs for cell in code)
    assert not [o for cell in code for o in cell.outputs if o.output_type == "error"]
    imports = re.findall(r"^\s*(?:from|import) (jobsleuth\S*)", "\n".join(c.source for c in code), re.MULTILINE)
    assert set(imports) == {"jobsleuth"}


def test_every_question_has_its_notebook() -> None:
    """A test over no files would pass; these are there, and each is told of in the documentation."""
    names = [p.stem for p in NOTEBOOKS]
    assert names == [
        "dead-worker",
        "delayed-scores",
        "first-answer",
        "memory-by-queue",
        "post-incident",
        "two-days",
        "when-did-it-vanish",
    ]
    index = (Path(__file__).parents[2] / "docs" / "notebooks.md").read_text(encoding="utf-8")
    assert [name for name in names if f"notebooks/{name}.ipynb" not in index] == []
