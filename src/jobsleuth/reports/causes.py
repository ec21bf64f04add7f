"""Causes first: findings that one thing explains, the most damaging first; what nothing explains, check by check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from jobsleuth.reports.findings import SEVERITIES, Finding, place

if TYPE_CHECKING:
    import duckdb

EXAMPLES = 3
PLACES = 4
"""Queues that a cause names, those with the most findings."""


@dataclass(frozen=True)
class Part:
    """Findings of one check within a cause; `severity` is that of the worst of them."""

    check_id: str
    severity: str
    count: int
    message: str
    """Of the first of them."""


@dataclass(frozen=True)
class Cause:
    """What explains findings; where nothing is known to, the findings of one check. Times are Unix ms.

    Attributes:
        kind: kind of cause as in the table `causes`, or the id of the check.
        title: what happened, one line.
        known: whether a cause is known; else it is findings of one check.
        what_to_do: None: the check's own text says it.
        basis: what it rests on that they have one cause; None: no cause is known.
        certainty: `certain` where one of the worst findings is.
        count: findings.
        jobs: jobs that they speak of.
        parts: check by check, the worst first.
        places: (`namespace/queue`, findings), the first of them by findings.
        place_count: how many queues there are.
        first_ms: earliest moment since when one of them is not right; None: none of them says.
        last_ms: latest such moment.
        held_by: who held the jobs, the first of `holders`: those with a name, else what is said instead of one.
        heals: what repairs it, or that nothing does: the one of `remedies` that most findings have.
        heals_at_ms: when all of it is repaired, at the latest; None: not known, or never.
        heals_basis: what that rests on.
        retry: verdict → jobs.
        waiting: parents that wait for jobs it is about.
        examples: the first of the findings, each of another job or key, those about jobs first.
    """

    kind: str
    title: str
    known: bool
    what_to_do: str | None
    basis: str | None
    evidence: int | None
    severity: str
    certainty: str
    count: int
    jobs: int
    parts: tuple[Part, ...]
    places: tuple[tuple[str, int], ...]
    place_count: int
    first_ms: int | None
    last_ms: int | None
    held_by: str | None
    holders: int
    heals: str | None
    remedies: int
    heals_at_ms: int | None
    heals_basis: str | None
    retry: Mapping[str, int]
    waiting: int
    examples: tuple[Finding, ...]

    @property
    def sureness(self) -> str:
        """Its certainty in words, and whether it is only inferred that this explains the findings."""
        return f"{self.certainty}, cause inferred" if self.basis == "inferred" else self.certainty

    @property
    def place(self) -> str:
        """Its only queue, or the empty string."""
        return self.places[0][0] if self.place_count == 1 else ""


_KEY = "evidence, kind"
# Subjects are counted by a hash: a name is read for the few that are shown only.
_THIN = """
    create or replace temp table thin as
    select nth, evidence, coalesce(split_part(cause, ':', 1), check_id::varchar) as kind,
        check_id::varchar as check_id, namespace::varchar as namespace, queue::varchar as queue,
        case severity when 'error' then 0 when 'warning' then 1 else 2 end as rank, certainty = 'certain' as sure,
        case when job_id is not null then hash(db, namespace, queue, job_id) end as job,
        hash(db, namespace, queue, coalesce(job_id, key)) as subject,
        -- The snapshot's own time says when something was seen at the latest, not since when it is so.
        coalesce(since_from, case when since_to < e.as_of_ms then since_to end) as since_at,
        heals::varchar as heals, heals_at, heals_basis::varchar as heals_basis, held_by,
        case when held_by_basis = 'observed' then held_by end as named, retry::varchar as retry
    from ordered_findings as f left join (select evidence, as_of_ms from evidence) as e using (evidence)
