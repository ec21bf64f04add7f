"""GitHub workflow commands: one annotation a cause, since a run shows ten of each kind, and the story has fewer."""

from __future__ import annotations

from collections.abc import Iterator

from jobsleuth.reports.causes import Cause
from jobsleuth.reports.document import Document
from jobsleuth.reports.verdict import silences, verdict
from jobsleuth.safetext import terminal

_NAMED = 12
"""Checks that a title names."""
_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def render(document: Document) -> Iterator[str]:
    """Annotations, the most damaging first, then the verdict as a plain line."""
    for cause in document.causes:
        checks = " ".join(part.check_id for part in cause.parts)
        title = (
            f"{cause.title} ({checks}; {cause.count:,}, {cause.sureness})"
            if cause.known
            else (f"{checks} {cause.title} ({cause.count:,}, {cause.sureness})")
        )
        yield f"::{_COMMANDS[cause.severity]} title={_property(terminal(title))}::{_data(_message(cause))}\n"
    for checks, reason in silences(document, _NAMED):
        yield f"::notice title={_property(f'{checks} could not run')}::{_data(terminal(reason))}\n"
    yield f"jobsleuth - {verdict(document)}\n"


def _message(cause: Cause) -> str:
    places = [terminal(name) for name, _ in cause.places]
    left = cause.place_count - len(places)
    where = ", ".join(places) + (f" and {left:,} more" if left else "")
    example = terminal(cause.examples[0].message)
    more = f" (and {cause.count - 1:,} more)" if cause.count > 1 else ""
    text = f"{where}: {example}{more}" if where else f"{example}{more}"
    return f"{text}\n{cause.what_to_do}" if cause.what_to_do else text


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
