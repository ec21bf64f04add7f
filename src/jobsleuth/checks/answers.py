"""What an engineer asks next of any finding about a job: since when, who held it, may it be tried again.

A check that knows better says so in its own row; the rest is answered here from the job's record, its claims and its
events. What cannot be known is said, never guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from jobsleuth.case import conform
from jobsleuth.checks.base import JOB_PLACE

if TYPE_CHECKING:
    import duckdb

NEEDS = {
    "jobs": (
        *JOB_PLACE, "has_record", "state", "claimed_state", "created_at", "started_at", "finished_at",
        "last_failed_at", "pending_since", "attempts", "attempts_started", "stalled_count", "worker_name", "stacktrace",
    ),
    "workers": (*JOB_PLACE, "kind", "worker_id", "host", "pid", "valid_until", "valid", "key"),
    "events": (*JOB_PLACE, "at", "event", "stream_id"),
}  # fmt: skip
"""Tables and columns that the answers read."""

# No time and no file name stands in it: the same fault has the same number in tomorrow's snapshot. Nor does the key
# where the check itself says what is the same: of many keys it names only one, and another tomorrow. A database does:
# those of one server often hold queues of the same names, and ids that both count from 1.
_FINGERPRINT = """
    sha256(to_json([
        g.check_id::VARCHAR, g.dialect::VARCHAR, g.namespace::VARCHAR, g.queue::VARCHAR,
        CASE WHEN g.job_id IS NOT NULL THEN g.job_id WHEN g.fingerprint IS NULL THEN g.key END, g.fingerprint
    ])::VARCHAR || CASE WHEN g.db <> 0 THEN ' in database ' || g.db ELSE '' END)[:32]
"""
_PLAIN = f"SELECT g.* REPLACE ({_FINGERPRINT} AS fingerprint) FROM given_findings AS g ORDER BY g.nth"
_AT_ONCE = 16_384
_PLACE = ", ".join(JOB_PLACE)
# What shows that a job was started, newest sign; BullMQ's counters and Asynq's outlive a retry, the time may not.
_KNOWN = f"""
    CREATE OR REPLACE TEMP TABLE known AS
    WITH asked AS MATERIALIZED (
        SELECT DISTINCT {_PLACE} FROM given_findings WHERE job_id IS NOT NULL
    ),
    record AS MATERIALIZED (
        SELECT j.* FROM (
            SELECT {_PLACE}, has_record, state, claimed_state, created_at, started_at, finished_at, last_failed_at,
                pending_since, attempts, attempts_started, stalled_count, worker_name
            FROM jobs
        ) AS j
        SEMI JOIN asked AS a USING ({_PLACE})
    ),
    holders AS (
        SELECT {_PLACE},
            CASE
                WHEN kind = 'lock' THEN 'lock token ' || coalesce(worker_id, '?')
                WHEN kind = 'lease' THEN 'a server that the lease does not name'
                WHEN host IS NOT NULL THEN 'server ' || host || ':' || coalesce(pid::VARCHAR, '?')
                ELSE 'worker ' || coalesce(worker_id, '?')
            END
            || CASE
                WHEN valid_until IS NULL THEN ''
                WHEN valid = FALSE THEN ', until ' || strftime(valid_until, '%Y-%m-%d %H:%M:%S') || ' UTC'
                ELSE ', still valid'
            END AS holder
        FROM workers
        SEMI JOIN asked AS a USING ({_PLACE})
        WHERE kind IN ('lock', 'lease', 'worker')
    ),
    claims AS (
        -- Workers and servers before tokens.
        SELECT {_PLACE}, string_agg(DISTINCT holder, '; ' ORDER BY holder DESC) AS held_by FROM holders GROUP BY ALL
    ),
    renewed AS (
        -- Asynq sets a lease 30 s ahead.
        SELECT {_PLACE}, max(valid_until) - INTERVAL 30 SECOND AS renewed_at
        FROM workers
        SEMI JOIN asked AS a USING ({_PLACE})
        WHERE kind = 'lease' AND dialect = 'asynq' AND ends_with(key, ':lease')
        GROUP BY ALL
    ),
    scarred AS (
        SELECT {_PLACE}
        FROM (SELECT {_PLACE}, stacktrace FROM jobs WHERE dialect = 'bullmq') AS j
        SEMI JOIN asked AS a USING ({_PLACE})
        WHERE stacktrace IS NOT NULL AND stacktrace <> '[]'
    ),
    told AS (
        SELECT {_PLACE}, max(v."at") AS told_at, max(v."at") FILTER (v.event = 'active') AS active_at,
            arg_max(v.event, (v."at", length(coalesce(v.stream_id, '')), coalesce(v.stream_id, ''), v.event)) AS event
        FROM events AS v
        SEMI JOIN asked AS a USING ({_PLACE})
        GROUP BY ALL
    ),
    gathered AS (
        SELECT a.*, r.* EXCLUDE ({_PLACE}), c.held_by AS claimed_by,
            t.told_at, t.active_at, t.event, n.renewed_at,
            greatest(
                r.created_at, r.started_at, r.finished_at, r.last_failed_at, r.pending_since, t.told_at, n.renewed_at
            ) AS seen_at,
            coalesce(r.attempts_started, 0) > 0 OR coalesce(r.attempts, 0) > 0 OR coalesce(r.stalled_count, 0) > 0
                OR r.started_at IS NOT NULL OR r.last_failed_at IS NOT NULL
                OR (r.finished_at IS NOT NULL AND r.state IS DISTINCT FROM 'archived')
                OR t.active_at IS NOT NULL OR x.job_id IS NOT NULL
                OR coalesce(r.state IN ('active', 'completed', 'failed'), FALSE) AS ran,
            CASE
                WHEN r.has_record IS NOT TRUE THEN FALSE
                WHEN a.dialect = 'asynq' THEN
                    r.claimed_state = 'scheduled'
                    OR (r.claimed_state = 'pending' AND r.pending_since IS NOT NULL)
                ELSE r.created_at IS NOT NULL
            END AS fresh
        FROM asked AS a
        LEFT JOIN record AS r USING ({_PLACE})
        LEFT JOIN claims AS c USING ({_PLACE})
        LEFT JOIN told AS t USING ({_PLACE})
        LEFT JOIN renewed AS n USING ({_PLACE})
        LEFT JOIN scarred AS x USING ({_PLACE})
    )
    SELECT * FROM gathered
