"""The first sentence of every report."""

from __future__ import annotations

from collections.abc import Iterator

from jobsleuth.reports.document import CheckFact, Document
from jobsleuth.reports.findings import SEVERITIES
from jobsleuth.reports.words import number, series


def verdict(document: Document) -> str:
    """What was found, in one sentence."""
    total = sum(document.counts.values())
    known = f"{number(document.accepted, 'known finding')} accepted"
    if total:
        parts = [number(n, s, None if s != "info" else "info") for s in SEVERITIES if (n := document.counts[s])]
        concerned = sum(any(q.findings.values()) for q in document.queues)
        of = f", in {concerned:,} of {number(len(document.queues), 'queue')}" if concerned else ""
        beside = f"; {known}" if document.accepted else ""
        return f"{number(total, 'finding')}: {series(parts)}{of}{beside}"
    if not document.queues:
        return "No queue of a library that jobsleuth knows: nothing to judge"
    if document.accepted:
        return f"Nothing new that does not add up; {known}"
    return "Nothing found that does not add up"


def explained(document: Document) -> str:
    """How many findings a known cause explains; the empty string where none does."""
    known = [c for c in document.causes if c.known]
    if not known:
        return ""
    mine, total = sum(c.count for c in known), sum(c.count for c in document.causes)
    verb = "explains" if len(known) == 1 else "explain"
    return f"{number(len(known), 'cause')} {verb} {'all' if mine == total else f'{mine:,}'} of them"


def coverage(document: Document) -> str:
    """How many checks ran, and why the others could not."""
    silent = unable(document)
    ran = sum(c.status == "ran" for c in document.checks)
    text = f"{number(ran, 'check')} ran"
    if silent:
        reasons = sorted({c.reason or "no reason given" for c in silent})
        text += f", {len(silent):,} could not: {'; '.join(reasons)}"
    return text


def unable(document: Document) -> list[CheckFact]:
    """Checks that could not run: their silence is not a clean bill."""
    return [c for c in document.checks if c.status == "could_not_run"]


def silences(document: Document, most: int | None = None) -> Iterator[tuple[str, str]]:
    """Which checks could not run, and why: once a reason, since where the evidence has no time it is that of dozens.

    Args:
        document: of which report.
        most: so many ids of each; None: all.
    """
    reasons: dict[str, list[str]] = {}
    for check in unable(document):
        reasons.setdefault(check.reason or "no reason given", []).append(check.id)
    for reason, ids in reasons.items():
        shown = ids if most is None else ids[:most]
        left = f" and {number(len(ids) - len(shown), 'more check')}" if len(shown) < len(ids) else ""
        yield f"{', '.join(shown)}{left}", reason
