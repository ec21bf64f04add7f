"""The reference page of the Python names: fresh, whole, and without a trace of how docstrings are written."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import jobsleuth
from jobsleuth.api.pages import api_page

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


def test_the_page_is_fresh() -> None:
    """What is committed is what `make docs` writes."""
    assert PAGE.read_text(encoding="utf-8") == api_page()


def test_every_promised_name_is_on_it() -> None:
    """Each name that the package exports has its section, every option its line with a default, every public method and
    property of a case and a job its description."""
    page = api_page()
    for name in jobsleuth.__all__:
        assert f"\n## {name}\n" in page or name == "__version__"
    for field in dataclasses.fields(jobsleuth.AnalyzeOptions):
        assert f"\n- `{field.name}`: " in page and f"\n    {field.name}: " in page
    for kind in (jobsleuth.Case, jobsleuth.Job):
        for name in (name for name in dir(kind) if not name.startswith("_")):
            assert f"\n### {kind.__name__}.{name}\n" in page or f"\n| `{name}` | " in page, name
    assert "\n| `most_bytes` | " in page


def test_it_reads_as_markdown() -> None:
    """No role of another markup, no prompt, no private alias is left, and every block is closed."""
    page = api_page()
    assert not [
        odd for odd in (":class:", ":meth:", ":func:", ":mod:", ":data:", ">>>", "_Name", "OwnCheck") if odd in page
    ]
    assert page.count("```") % 2 == 0