"""
# The sentences are made for a few thousand findings at a time: they take many times the room of what they say.
_ANSWERS = f"""
    WITH answered AS (
        SELECT k.dialect, k.namespace, k.queue, k.job_id, k.evidence, k.db, k.seen_at,
            CASE
                WHEN k.seen_at IS NULL THEN 'cannot be known: the evidence holds no time that speaks of this job'
                WHEN k.renewed_at = k.seen_at THEN 'after the last renewal of its lease'
                WHEN k.told_at = k.seen_at THEN 'after its latest event, ' || k.event
                ELSE 'after the latest time in its record'
            END AS since_why,
            CASE
                WHEN k.claimed_by IS NOT NULL THEN k.claimed_by
                WHEN k.worker_name IS NOT NULL THEN 'worker ' || k.worker_name || ', the last that took it'
                WHEN k.fresh AND NOT k.ran THEN 'nobody yet: it never started'
                ELSE 'cannot be known: no lock, lease or worker entry names it'
            END AS held_by,
            CASE WHEN k.claimed_by IS NOT NULL OR k.worker_name IS NOT NULL THEN 'observed' ELSE 'derived' END
                AS held_by_basis,
            CASE WHEN k.ran THEN 'unsafe' WHEN k.fresh THEN 'safe' ELSE 'unknown' END AS retry,
            CASE
                WHEN k.started_at IS NOT NULL THEN
                    'it was started at ' || strftime(k.started_at, '%Y-%m-%d %H:%M:%S') || ' UTC'
                WHEN k.attempts_started > 0 THEN 'it was started ' || count_text(k.attempts_started, 'time')
                WHEN k.active_at IS NOT NULL THEN
                    'an event says that it became active at '
                        || strftime(k.active_at, '%Y-%m-%d %H:%M:%S') || ' UTC'
                WHEN k.attempts > 0 THEN 'it counts ' || count_text(k.attempts, 'attempt')
                WHEN k.stalled_count > 0 THEN
                    'it was recovered from a dead worker ' || count_text(k.stalled_count, 'time')
                WHEN k.state = 'active' THEN 'it is active: a worker took it'
                WHEN k.ran AND k.has_record IS NOT TRUE THEN 'it stands among the ' || k.state || ' jobs'
                WHEN k.ran THEN 'its record holds a failure or an end'
                WHEN k.fresh AND k.dialect = 'asynq' THEN
                    'its record says ' || k.claimed_state || ' and holds no attempt, failure or end'
                WHEN k.fresh THEN 'its record holds no start time, and its counters of attempts are zero'
                WHEN k.claimed_state = 'aggregating' AND k.has_record
                    THEN 'whether a task was made of its group, and run, is not known'
                WHEN k.has_record IS NOT TRUE THEN 'its record is gone, and no event says whether it was started'
                ELSE 'its record does not say whether it was started'
            END AS retry_why
        FROM known AS k
        SEMI JOIN given_findings AS g USING ({_PLACE})
    )
    SELECT g.* REPLACE (
        CASE WHEN g.job_id IS NULL THEN g.since_from ELSE coalesce(g.since_from, s.seen_at) END AS since_from,
        -- The snapshot's time is a whole second, rounded down, and the clocks of clients may be ahead of it.
        CASE
            WHEN g.since_to IS NOT NULL OR (g.job_id IS NULL AND g.since_from IS NULL) THEN g.since_to
            WHEN coalesce(g.since_from, s.seen_at) > e.as_of
                THEN greatest(e.as_of + INTERVAL 1 SECOND, coalesce(g.since_from, s.seen_at))
            ELSE e.as_of
        END AS since_to,
        CASE WHEN g.job_id IS NULL THEN g.since_why ELSE coalesce(g.since_why, s.since_why) END AS since_why,
        coalesce(
            g.since_basis,
            CASE WHEN g.job_id IS NOT NULL THEN 'inferred'
                WHEN g.since_from IS NOT NULL OR g.since_to IS NOT NULL THEN 'derived' END
        ) AS since_basis,
        CASE WHEN g.job_id IS NULL THEN g.held_by ELSE coalesce(g.held_by, s.held_by) END AS held_by,
        CASE WHEN g.job_id IS NULL THEN g.held_by_basis ELSE coalesce(g.held_by_basis, s.held_by_basis) END
            AS held_by_basis,
        CASE WHEN g.job_id IS NULL THEN g.retry ELSE coalesce(g.retry, s.retry) END AS retry,
        CASE WHEN g.job_id IS NULL THEN g.retry_why ELSE coalesce(g.retry_why, s.retry_why) END AS retry_why,
        CASE WHEN g.job_id IS NULL THEN g.retry_basis ELSE coalesce(g.retry_basis, 'derived') END AS retry_basis,
        {_FINGERPRINT} AS fingerprint
    )
    FROM given_findings AS g
    LEFT JOIN answered AS s
        ON s.dialect IS NOT DISTINCT FROM g.dialect AND s.namespace IS NOT DISTINCT FROM g.namespace
            AND s.queue IS NOT DISTINCT FROM g.queue AND s.job_id = g.job_id
            AND s.evidence IS NOT DISTINCT FROM g.evidence AND s.db IS NOT DISTINCT FROM g.db
    LEFT JOIN evidence AS e ON e.evidence = g.evidence
    ORDER BY g.nth
