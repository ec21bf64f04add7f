"""Markdown for a step summary or a ticket: verdict, groups, queues. Small whatever the case's size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from jobsleuth.reports.document import Document
from jobsleuth.reports.verdict import coverage, unable, verdict
from jobsleuth.reports.words import moment, number, size
from jobsleuth.safetext import markdown

_GROUPS = 50
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
    if document.groups:
        yield "\n| check | queue | severity | findings | first of them |\n|---|---|---|---:|---|\n"
        for group in document.groups[:_GROUPS]:
            check = document.check(group.check_id)
            title = f"{group.check_id} {check.title if check else ''}"
            yield (
                f"| {markdown(title)} | {markdown(group.place, 60)} | {group.severity} ({group.certainty}) |"
                f" {group.count:,} | {markdown(group.examples[0].message, 300)} |\n"
            )
        if len(document.groups) > _GROUPS:
            yield f"\n{number(len(document.groups) - _GROUPS, 'more group')} not shown.\n"
    if document.queues:
        yield "\n| queue | jobs by state | findings |\n|---|---|---:|\n"
        for queue in document.queues[:_QUEUES]:
            states = ", ".join(f"{markdown(s)} {n:,}" for s, n in queue.counts.items() if n)
            yield f"| {markdown(queue.place, 60)} | {states} | {sum(queue.findings.values()):,} |\n"
        if len(document.queues) > _QUEUES:
            yield f"\n{number(len(document.queues) - _QUEUES, 'more queue')} not shown.\n"
    silent = unable(document)
    if silent:
        yield "\n<details><summary>Checks that could not run</summary>\n\n"
        for check in silent:
            yield f"- {check.id}: {markdown(check.reason or 'no reason given')}\n"
        yield "\n</details>\n"
    yield "\n**What this can't tell:** " + "; ".join(markdown(limit) for limit in document.limits) + ".\n"
