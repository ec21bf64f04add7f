"""LV026."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, Check


class ActiveWithoutWorker(Check):
    """A task is active, but no live server works on it.

    What it finds
    A task in `active` with a lease that still holds, was not taken or renewed within the last heartbeat (`beat_ms`, 5
    s), and is in no live server's list of workers. Up to 0.21, where the claim is the task's own deadline, it is
    information.

    Why it matters
    Whoever took the task is gone: the work stopped at an unknown point. By `heals_at` a running server has recovered
    it; with no server, a task without a message, or an undecodable message in the way, there is no such time.

    How it comes about
    The server was killed or lost its connection; the answer to its pop was lost on the way.

    What to do next
    Look for the end of the server in its log. Wait for the recovery, or find out first whether the handler must not run
    twice.

    False alarms
    In a cluster the servers' keys may be in another shard's snapshot.

    References
    hibiken/asynq#286, hibiken/asynq#334, hibiken/asynq#1144.
    """

    id = "LV026"
    name = "active-without-worker"
    title = "A task is active, but no live server works on it"
    severity = "warning"
    since = "0.1.0"
    versions = "Asynq 0.10+"
    impact = "are active with nobody at work on them, and wait for recovery"
    heals = "30 to 90 s after the end of its lease (up to 0.21 its deadline), if a server of the queue runs then"
    basis = "derived"
    dialects = ("asynq",)
    needs_time = True
    parameters = {"beat_ms": 5_000, "recovery_starts_ms": 30_000, "recovery_ends_ms": 90_000, "clock_skew_ms": 2_000}
    needs = {
        "membership": (*JOB_PLACE, "structure"),
        "queues": (*QUEUE_PLACE, "limits"),
        "jobs": (*JOB_PLACE, "record_complete", "decode_error"),
        "workers": (*JOB_PLACE, "kind", "valid_until", "valid", "key"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        WITH leased AS MATERIALIZED (
            SELECT w.dialect, w.namespace, w.queue, w.job_id, w.key, w.evidence, w.db, w.valid_until, e.as_of_ms,
                ends_with(w.key, ':lease') AS modern
            FROM workers AS w
            JOIN evidence AS e USING (evidence)
            WHERE w.kind = 'lease' AND w.dialect = 'asynq' AND epoch_ms(w.valid_until) > e.as_of_ms
                AND (NOT ends_with(w.key, ':lease')
                    OR epoch_ms(w.valid_until) < e.as_of_ms + 30000 - $beat_ms - $clock_skew_ms)
        ),
        busy AS (
            SELECT DISTINCT dialect, namespace, queue, job_id, evidence, db
            FROM workers
            WHERE kind = 'worker' AND dialect = 'asynq' AND valid IS NOT FALSE
        ),
        served AS (
            SELECT dialect, namespace, queue, evidence, db, coalesce(limits['servers'], 0) AS servers FROM queues
        ),
        unreadable AS MATERIALIZED (
            SELECT dialect, namespace, queue, job_id, evidence, db, decode_error IS NOT NULL AS undecodable
            FROM jobs
            WHERE dialect = 'asynq' AND (decode_error IS NOT NULL OR record_complete IS NOT TRUE)
        ),
        blocked AS (
            SELECT w.evidence, w.db, min(w.job_id) AS stumbling_block
            FROM workers AS w
            JOIN unreadable AS u USING (dialect, namespace, queue, job_id, evidence, db)
            WHERE w.kind = 'lease' AND u.undecodable AND w.valid = FALSE
            GROUP BY ALL
        )
        SELECT dialect, namespace, queue, job_id, l.key, evidence, db, l.valid_until, s.servers,
            CASE
                WHEN u.undecodable THEN 'no: recovery stops at its message, for every queue of the server that meets it'
                WHEN u.job_id IS NOT NULL THEN 'no: no release recovers a task without a message'
                WHEN b.stumbling_block IS NOT NULL
                    THEN 'no: recovery stops at task ' || b.stumbling_block || ', whose message cannot be decoded'
                ELSE 'between ' || strftime(l.valid_until + to_milliseconds($recovery_starts_ms), '%Y-%m-%d %H:%M:%S')
                    || ' and ' || strftime(l.valid_until + to_milliseconds($recovery_ends_ms), '%H:%M:%S')
                    || ' UTC, if a server of the queue runs then'
            END AS heals,
            -- With no server there is none whose next pass would tell when.
            CASE WHEN u.job_id IS NULL AND b.stumbling_block IS NULL AND s.servers > 0
                THEN l.valid_until + to_milliseconds($recovery_ends_ms) END AS heals_at,
            CASE WHEN u.job_id IS NULL AND b.stumbling_block IS NOT NULL THEN 'inferred' END AS heals_basis,
            CASE WHEN l.modern THEN 'warning' ELSE 'info' END AS severity,
            CASE WHEN l.modern THEN l.valid_until - INTERVAL 30 SECOND END AS since_from,
            CASE WHEN l.modern THEN 'its last heartbeat' END AS since_why,
            CASE WHEN l.modern THEN 'derived' END AS since_basis,
            CASE WHEN l.modern THEN 'lease' ELSE 'deadline' END AS _claim,
            duration_text(epoch_ms(l.valid_until) - l.as_of_ms) AS _left
        FROM leased AS l
        ANTI JOIN busy AS y USING (dialect, namespace, queue, job_id, evidence, db)
        JOIN served AS s USING (dialect, namespace, queue, evidence, db)
        LEFT JOIN unreadable AS u USING (dialect, namespace, queue, job_id, evidence, db)
        LEFT JOIN blocked AS b USING (evidence, db)
        WHERE EXISTS (
                SELECT 1 FROM membership AS m
                WHERE m.structure = 'active' AND m.job_id = l.job_id AND m.queue = l.queue AND m.namespace = l.namespace
                    AND m.dialect = l.dialect AND m.evidence = l.evidence AND m.db = l.db
            )
            AND (l.modern OR s.servers = 0)
    """
    message = (
        "Task {job_id} of queue {queue} is active, but no live server works on it; its {_claim} holds for "
        "another {_left}"
    )
