"""What a report says, frozen: facts taken once from a case, rendered by any of the formats. Payloads are not in it."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from jobsleuth.case import Case, EvidenceInfo, as_counted
from jobsleuth.reports.causes import Cause, causes
from jobsleuth.reports.findings import COLUMNS, SEVERITIES, TIMES, Finding, Findings, place
from jobsleuth.reports.limits import limits

_EXAMPLES = 3
_SAME = "check_id, severity, certainty, dialect, namespace, queue, evidence, db"
_RANK = "case severity when 'error' then 0 when 'warning' then 1 else 2 end"


@dataclass(frozen=True)
class Group:
    """Findings of one check in one queue with one severity and one certainty; `examples` are the first of them."""

    check_id: str
    severity: str
    certainty: str
    namespace: str | None
    queue: str | None
    evidence: int | None
    db: int | None
    count: int
    examples: tuple[Finding, ...]

    @property
    def place(self) -> str:
        """`namespace/queue`, or the empty string."""
        return place(self.namespace, self.queue)


@dataclass(frozen=True)
class CheckFact:
    """One check: its texts, and what became of it in this case."""

    id: str
    name: str
    title: str
    severity: str
    status: str
    reason: str | None
    findings: int
    texts: dict[str, str]
    impact: str = ""
    """What it means for the work, as the end of a sentence that begins with a count: `will never run`."""
    own: bool = False
    """Whether it is somebody's own."""

    @property
    def help_url(self) -> str | None:
        """Page of the check, relative to the project's root; None: an own check has none."""
        return None if self.own else f"docs/checks/{self.id}.md"


@dataclass(frozen=True)
class QueueFact:
    """One queue: its layout, its jobs by state, and how many findings speak of it."""

    dialect: str
    namespace: str
    queue: str
    layout: str | None
    paused: bool | None
    counts: dict[str, int]
    oldest_waiting_ms: int | None
    findings: dict[str, int]
    evidence: int
    db: int

    @property
    def depth(self) -> dict[str, int]:
        """Jobs by state, in the words of `case.DEPTH`."""
        return as_counted(self.dialect, self.counts)

    @property
    def place(self) -> str:
        """`namespace/queue`."""
        return place(self.namespace, self.queue)


@dataclass(frozen=True)
class EvidenceFact:
    """One piece of evidence: what the manifest says, and how many of its keys belong to queues."""

    info: EvidenceInfo
    keys: int
    claimed: int


@dataclass(frozen=True)
class Document:
    """A report's content.

    Attributes:
        case: the case folder as the user gave it, for the commands that a report offers.
        tool: `jobsleuth` and its version.
        fail_on: least severity that makes the run fail, or `never`.
        groups: all findings by check, queue, severity and certainty.
        causes: all findings by what explains them, the most damaging first.
        limits: sentences on what this evidence cannot tell.
        accepted: findings that the policy or a baseline accepts; they are in none of the others.
    """

    case: str
    tool: str
    fail_on: str
    evidence: tuple[EvidenceFact, ...]
    queues: tuple[QueueFact, ...]
    checks: tuple[CheckFact, ...]
    findings: Findings
    groups: tuple[Group, ...]
    causes: tuple[Cause, ...]
    limits: tuple[str, ...]
    accepted: int = 0

    def queue_word(self, namespace: str | None, queue: str | None) -> str | None:
        """What `--queue` takes for this queue: its name, with its namespace where another queue has the same name."""
        if namespace is None or queue is None:
            return queue
        alike = {q.namespace for q in self.queues if q.queue == queue}
        return queue if len(alike) < 2 else place(namespace, queue)

    @property
    def counts(self) -> dict[str, int]:
        """Severity → findings, all three severities present."""
        total = dict.fromkeys(SEVERITIES, 0)
        for group in self.groups:
            total[group.severity] += group.count
        return total

    @property
    def failing(self) -> int:
        """Findings at or above `fail_on`."""
        return sum(self.counts[s] for s in at_or_above(self.fail_on))

    def check(self, check_id: str) -> CheckFact | None:
        """The check with this id, None where the case does not describe it."""
        return next((c for c in self.checks if c.id == check_id), None)


def at_or_above(fail_on: str) -> tuple[str, ...]:
    """Severities that reach `fail_on`; none for `never`."""
    return SEVERITIES[: SEVERITIES.index(fail_on) + 1] if fail_on in SEVERITIES else ()


