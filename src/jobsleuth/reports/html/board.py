"""What the page shows beyond the document: the four signals, due times, failures and memory, each bounded in rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobsleuth.case import DEPTH, Case
from jobsleuth.reports.document import Document
from jobsleuth.reports.findings import place

if TYPE_CHECKING:
    import duckdb

NAMES = 25
"""Job names that are listed, those with the most jobs."""
REASONS = 12
"""Reasons of failures that are listed."""
BUCKETS = 48
"""Most bars of the chart of failures."""
_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
_WIDTHS = tuple(
    n * unit for unit, counts in (
        (1_000, (1, 2, 5, 10, 15, 30)), (_MINUTE, (1, 2, 5, 10, 15, 30)), (_HOUR, (1, 2, 4, 6, 12)),
        (_DAY, (1, 2, 7, 14, 30, 90, 365)),
    ) for n in counts
)  # fmt: skip
_DUE = (
    (-_DAY, "overdue a day or more"),
    (-_HOUR, "overdue an hour or more"),
    (-5 * _MINUTE, "overdue 5 minutes or more"),
    (0, "overdue less than 5 minutes"),
    (_MINUTE, "due within a minute"),
    (5 * _MINUTE, "within 5 minutes"),
    (_HOUR, "within an hour"),
    (_DAY, "within a day"),
    (7 * _DAY, "within a week"),
)
"""Upper edge of a bar in ms from the snapshot (the last before it is its lower edge) → its name."""
_LATER = "later"
_STATES = ("delayed", "scheduled", "retry")


@dataclass(frozen=True)
class QueueSignals:
    """A queue's numbers beside those of the document: `nbytes` and `keys` in the snapshot; ms, None: unknown."""

    oldest_ms: int | None
    oldest_job: str | None
    failure_rate: float | None
    durations: tuple[int, int, int] | None
    nbytes: int
    keys: int


@dataclass(frozen=True)
class NameSignals:
    """The four signals of one job name in one queue; `durations` are p50, p95 and p99 in ms."""

    place: str
    name: str | None
    jobs: int
    depth: dict[str, int]
    oldest_ms: int | None
    failure_rate: float | None
    durations: tuple[int, int, int] | None


@dataclass(frozen=True)
class Due:
    """One bar: its name, whether it lies before the snapshot, jobs by state."""

    label: str
    overdue: bool
    counts: dict[str, int]


@dataclass(frozen=True)
class Failures:
    """Failures over time: `width_ms` a bar, the first beginning at `start_ms`; those outside are counted beside."""

    start_ms: int
    width_ms: int
    bars: tuple[int, ...]
    earlier: int
    later: int


@dataclass(frozen=True)
class Reason:
    """Failures with one text, numbers in it left out."""

    text: str
    jobs: int
    queues: int
    example: tuple[str, str, str]
    """Namespace, queue and id of one of them."""


@dataclass(frozen=True)
class Board:
    """All numbers of the page; `queues` is keyed by evidence, db, namespace and queue."""

    queues: dict[tuple[int, int, str, str], QueueSignals]
    names: tuple[NameSignals, ...]
    names_left: int
    due: tuple[Due, ...]
    due_unknown: int
    failures: Failures | None
    reasons: tuple[Reason, ...]
    reasons_left: int
    other_bytes: int
    """Bytes of keys that no queue owns."""


def board(case: Case, document: Document) -> Board:
    """Asks the case for the numbers of the page; a handful of queries, whatever its size."""
    connection = case.connection()
    where = "evidence, db, namespace, queue"
    columns = ", ".join(column for column, _ in DEPTH)
    depth = connection.execute(f"select scope, {where}, name, jobs, {columns} from signal_depth").fetchall()
    counts = {tuple(row[:6]): dict(zip((column for column, _ in DEPTH), row[7:], strict=True)) for row in depth}
    waits = _signal(connection, "signal_oldest_waiting", "age_ms, job_id")
    took = _signal(connection, "signal_duration", "p50_ms, p95_ms, p99_ms")
    room = connection.execute(f"select {where}, sum(nbytes)::bigint, count(*) from keys group by all").fetchall()
    sizes = {tuple(row[:4]): (row[4] or 0, row[5]) for row in room if row[3] is not None}
    queues = {}
    for fact in document.queues:
        key = (fact.evidence, fact.db, fact.namespace, fact.queue)
        wait = waits.get(("queue", *key, None), (None, None))
        nbytes, keys = sizes.get(key, (0, 0))
        queues[key] = QueueSignals(
            oldest_ms=wait[0],
            oldest_job=wait[1],
            failure_rate=_rate(counts.get(("queue", *key, None), {})),
            durations=took.get(("queue", *key, None)),
            nbytes=nbytes,
            keys=keys,
        )
    depth = [row for row in depth if row[0] == "name"]
    depth.sort(key=lambda row: (-row[6], row[1:5], row[5] or ""))
    names = []
    for row in depth[:NAMES]:
        named = tuple(row[:6])
        names.append(
            NameSignals(
                place=place(row[3], row[4]),
                name=row[5],
                jobs=row[6],
                depth=counts[named],
                oldest_ms=waits.get(named, (None,))[0],
                failure_rate=_rate(counts[named]),
                durations=took.get(named),
            )
        )
    due, due_unknown = _due(connection)
    reasons, reasons_left = _reasons(connection)
    return Board(
        queues=queues,
        names=tuple(names),
        names_left=len(depth) - len(names),
        due=due,
        due_unknown=due_unknown,
        failures=_failures(connection),
        reasons=reasons,
        reasons_left=reasons_left,
        other_bytes=sum(row[4] or 0 for row in room if row[3] is None),
    )


