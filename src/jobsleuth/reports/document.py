"""What a report says, frozen: facts taken once from a case, rendered by any of the formats. Payloads are not in it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobsleuth.case import Case, EvidenceInfo
from jobsleuth.reports.words import moment

SEVERITIES = ("error", "warning", "info")
"""Worst first."""
_EXAMPLES = 3
_FINDING_COLUMNS = (
    "check_id, severity, certainty, dialect, namespace, queue, job_id, key, message, details, help_url, evidence, db"
)
_SAME = "check_id, severity, certainty, dialect, namespace, queue, evidence, db"
_RANK = "case severity when 'error' then 0 when 'warning' then 1 else 2 end"


@dataclass(frozen=True)
class Finding:
    """One thing that does not add up, as in the table `findings`."""

    check_id: str
    severity: str
    certainty: str
    dialect: str | None
    namespace: str | None
    queue: str | None
    job_id: str | None
    key: str | None
    message: str
    details: str | None
    help_url: str | None
    evidence: int | None
    db: int | None

    @property
    def place(self) -> str:
        """`namespace/queue`, or the empty string for a finding about no queue."""
        return place(self.namespace, self.queue)

    def facts(self) -> dict[str, Any]:
        """`details` as an object; what is not JSON stays text under `text`."""
        try:
            found = json.loads(self.details or "{}")
        except ValueError:
            return {"text": self.details}
        return found if isinstance(found, dict) else {"value": found}


class Findings:
    """All findings, worst first, made one at a time from Arrow: there may be a million."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def jobs(self) -> int:
        """How many jobs they speak of."""
        about = self._table.filter(pc.is_valid(self._table.column("job_id")))
        return int(about.group_by(["evidence", "db", "dialect", "namespace", "queue", "job_id"]).aggregate([]).num_rows)

    def __iter__(self) -> Iterator[Finding]:
        for batch in self._table.to_batches(max_chunksize=4096):
            for row in batch.to_pylist():
                yield Finding(**row)


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

    @property
    def help_url(self) -> str:
        """Page of the check, relative to the project's root."""
        return f"docs/checks/{self.id}.md"


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
        limits: sentences on what this evidence cannot tell.
    """

    case: str
    tool: str
    fail_on: str
    evidence: tuple[EvidenceFact, ...]
    queues: tuple[QueueFact, ...]
    checks: tuple[CheckFact, ...]
    findings: Findings
    groups: tuple[Group, ...]
    limits: tuple[str, ...]

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


def place(namespace: str | None, queue: str | None) -> str:
    """`namespace/queue` with what is known of the two."""
    return "/".join(p for p in (namespace, queue) if p is not None)


def at_or_above(fail_on: str) -> tuple[str, ...]:
    """Severities that reach `fail_on`; none for `never`."""
    return SEVERITIES[: SEVERITIES.index(fail_on) + 1] if fail_on in SEVERITIES else ()


def document(
    case: Case, *, checks: pa.Table | None = None, findings: pa.Table | None = None, fail_on: str = "error"
) -> Document:
    """A case as a document.

    Args:
        case: an open case.
        checks: rows in the shape of the table `checks`, of a fresh judgement; None: the case's own.
        findings: rows in the shape of the table `findings`, likewise.
        fail_on: least severity that fails, or `never`.
    """
    checks = case.arrow("checks") if checks is None else checks
    findings = case.arrow("findings") if findings is None else findings
    connection = case.connect()
    try:
        connection.register("given_findings", findings)
        ordered = connection.sql(
            f"select {_FINDING_COLUMNS} from given_findings order by {_RANK}, check_id, evidence, db, dialect,"
            " namespace, queue, length(job_id), job_id, key, message"
        ).to_arrow_table()
        connection.register("ordered_findings", ordered.append_column("nth", pa.array(range(len(ordered)), pa.int64())))
        groups = connection.execute(
            f"select {_SAME}, count(*), list(nth order by nth)[1:{_EXAMPLES}] from ordered_findings group by {_SAME}"
            f" order by {_RANK}, count(*) desc, min(nth)"
        ).fetchall()
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
        first_events = connection.execute(
            # A scheduler's history (Asynq) has no entry ids: it tells what was enqueued, not what became of it.
            'select namespace, queue, epoch_ms(min("at")) from events where stream_id is not null'
            " group by all order by all"
        ).fetchall()
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
            )
            for row in sorted(checks.to_pylist(), key=lambda row: row["check_id"])
        ),
        findings=Findings(ordered),
        groups=tuple(
            Group(c, s, certainty, n, q, e, db, count, tuple(Finding(**row) for row in ordered.take(nth).to_pylist()))
            for c, s, certainty, _, n, q, e, db, count, nth in groups
        ),
        limits=tuple(_limits(evidence_facts, first_events)),
    )


def _limits(evidence: tuple[EvidenceFact, ...], first_events: list[tuple[str, str, int | None]]) -> Iterator[str]:
    for fact in evidence:
        if fact.info.as_of_ms is None:
            yield (
                f"when {fact.info.path} was taken: it does not say, so nothing was judged late or expired"
                " (analyze --as-of TIME settles it)"
            )
        if not fact.info.atomic:
            yield f"one instant: {fact.info.path} was read over a span of time, so a job may have moved meanwhile"
        if fact.info.fault is not None:
            yield f"what stood in {fact.info.path} after the place where it could not be read"
    yield "what the jobs did outside Redis"
    known = [(ms, place(n, q)) for n, q, ms in first_events if ms is not None]
    if len(known) == 1:
        yield f"what happened before {moment(known[0][0])} UTC, where the event stream of {known[0][1]} begins"
    elif known:
        first = moment(min(known)[0])
        yield f"what happened before {first} UTC, where the oldest of {len(known):,} event streams begins"
    elif evidence:
        yield "the order of past events: it holds no event stream"
