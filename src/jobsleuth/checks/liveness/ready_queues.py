"""The part that checks of sleeping queues share: queues with work ready to run and nobody at it."""

from __future__ import annotations

READY_QUEUES = """
    tally AS (
        SELECT dialect, namespace, queue, evidence, db,
            count(*) FILTER (WHERE structure IN ('wait', 'prioritized', 'pending')) AS ready,
            count(*) FILTER (WHERE structure = 'active') AS active,
            count(*) FILTER (WHERE structure = 'marker' AND kind = 'zset' AND job_id = '0' AND score = 0) AS wake_ups
        FROM membership
        WHERE structure IN ('wait', 'prioritized', 'pending', 'active', 'marker')
        GROUP BY ALL
    ),
    limited AS (
        SELECT DISTINCT dialect, namespace, queue, evidence, db
        FROM keys
        WHERE role = 'limiter' AND type = 'string' AND expired IS NOT TRUE
    ),
    checked AS (
        SELECT DISTINCT dialect, namespace, queue, evidence, db
        FROM keys
        WHERE role = 'stalled-check' AND type = 'string' AND expired IS NOT TRUE
    ),
    idle AS MATERIALIZED (
        SELECT dialect, namespace, queue, evidence, db, t.ready, t.wake_ups, e.as_of_ms, q.last_worker_sign_at,
            coalesce(try_cast(regexp_extract(q.layout, '^bullmq (\\d+)', 1) AS INTEGER), 0) AS major,
            coalesce(q.limits['servers'], 0) AS servers,
            c.queue IS NOT NULL
                OR coalesce(q.limits['servers'], 0) > 0
                OR coalesce(epoch_ms(q.last_worker_sign_at) >= e.as_of_ms - $worker_sign_ms, FALSE) AS worker_seen
        FROM tally AS t
        JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
        JOIN evidence AS e USING (evidence)
        LEFT JOIN limited AS l USING (dialect, namespace, queue, evidence, db)
        LEFT JOIN checked AS c USING (dialect, namespace, queue, evidence, db)
        WHERE t.ready > 0 AND t.active = 0 AND q.paused IS NOT TRUE AND l.queue IS NULL
    ),
    told AS (
        SELECT dialect, namespace, queue, evidence, db, v.job_id, max(v."at") AS told_at
        FROM events AS v
        SEMI JOIN idle AS i USING (dialect, namespace, queue, evidence, db)
        WHERE v.job_id IS NOT NULL
        GROUP BY ALL
    ),
    stranded AS (
        SELECT m.dialect, m.namespace, m.queue, m.job_id, m.evidence, m.db
        FROM membership AS m
        SEMI JOIN idle AS i USING (dialect, namespace, queue, evidence, db)
        WHERE m.structure = 'paused'
    ),
    since AS (
        SELECT dialect, namespace, queue, evidence, db,
            min(coalesce(j.pending_since, t.told_at, j.created_at)) AS ready_since
        FROM (
            SELECT dialect, namespace, queue, job_id, evidence, db, pending_since, created_at
            FROM jobs
            WHERE state IN ('waiting', 'prioritized', 'pending')
        ) AS j
        SEMI JOIN idle AS i USING (dialect, namespace, queue, evidence, db)
        ANTI JOIN stranded AS s USING (dialect, namespace, queue, job_id, evidence, db)
        LEFT JOIN told AS t USING (dialect, namespace, queue, job_id, evidence, db)
        GROUP BY ALL
    ),
    asleep AS (
        SELECT i.*, s.ready_since, i.as_of_ms - epoch_ms(s.ready_since) AS waited_ms,
            greatest(s.ready_since, i.last_worker_sign_at) AS since_from,
            CASE WHEN i.last_worker_sign_at >= s.ready_since THEN 'after the latest sign of a worker'
                ELSE 'after the oldest of its jobs became ready' END AS since_why
        FROM idle AS i
        JOIN since AS s USING (dialect, namespace, queue, evidence, db)
        WHERE i.as_of_ms - epoch_ms(s.ready_since) >= $quiet_after_ms
    )
"""
"""CTEs that end in `asleep`: one row per queue that is not paused, not rate-limited, runs nothing, and has had work
ready for `$quiet_after_ms`. The age of readiness is a job's latest event, else its creation: an old job that was put
back a second ago is no old work."""

NEEDS = {
    "membership": ("dialect", "namespace", "queue", "structure", "kind", "job_id", "score", "evidence", "db"),
    "keys": ("dialect", "namespace", "queue", "role", "type", "expired", "evidence", "db"),
    "queues": ("dialect", "namespace", "queue", "layout", "paused", "limits", "last_worker_sign_at", "evidence", "db"),
    "events": ("dialect", "namespace", "queue", "at", "job_id", "evidence", "db"),
    "jobs": ("dialect", "namespace", "queue", "job_id", "state", "created_at", "pending_since", "evidence", "db"),
    "evidence": ("evidence", "as_of_ms"),
}
"""What the CTEs read."""

PARAMETERS = {"overdue_after_ms": 300_000, "quiet_after_ms": 30_000, "worker_sign_ms": 60_000}
"""`quiet_after_ms`: a connected worker looks again after 10 s at the latest. `worker_sign_ms`: a worker gives signs at
least every 30 s."""