def _rate(counts: dict[str, int]) -> float | None:
    """As `signal_failure_rate` has it, from the counts that are at hand."""
    over = counts.get("done", 0) + counts.get("failed", 0)
    return round(counts["failed"] / over, 4) if over else None


def _signal(connection: duckdb.DuckDBPyConnection, view: str, columns: str) -> dict[tuple[Any, ...], Any]:
    """Scope, place and name → the signal's numbers."""
    rows = connection.execute(f"select scope, evidence, db, namespace, queue, name, {columns} from {view}").fetchall()
    return {row[:6]: row[6:] for row in rows}


def _due(connection: duckdb.DuckDBPyConnection) -> tuple[tuple[Due, ...], int]:
    """Bars from the most overdue to the latest; jobs whose due time or snapshot time is not known."""
    cases = " ".join(f"when left_ms < {edge} then {nth}" for nth, (edge, _) in enumerate(_DUE))
    rows = connection.execute(
        f"select case when left_ms is null then -1 {cases} else {len(_DUE)} end as bar, state, count(*) from (select"
        " state::varchar as state, epoch_ms(scheduled_at) - as_of_ms as left_ms from jobs left join"
        f" (select evidence, as_of_ms from evidence) using (evidence) where state in {_STATES})"
        " group by all order by all"
    ).fetchall()
    names = [name for _, name in _DUE] + [_LATER]
    bars = [Due(name, nth < 4, {}) for nth, name in enumerate(names)]
    unknown = 0
    for bar, state, jobs in rows:
        if bar < 0:
            unknown += jobs
        else:
            bars[bar].counts[state] = jobs
    return (tuple(bars) if any(bar.counts for bar in bars) else ()), unknown


def _failures(connection: duckdb.DuckDBPyConnection) -> Failures | None:
    """The narrowest bars that, up to the last failure, hold nearly all of them; None: no failure says when."""
    failed = (
        "select coalesce(case when state in ('failed', 'archived') then finished_at end, last_failed_at) as failed_at"
        " from jobs where state in ('failed', 'archived', 'retry')"
    )
    # The snapshot's time has whole seconds: what happened in that second happened before it.
    moments = connection.execute(
        f"select epoch_us(f.failed_at) // 1000000, count(*), bool_or(epoch_ms(f.failed_at) >= e.as_of_ms + 1000)"
        f" from ({failed}) as f cross join (select max(as_of_ms) as as_of_ms from evidence) as e"
        " where f.failed_at is not null group by 1 order by 1"
    ).fetchall()
    later = sum(n for _, n, beyond in moments if beyond)
    known = [(second * 1000, n) for second, n, beyond in moments if not beyond]
    total = sum(n for _, n in known)
    if not total:
        return None
    last = known[-1][0]
    for width in _WIDTHS:
        start = (last // width - BUCKETS + 1) * width
        inside = sum(n for ms, n in known if ms >= start)
        if inside * 50 >= total * 49:
            break
    first = min(ms for ms, _ in known if ms >= start) // width * width
    bars = [0] * ((last - first) // width + 1)
    for ms, n in known:
        if ms >= first:
            bars[(ms - first) // width] += n
    return Failures(first, width, tuple(bars), total - sum(bars), later)


def _reasons(connection: duckdb.DuckDBPyConnection) -> tuple[tuple[Reason, ...], int]:
    """The commonest, and how many failures have another reason."""
    rows = connection.execute(
        # Equal lines are counted before their numbers are taken out: that is the costly part.
        "select left(regexp_replace(line, '[0-9a-fA-F-]{16,}|[0-9]+', '#', 'g'), 200) as reason, sum(n)::bigint as"
        " jobs, count(distinct (evidence, db, namespace, queue)), min([namespace, queue, job_id]) from (select"
        " evidence, db, namespace::varchar as namespace, queue::varchar as queue, split_part(trim(error), chr(10), 1)"
        " as line, count(*) as n, min(job_id) as job_id from jobs where state in ('failed', 'archived', 'retry')"
        " and error <> '' group by all) group by reason order by jobs desc, reason"
    ).fetchall()
    found = tuple(Reason(text, jobs, queues, tuple(example)) for text, jobs, queues, example in rows[:REASONS])
    return found, sum(row[1] for row in rows[REASONS:])
