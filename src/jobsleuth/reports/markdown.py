"""Markdown for a step summary or a ticket: verdict, causes, queues. Small whatever the case's size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from jobsleuth.reports.causes import Cause
from jobsleuth.reports.document import Document
from jobsleuth.reports.verdict import coverage, explained, silences, verdict
from jobsleuth.reports.words import moment, number, size
from jobsleuth.safetext import markdown

_CAUSES = 50
_QUEUES = 200


def render(document: Document) -> Iterator[str]:
    """The summary; names and messages from the evidence are inert."""
    worst = next((s for s, n in document.counts.items() if n), None)
    mark = {"error": "❌", "warning": "⚠️", "info": "ℹ️", None: "✅"}[worst]
    yield f"## {mark} {verdict(document)}\n\n"
    for fact in document.evidence:
        taken = f"taken {moment(fact.info.as_of_ms)} UTC" if fact.info.as_of_ms is not None else "time unknown"
        status = fact.info.checksum.get("status", "unverified")
        name = markdown(PurePath(fact.info.path).name, 80)
        yield f"- {name}: {size(fact.info.bytes)}, {number(fact.keys, 'key')}, checksum {status}, {taken}\n"
    yield f"- {markdown(coverage(document))}\n"
    why = explained(document)
    if why:
        yield f"- {why}\n"
    if document.causes:
        yield "\n| cause | queues | severity | findings | since (UTC) | for example |\n|---|---|---|---:|---|---|\n"
        for cause in document.causes[:_CAUSES]:
            yield _row(cause)
        if len(document.causes) > _CAUSES:
            yield f"\n{number(len(document.causes) - _CAUSES, 'more kind')} not shown.\n"
    if document.queues:
        yield "\n| queue | jobs by state | findings |\n|---|---|---:|\n"
        for queue in document.queues[:_QUEUES]:
            states = ", ".join(f"{markdown(s)} {n:,}" for s, n in queue.counts.items() if n)
            yield f"| {markdown(queue.place, 60)} | {states} | {sum(queue.findings.values()):,} |\n"
        if len(document.queues) > _QUEUES:
            yield f"\n{number(len(document.queues) - _QUEUES, 'more queue')} not shown.\n"
    silent = list(silences(document))
    if silent:
        yield "\n<details><summary>Checks that could not run</summary>\n\n"
        for checks, reason in silent:
            yield f"- {checks}: {markdown(reason)}\n"
        yield "\n</details>\n"
    yield "\n**What this can't tell:** " + "; ".join(markdown(limit) for limit in document.limits) + ".\n"


def _row(cause: Cause) -> str:
    checks = " ".join(p.check_id for p in cause.parts)
    title = f"{cause.title} ({checks})" if cause.known else f"{cause.kind} {cause.title}"
    places = ", ".join(markdown(name, 60) for name, _ in cause.places)
    left = cause.place_count - len(cause.places)
    places += f" and {left:,} more" if left else ""
    since = "" if cause.first_ms is None else moment(cause.first_ms)[:19]
    if cause.last_ms is not None and cause.last_ms != cause.first_ms:
        since += f" – {moment(cause.last_ms)[:19]}"
    jobs = ", ".join(markdown(e.job_id, 40) for e in cause.examples if e.job_id is not None)
    example = f"{jobs}: " if jobs else ""
    example += markdown(cause.examples[0].message, 300)
    facts = (markdown(title), places, f"{cause.severity} ({cause.sureness})", f"{cause.count:,}", since, example)
    return f"| {' | '.join(facts)} |\n"