"""


def answer(connection: duckdb.DuckDBPyConnection, findings: pa.Table, columns: Mapping[str, set[str]]) -> pa.Table:
    """The findings, in their order, with the questions about jobs answered and their fingerprints made.

    Args:
        connection: over the case, with the runner's macros.
        findings: rows of the table `findings`; `fingerprint` holds what tells findings of one place apart.
        columns: table → columns that the case has; where those in :data:`NEEDS` are not there, only the fingerprints
            are made.
    """
    able = all(set(needed) <= columns.get(table, set()) for table, needed in NEEDS.items())
    if able:
        connection.register("given_findings", findings.select(_PLACE.split(", ")))
        connection.execute(_KNOWN)
        connection.unregister("given_findings")
    answered = []
    for batch in findings.to_batches(max_chunksize=_AT_ONCE):
        numbered = pa.Table.from_batches([batch]).append_column("nth", pa.array(range(batch.num_rows), pa.int64()))
        connection.register("given_findings", numbered)
        made = connection.sql(_ANSWERS if able else _PLAIN).to_arrow_table()
        answered.append(conform("findings", made.drop_columns(["nth"])))
        connection.unregister("given_findings")
    if able:
        connection.execute("DROP TABLE known")
    return pa.concat_tables(answered) if answered else findings
