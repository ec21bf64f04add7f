"""A real browser without a window, and pages made from cases whose content is known."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobsleuth.case import Case
from jobsleuth.reports import document, render_html
from tests.reports.conftest import clean_case, hostile_case, small_case

__all__ = ["clean_case", "hostile_case", "small_case"]

ARGUMENTS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
Opened = Callable[..., Any]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium as the system has it; nothing is downloaded."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("chromium is not installed: NO page was looked at in a browser")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: NO page was looked at")
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield running
        running.close()


def page_file(case: Case, out: Path, **options: Any) -> Path:
    """The case's page as a file."""
    out.write_text("".join(render_html(case, document(case), place=".", **options)), encoding="utf-8")
    return out


@pytest.fixture
def opened(browser: Any) -> Iterator[Opened]:
    """Opens a file as a page; at the end no script may have failed and nothing may have been asked of the network."""
    contexts: list[Any] = []
    complaints: list[str] = []
    requests: list[str] = []

    def visit(file: Path, *, refusing: bool = False, **options: Any) -> Any:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        if not refusing:
            page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("dialog", lambda dialog: (complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(file.as_uri())
        return page

    yield visit
    for context in contexts:
        context.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith("file:")] == []
