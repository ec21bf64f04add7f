"""All findings as the script of the page reads them, and the first of them as rows for a browser without scripts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import islice
from typing import Any

from jobsleuth.reports.document import Document
from jobsleuth.reports.findings import SEVERITIES, Finding
from jobsleuth.reports.html.named import which
from jobsleuth.reports.html.suspects import Suspects
from jobsleuth.reports.words import number
from jobsleuth.safetext import terminal

MOST = 20_000
"""Findings on the page, worst first: what a browser searches while somebody types."""
ROWS = 50
"""Rows that stand in the page itself."""
CERTAINTIES = ("certain", "possible")
_NOWHERE = "(no queue)"


@dataclass(frozen=True)
class FindingsTable:
    """The findings: `data` is JSON that may stand in a script element, `first` the rows that need no script."""

    total: int
    left: int
    data: str
    first: list[dict[str, Any]]
    checks: list[str]
    places: list[str]
    shown_note: str


def findings_table(document: Document, suspects: Suspects) -> FindingsTable:
    """All findings, up to :data:`MOST`, worst first."""
    checks: dict[str, int] = {}
    places: dict[str, int] = {}
    columns: dict[str, list[Any]] = {
        name: [] for name in ("severity", "certainty", "check", "queue", "subject", "message", "anchors")
    }
    first: list[dict[str, Any]] = []
    named = which(document)
    for finding in islice(document.findings, MOST):
        subject = terminal(_subject(finding), 300)
        where = terminal(named(finding.place or _NOWHERE, finding.evidence, finding.db))
        message = terminal(finding.message)
        anchor = suspects.anchor(finding)
        columns["severity"].append(SEVERITIES.index(finding.severity))
        columns["certainty"].append(CERTAINTIES.index(finding.certainty))
        columns["check"].append(checks.setdefault(finding.check_id, len(checks)))
        columns["queue"].append(places.setdefault(where, len(places)))
        columns["subject"].append(subject)
        columns["message"].append(message)
        columns["anchors"].append(anchor)
        if len(first) < ROWS:
            first.append(
                {
                    "severity": finding.severity,
                    "certainty": finding.certainty,
                    "check_id": finding.check_id,
                    "title": _title(document, finding.check_id),
                    "place": where,
                    "subject": subject,
                    "anchor": anchor,
                    "message": message,
                }
            )
    # Those of findings that are not on the page too: asked for one, the table must not show others in its place.
    for group in document.groups:
        checks.setdefault(group.check_id, len(checks))
        places.setdefault(terminal(named(group.place or _NOWHERE, group.evidence, group.db)), len(places))
    total = len(document.findings)
    here = len(columns["message"])
    data = {
        **columns,
        "left": total - here,
        "severities": SEVERITIES,
        "certainties": CERTAINTIES,
        "checks": [[check, _title(document, check)] for check in checks],
        "places": list(places),
    }
    return FindingsTable(
        total=total,
        left=total - here,
        data=_embedded(data),
        first=first,
        checks=[f"{check} {_title(document, check)}" for check in checks],
        places=list(places),
        shown_note=number(total, "finding") if here <= ROWS else f"The first {ROWS} of {number(total, 'finding')}",
    )


def _subject(finding: Finding) -> str:
    if finding.job_id is not None:
        return finding.job_id
    return finding.key if finding.key is not None else ""


def _title(document: Document, check_id: str) -> str:
    check = document.check(check_id)
    return check.title if check is not None else check_id


def _embedded(data: dict[str, Any]) -> str:
    """JSON in which nothing can end the script element around it; the values are harmless text already."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
