"""The four signals of a queue as SQL views: depth, age of the oldest waiting job, failure rate, durations.

Each has one row for each queue (`scope` is `queue`, `name` null) and one for each job name in it (`scope` is `name`),
so that a percentile of a whole queue need not be guessed from those of its parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

WAITING = ("wait", "waiting", "prioritized", "pending", "aggregating", "undelivered", "released")
"""States of jobs that are ready to run, or would be if their queue were not paused."""
IN_HAND = "in hand"
"""What an entry that is pending in a stream's group counts as: its word is that of Asynq's tasks that are ready."""
DEPTH: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("waiting", WAITING),
    ("active", ("active", "processing", IN_HAND)),
    ("delayed", ("delayed", "scheduled")),
    ("retry", ("retry",)),
    ("failed", ("failed", "archived")),
    ("done", ("completed", "acknowledged")),
    ("blocked", ("waiting-children",)),
    ("unknown", ("unknown",)),
)
"""Column of `signal_depth` → states that it counts; no state is in two of them."""


def as_counted(dialect: str, counts: Mapping[str, int]) -> dict[str, int]:
    """Jobs by state in the words of :data:`DEPTH`."""
    return {IN_HAND if (dialect, state) == ("streams", "pending") else state: n for state, n in counts.items()}


@dataclass(frozen=True)
class View:
    """A view over the tables of a case.

    Attributes:
        name: as SQL knows it.
        doc: what a row is, and what the numbers rest on.
        columns: name → meaning, of those that are not the place.
        sql: its query.
        question: an example to paste.
    """

    name: str
    doc: str
    columns: tuple[tuple[str, str], ...]
    sql: str
    question: str


_STATE = f"CASE WHEN dialect = 'streams' AND state = 'pending' THEN '{IN_HAND}' ELSE state::VARCHAR END"
_PLACE = "evidence, db, dialect, namespace, queue"
_SCOPE = "CASE WHEN grouping(name) = 1 THEN 'queue' ELSE 'name' END AS scope"
_SETS = f"GROUP BY GROUPING SETS (({_PLACE}), ({_PLACE}, name))"
_ORDER = f"ORDER BY {_PLACE}, scope DESC, name NULLS FIRST"


def _listed(states: tuple[str, ...]) -> str:
    return ", ".join(f"'{state}'" for state in states)


_COUNTS = ", ".join(
    f"coalesce(sum(n) FILTER (_state IN ({_listed(states)})), 0)::BIGINT AS {column}" for column, states in DEPTH
)
# The library's own clock of a waiting job: Asynq notes when it became pending, BullMQ when it was added.
_SINCE = "coalesce(pending_since, created_at)"

VIEWS: tuple[View, ...] = (
    View(
        "signal_depth",
        "How many jobs there are, by state. Only jobs that the snapshot still holds: libraries remove finished ones.",
        (
            ("jobs", "All of them."),
            *((column, f"Those in state {' or '.join(states)}.") for column, states in DEPTH),
        ),
        # Counted once by all it depends on, then summed up twice; so below.
        f"SELECT {_PLACE}, {_SCOPE}, name, sum(n)::BIGINT AS jobs, {_COUNTS} FROM"
        f" (SELECT {_PLACE}, name, {_STATE} AS _state, count(*) AS n FROM jobs GROUP BY ALL) {_SETS} {_ORDER}",
        "select queue, name, waiting from signal_depth where scope = 'name' order by waiting desc",
    ),
    View(
        "signal_oldest_waiting",
        "The job that waits longest of those ready to run. Asynq records since when a task is pending; BullMQ only when"
        " a job was added, so that a job that was delayed or tried before counts from its addition. Queues and names"
        " without a waiting job have no row.",
        (
            ("waiting", "Jobs ready to run."),
            ("oldest_at", "Since when the oldest of them waits; null: none of them says."),
            ("age_ms", "How long that was at the snapshot, in ms; null: one of the times is unknown."),
            ("job_id", "Id of that job."),
        ),
        f"SELECT {_PLACE}, scope, name, waiting, oldest.since AS oldest_at,"
        " CASE WHEN e.as_of_ms IS NOT NULL AND oldest.since IS NOT NULL"
        " THEN greatest(0, e.as_of_ms - epoch_ms(oldest.since)) END AS age_ms, oldest.id AS job_id FROM ("
        f"SELECT {_PLACE}, {_SCOPE}, name, sum(n)::BIGINT AS waiting, min(first) AS oldest FROM ("
        f"SELECT {_PLACE}, name, count(*) AS n,"
        f" min({{'since': {_SINCE}, 'id': job_id}}) FILTER ({_SINCE} IS NOT NULL) AS first"
        f" FROM jobs WHERE {_STATE} IN ({_listed(WAITING)}) GROUP BY ALL) {_SETS}"
        f") LEFT JOIN (SELECT evidence, as_of_ms FROM evidence) AS e USING (evidence) {_ORDER}",
        "select queue, name, age_ms / 60000 as minutes, job_id from signal_oldest_waiting where scope = 'queue'",
    ),
    View(
        "signal_failure_rate",
        "How many of the finished jobs failed for good, and how many of those that will be tried again have failed"
        " already. Only jobs that the snapshot still holds: where a library removes completed jobs at once and keeps"
        " failed ones, the rate is too high. Queues and names without such a job have no row.",
        (
            ("completed", "Jobs in state completed."),
            ("failed", "Jobs in state failed or archived."),
            ("failing", "Jobs that failed at least once and are not finished."),
            ("failure_rate", "failed / (completed + failed); null: none is finished."),
        ),
        f"SELECT {_PLACE}, scope, name, completed, failed, failing,"
        " CASE WHEN completed + failed > 0 THEN round(failed / (completed + failed), 4) END AS failure_rate FROM ("
        f"SELECT {_PLACE}, {_SCOPE}, name, count(*) FILTER (state = 'completed') AS completed,"
        " count(*) FILTER (state IN ('failed', 'archived')) AS failed, count(*) FILTER"
        " (state NOT IN ('completed', 'failed', 'archived') AND (attempts > 0 OR state = 'retry')) AS failing"
        f" FROM jobs {_SETS}) WHERE completed + failed + failing > 0 {_ORDER}",
        "select queue, name, failed, failure_rate from signal_failure_rate where scope = 'name' order by 4 desc",
    ),
    View(
        "signal_duration",
        "How long finished jobs ran: from their latest start to their end, of completed and failed jobs that record"
        " both. BullMQ does; Asynq keeps no start of a finished task, so it has no row here.",
        (
            ("jobs", "Finished jobs that record start and end."),
            ("p50_ms", "Half of them took at most so many ms."),
            ("p95_ms", "95 % took at most so many ms."),
            ("p99_ms", "99 % took at most so many ms."),
            ("max_ms", "The longest, in ms."),
        ),
        f"SELECT {_PLACE}, scope, name, jobs, took[1] AS p50_ms, took[2] AS p95_ms, took[3] AS p99_ms, max_ms FROM ("
        f"SELECT {_PLACE}, {_SCOPE}, name, count(*) AS jobs, quantile_disc(ms, [0.5, 0.95, 0.99]) AS took,"
        f" max(ms) AS max_ms FROM (SELECT {_PLACE}, name, (epoch_us(finished_at) - epoch_us(started_at)) // 1000 AS ms"
        " FROM jobs WHERE state IN ('completed', 'failed', 'archived') AND started_at IS NOT NULL"
        f" AND finished_at >= started_at) {_SETS}) {_ORDER}",
        "select queue, name, jobs, p50_ms, p95_ms, p99_ms from signal_duration where scope = 'name' order by 6 desc",
    ),
)
