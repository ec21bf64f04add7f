"""A case rendered for people and for machines. Reads the saved case only; payloads are in none of them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import cast

from jobsleuth.reports.document import SEVERITIES, Document, Finding, at_or_above, document
from jobsleuth.reports.picture import JobRef, Picture, find_jobs, picture
from jobsleuth.reports.rawdecode import raw_facts, raw_lines
from jobsleuth.reports.rows import jsonable, records
from jobsleuth.reports.story import picture_lines, story
from jobsleuth.reports.text import WIDTH, Line, lines, queue_lines
from jobsleuth.reports.words import moment, number

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
    "FORMATS",
    "SEVERITIES",
    "WIDTH",
    "Document",
    "Finding",
    "JobRef",
    "Line",
    "Picture",
    "at_or_above",
    "document",
    "find_jobs",
    "jsonable",
    "lines",
    "moment",
    "number",
    "picture",
    "picture_lines",
    "queue_lines",
    "raw_facts",
    "raw_lines",
    "records",
    "render",
    "story",
]


def render(report: Document, fmt: str) -> Iterator[str]:
    """The report as text of the format `fmt`, piece by piece.

    Raises:
        KeyError: a format that is not in :data:`FORMATS`.
    """
    return cast(Iterator[str], import_module(f"jobsleuth.reports.{FORMATS[fmt]}").render(report))
