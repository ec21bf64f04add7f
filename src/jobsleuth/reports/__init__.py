"""A case rendered for people and for machines, from the saved case only; payloads are in no report unasked."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import cast

from jobsleuth.case import Case
from jobsleuth.reports.causes import Cause
from jobsleuth.reports.commands import case_word, job_command
from jobsleuth.reports.document import Document, at_or_above, document
from jobsleuth.reports.findings import SEVERITIES, Finding
from jobsleuth.reports.picture import PAYLOAD_SHOWN, JobRef, Picture, find_jobs, picture
from jobsleuth.reports.rawdecode import raw_facts, raw_lines
from jobsleuth.reports.recovery import COLUMNS, recovery
from jobsleuth.reports.rows import jsonable, records, with_moments
from jobsleuth.reports.signals import signal_lines
from jobsleuth.reports.story import picture_lines, story
from jobsleuth.reports.text import WIDTH, Line, flow, lines, queue_lines
from jobsleuth.reports.timeline import Timeline, timelines
from jobsleuth.reports.traces import traces
from jobsleuth.reports.words import moment, number, size

FORMATS = {
    "text": "text",
    "json": "json_",
    "junit": "junit",
    "sarif": "sarif",
    "github": "github",
    "markdown": "markdown",
}
"""Format → module of this room whose `render` makes it."""

__all__ = [
    "COLUMNS",
    "FORMATS",
    "PAYLOAD_SHOWN",
    "SEVERITIES",
    "WIDTH",
    "Cause",
    "Document",
    "Finding",
    "JobRef",
    "Line",
    "Picture",
    "Timeline",
    "at_or_above",
    "case_word",
    "document",
    "find_jobs",
    "flow",
    "job_command",
    "jsonable",
    "lines",
    "moment",
    "number",
    "picture",
    "picture_lines",
    "prepare_html",
    "queue_lines",
    "raw_facts",
    "raw_lines",
    "records",
    "recovery",
    "render",
    "render_html",
    "signal_lines",
    "size",
    "story",
    "timelines",
    "traces",
    "with_moments",
]


def prepare_html() -> None:
    """Does beforehand what takes long; :func:`render_html` need not wait for it."""
    import_module("jobsleuth.reports.html").prepare()


def render_html(case: Case, report: Document, *, shown: int | None = None, place: str | None = None) -> Iterator[str]:
    """The report as one self-contained HTML page, piece by piece; see :func:`jobsleuth.reports.html.render`."""
    html = import_module("jobsleuth.reports.html")
    return cast(Iterator[str], html.render(case, report, shown=shown, place=place))


def render(report: Document, fmt: str) -> Iterator[str]:
    """The report as text of the format `fmt`, piece by piece.

    Raises:
        KeyError: a format that is not in :data:`FORMATS`.
    """
    return cast(Iterator[str], import_module(f"jobsleuth.reports.{FORMATS[fmt]}").render(report))