"""
_SUMS = """
    select t.evidence, t.kind, min(rank), bool_or(sure and rank = worst) as certain, count(*), count(distinct job),
        min(since_at), max(since_at), coalesce(min(named), min(held_by)),
        case when count(named) > 0 then count(distinct named) else count(distinct held_by) end, any_value(most),
        count(distinct heals), case when bool_and(heals_at is not null) then max(heals_at) end,
        case when bool_or(heals_basis = 'inferred') then 'inferred' when bool_or(heals_basis = 'derived') then 'derived'
            else min(heals_basis) end,
        count(distinct job) filter (retry = 'unsafe'), count(distinct job) filter (retry = 'safe'),
        count(distinct job) filter (retry = 'unknown')
    from thin as t
    join (select evidence, kind, min(rank) as worst from thin group by all) as w
        on w.kind = t.kind and w.evidence is not distinct from t.evidence
    left join (
        select evidence, kind, heals as most from thin where heals is not null group by evidence, kind, heals
        qualify row_number() over (partition by evidence, kind order by count(*) desc, heals like 'no%' desc, heals) = 1
    ) as r on r.kind = t.kind and r.evidence is not distinct from t.evidence
    group by t.evidence, t.kind
    order by min(rank), certain desc, count(distinct job) desc, count(*) desc, min(nth)
"""


def causes(
    connection: duckdb.DuckDBPyConnection, ordered: pa.Table, known: pa.Table, titles: Mapping[str, str]
) -> tuple[Cause, ...]:
    """The causes of the findings, the most damaging first.

    Args:
        connection: over the case, with the findings registered as `ordered_findings`, worst first, numbered by `nth`.
        ordered: the same findings.
        known: rows of the table `causes`.
        titles: check id → its title.
    """
    connection.execute(_THIN)
    sums = connection.execute(_SUMS).fetchall()
    parts: dict[Any, list[tuple[str, int, int, int]]] = {}
    for evidence, kind, check_id, rank, count, nth in connection.execute(
        f"select {_KEY}, check_id, min(rank), count(*), min(nth) from thin group by all order by 4, 5 desc, 6"
    ).fetchall():
        parts.setdefault((evidence, kind), []).append((check_id, rank, count, nth))
    places: dict[Any, tuple[list[tuple[str, int]], int]] = {}
    for evidence, kind, namespace, queue, count, total in connection.execute(
        f"select *, count(*) over (partition by {_KEY}) from (select {_KEY}, namespace, queue, count(*) as n from thin"
        f" where queue is not null group by all) qualify row_number() over (partition by {_KEY} order by n desc,"
        f" namespace, queue) <= {PLACES} order by n desc, namespace, queue"
    ).fetchall():
        places.setdefault((evidence, kind), ([], total))[0].append((place(namespace, queue), count))
    examples = {
        (evidence, kind): nths
        for evidence, kind, nths in connection.execute(
            f"select {_KEY}, list(nth order by unnamed, nth)[1:{EXAMPLES}] from (select {_KEY}, min(nth) as nth,"
            " bool_and(job is null) as unnamed from thin"
            f" group by {_KEY}, subject) group by all"
        ).fetchall()
    }
    connection.execute("drop table thin")
    texts: dict[str, dict[str, Any]] = {}
    waiting: dict[str, int] = {}
    for row in known.to_pylist():
        texts[row["kind"]] = row
        waiting[row["kind"]] = waiting.get(row["kind"], 0) + (row["waiting_parents"] or 0)
    found = []
    for evidence, kind, rank, sure, count, jobs, first, last, held, holders, heals, remedies, at, basis, *retry in sums:
        key = (evidence, kind)
        text = texts.get(kind)
        shown, total = places.get(key, ([], 0))
        first_of = ordered.take([p[3] for p in parts[key]]).column("message").to_pylist()
        found.append(
            Cause(
                kind=kind,
                title=text["title"] if text else titles.get(kind, kind),
                known=text is not None,
                what_to_do=text["what_to_do"] if text else None,
                basis=text["basis"] if text else None,
                evidence=evidence,
                severity=SEVERITIES[rank],
                certainty="certain" if sure else "possible",
                count=count,
                jobs=jobs,
                parts=tuple(
                    Part(check_id, SEVERITIES[worst], n, message)
                    for (check_id, worst, n, _), message in zip(parts[key], first_of, strict=True)
                ),
                places=tuple(shown),
                place_count=total,
                first_ms=first,
                last_ms=last,
                held_by=held,
                holders=holders,
                heals=heals,
                remedies=remedies,
                heals_at_ms=at,
                heals_basis=basis,
                retry=dict(zip(("unsafe", "safe", "unknown"), retry, strict=True)),
                waiting=waiting.get(kind, 0),
                examples=tuple(Finding(**row) for row in ordered.take(examples[key]).to_pylist()),
            )
        )
    return tuple(found)