def document(
    case: Case,
    *,
    checks: pa.Table | None = None,
    findings: pa.Table | None = None,
    known: pa.Table | None = None,
    fail_on: str = "error",
    accepted: int | None = None,
    own: Collection[str] = (),
) -> Document:
    """A case as a document.

    Args:
        case: an open case.
        checks: rows in the shape of the table `checks`, of a fresh judgement; None: the case's own.
        findings: rows in the shape of the table `findings`, likewise.
        known: rows in the shape of the table `causes`, likewise.
        fail_on: least severity that fails, or `never`.
        accepted: findings that the judgement left out as known; None: as many as the case's own did.
        own: ids of somebody's own checks in a fresh judgement, besides those that the case was made with.
    """
    made_with = case.manifest.options.get("own_checks")
    own = {*own, *(made_with if isinstance(made_with, dict) else ())}
    accepted = int(case.manifest.options.get("accepted_findings") or 0) if accepted is None else accepted
    checks = case.arrow("checks") if checks is None else checks
    findings = case.arrow("findings") if findings is None else findings
    known = case.arrow("causes") if known is None else known
    # Its own registered tables, but the views of the case's connection: to make those takes longer than all this.
    connection = case.connection().cursor()
    try:
        connection.register("given_findings", _numbered(findings))
        # Only what decides the order goes through the sort: whole rows take several times their own memory there.
        order = connection.sql(
            f"select nth from given_findings order by {_RANK}, check_id, evidence, db, dialect, namespace, queue,"
            " length(job_id), job_id, key, message, nth"
        ).to_arrow_table()
        ordered = _in_ms(findings.select(COLUMNS).take(order.column("nth")))
        connection.register("ordered_findings", _numbered(ordered))
        groups = connection.execute(
            f"select {_SAME}, count(*), list(nth order by nth)[1:{_EXAMPLES}] from ordered_findings group by {_SAME}"
            f" order by {_RANK}, count(*) desc, min(nth)"
        ).fetchall()
        titles = dict(zip(checks.column("check_id").to_pylist(), checks.column("title").to_pylist(), strict=True))
        explained = causes(connection, ordered, known, titles)
        per_queue: dict[tuple[Any, ...], dict[str, int]] = {}
        for check_id, severity, certainty, dialect, namespace, queue, evidence, db, count, _ in groups:
            del check_id, certainty
            mine = per_queue.setdefault((evidence, db, dialect, namespace, queue), dict.fromkeys(SEVERITIES, 0))
            mine[severity] += count
        queues = connection.execute(
            "select dialect, namespace, queue, layout, paused, counts, epoch_ms(oldest_waiting_at), evidence, db"
            " from queues order by evidence, db, dialect, namespace, queue"
        ).fetchall()
        claimed = connection.execute(
            "select evidence, count(*), count(*) filter (where dialect is not null) from keys group by evidence"
        ).fetchall()
        cannot_tell = tuple(limits(connection, case.manifest, accepted))
    finally:
        connection.close()
    keys = {number: (total, mine) for number, total, mine in claimed}
    evidence_facts = tuple(EvidenceFact(info, *keys.get(info.number, (0, 0))) for info in case.manifest.evidence)
    return Document(
        case=os.fspath(case.path),
        tool=f"{case.manifest.tool} {case.manifest.version}",
        fail_on=fail_on,
        evidence=evidence_facts,
        queues=tuple(
            QueueFact(d, n, q, layout, paused, dict(counts or {}), oldest, per_queue.get((e, db, d, n, q), {}), e, db)
            for d, n, q, layout, paused, counts, oldest, e, db in queues
        ),
        checks=tuple(
            CheckFact(
                row["check_id"],
                row["name"],
                row["title"],
                row["severity"],
                row["status"],
                row["reason"],
                row["findings"] or 0,
                dict(row["texts"] or ()),
                row["impact"] or "",
                row["check_id"] in own,
            )
            for row in sorted(checks.to_pylist(), key=lambda row: row["check_id"])
        ),
        findings=Findings(ordered),
        groups=tuple(
            Group(c, s, certainty, n, q, e, db, count, tuple(Finding(**row) for row in ordered.take(nth).to_pylist()))
            for c, s, certainty, _, n, q, e, db, count, nth in groups
        ),
        causes=explained,
        limits=cannot_tell,
        accepted=accepted,
    )


def _numbered(findings: pa.Table) -> pa.Table:
    return findings.append_column("nth", pa.array(range(len(findings)), pa.int64()))


def _in_ms(findings: pa.Table) -> pa.Table:
    for name in TIMES:
        at = findings.schema.get_field_index(name)
        ms = findings.column(at).cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
        findings = findings.set_column(at, name, ms)
    return findings
