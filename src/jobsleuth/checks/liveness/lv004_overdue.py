"""LV004."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, Check


class Overdue(Check):
    """A job's time has come, but nobody moved it.

    What it finds
    An id in `delayed` (BullMQ), `scheduled` or `retry` (Asynq) whose due time lies before the snapshot by more than
    the time in which a living worker moves it: `bullmq_slack_ms` (30 s) or `asynq_slack_ms` (7 s).

    Why it matters
    The work is late and gets later. It is an error when it is late by more than `overdue_after_ms` (5 min); for BullMQ
    only if nothing shows a living worker, since there a worker busy with long jobs promotes nothing.

    How it comes about
    No worker or server consumes the queue (BullMQ 1.x: no QueueScheduler); a forwarder that died; workers asleep (see
    LV001); a rate limit that sleeps for its whole window (before 5.53.3). A score that is no due time belongs to CN008.

    What to do next
    See in the queue's row when a worker was last seen. Before you start workers again, decide whether work this old
    should still run: all of it starts at once.

    False alarms
    Skewed clocks: due times are written with the clock of the producer. A queue whose handlers run for hours.

    References
    taskforcesh/bullmq#2466, taskforcesh/bullmq#267, OptimalBits/bull#1705.
    """

    id = "LV004"
    name = "overdue"
    title = "A job's time has come, but nobody moved it"
    severity = "warning"
    since = "0.1.0"
    versions = "all releases"
    impact = "are late and get later"
    heals = "a worker or server of the queue moves it as soon as one runs"
    basis = "derived"
    needs_time = True
    parameters = {
        "overdue_after_ms": 300_000,
        "bullmq_slack_ms": 30_000,
        "asynq_slack_ms": 7_000,
        "worker_sign_ms": 60_000,
    }
    absence = False
    needs = {
        "membership": (*JOB_PLACE, "structure", "due_at", "score", "key"),
        "queues": (*QUEUE_PLACE, "last_worker_sign_at"),
        "keys": (*QUEUE_PLACE, "role", "type", "expired"),
        "evidence": ("evidence", "as_of", "as_of_ms"),
    }
    sql = """
        WITH late AS (
            SELECT m.*, e.as_of_ms, e.as_of_ms - epoch_ms(m.due_at) AS late_ms
            FROM (
                SELECT dialect, namespace, queue, job_id, structure, due_at, key, evidence, db
                FROM membership
                WHERE structure IN ('delayed', 'scheduled', 'retry') AND due_at < (SELECT max(as_of) FROM evidence)
                    -- Below it is no packed time (CN008).
                    AND NOT (dialect = 'bullmq' AND coalesce(score < 100_000_000_000_000, FALSE))
            ) AS m
            JOIN evidence AS e USING (evidence)
            WHERE e.as_of_ms - epoch_ms(m.due_at)
                > CASE WHEN m.dialect = 'asynq' THEN $asynq_slack_ms ELSE $bullmq_slack_ms END
        ),
        shown AS (
            SELECT DISTINCT dialect, namespace, queue, evidence, db
            FROM keys
            WHERE role IN ('stalled-check', 'limiter') AND type = 'string' AND expired IS NOT TRUE
        )
        SELECT dialect, namespace, queue, l.job_id, l.key, evidence, db, l.structure, l.due_at, l.late_ms,
            l.due_at AS since_from, l.due_at AS since_to, 'its due time' AS since_why, 'observed' AS since_basis,
            q.last_worker_sign_at,
            s.queue IS NOT NULL
                OR coalesce(epoch_ms(q.last_worker_sign_at) >= l.as_of_ms - $worker_sign_ms, FALSE) AS worker_seen,
            CASE
                WHEN l.late_ms <= $overdue_after_ms THEN 'warning'
                WHEN dialect = 'asynq' THEN 'error'
                WHEN s.queue IS NOT NULL THEN 'warning'
                WHEN epoch_ms(q.last_worker_sign_at) >= l.as_of_ms - $worker_sign_ms THEN 'warning'
                ELSE 'error'
            END AS severity,
            duration_text(l.late_ms) AS _late
        FROM late AS l
        LEFT JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
        LEFT JOIN shown AS s USING (dialect, namespace, queue, evidence, db)
    """
    message = "Job {job_id} of queue {queue} was due {_late} before the snapshot and is still in {structure}"
