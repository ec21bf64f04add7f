"""GitHub workflow commands: one annotation a group of findings, since a run shows ten of each kind."""

from __future__ import annotations

from collections.abc import Iterator

from jobsleuth.reports.document import Document
from jobsleuth.reports.verdict import unable, verdict
from jobsleuth.safetext import terminal

_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def render(document: Document) -> Iterator[str]:
    """Annotations, then the verdict as a plain line."""
    for group in document.groups:
        check = document.check(group.check_id)
        title = f"{group.check_id} {check.title if check else ''} ({group.count:,}, {group.certainty})"
        place = f"{terminal(group.place)}: " if group.place else ""
        more = f" (and {group.count - 1:,} more)" if group.count > 1 else ""
        message = f"{place}{terminal(group.examples[0].message)}{more}"
        yield f"::{_COMMANDS[group.severity]} title={_property(terminal(title))}::{_data(message)}\n"
    for silent in unable(document):
        reason = silent.reason or "no reason given"
        yield f"::notice title={_property(f'{silent.id} could not run')}::{_data(terminal(reason))}\n"
    yield f"jobsleuth - {verdict(document)}\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
