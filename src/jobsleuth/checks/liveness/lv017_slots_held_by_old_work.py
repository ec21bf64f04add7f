"""LV017."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, Check


class SlotsHeldByOldWork(Check):
    """All of a queue's active jobs are old while others wait.

    What it finds
    A queue with ready jobs that is not paused, all of whose active jobs were started more than `old_work_ms` (10 min)
    before the snapshot, and whose newest ready job came later than the newest start.

    Why it matters
    The workers take nothing new: their slots are held by work that hangs or is dead. `details` tells how many of the
    active jobs still have a live claim: hung handlers renew theirs, dead workers do not.

    How it comes about
    Handlers that wait for ever (a call without a time limit), a blocked event loop, dead workers.

    What to do next
    Look at the oldest active jobs; end their handlers, or recover them.

    False alarms
    Queues whose jobs are long by nature.

    References
    taskforcesh/bullmq#3535, hibiken/asynq#1089.
    """

    id = "LV017"
    name = "slots-held-by-old-work"
    title = "All of a queue's active jobs are old while others wait"
    severity = "warning"
    since = "0.1.0"
    versions = "Bull, BullMQ, Asynq 0.10+"
    impact = "wait behind work that does not end"
    heals = "when one of the active jobs ends or is recovered"
    basis = "inferred"
    needs_time = True
    parameters = {"old_work_ms": 600_000}
    absence = False
    needs = {
        "jobs": (*QUEUE_PLACE, "state", "created_at", "started_at", "pending_since"),
        "queues": (*QUEUE_PLACE, "paused"),
        "workers": (*JOB_PLACE, "kind", "valid"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        WITH active AS MATERIALIZED (
            SELECT j.dialect, j.namespace, j.queue, j.evidence, j.db, count(*) AS active,
                min(j.started_at) AS oldest_start, max(j.started_at) AS newest_start,
                bool_and(j.started_at IS NOT NULL) AS all_known
            FROM (SELECT dialect, namespace, queue, evidence, db, started_at FROM jobs WHERE state = 'active') AS j
            GROUP BY ALL
        ),
        ready AS (
            SELECT dialect, namespace, queue, evidence, db, count(*) AS ready,
                max(coalesce(pending_since, created_at)) AS newest_ready
            FROM jobs
            WHERE state IN ('waiting', 'prioritized', 'pending')
            GROUP BY ALL
        ),
        claims AS (
            SELECT dialect, namespace, queue, evidence, db, count(DISTINCT job_id) AS live_claims
            FROM workers
            WHERE kind IN ('lock', 'lease') AND valid
            GROUP BY ALL
        )
        SELECT dialect, namespace, queue, evidence, db, a.active, r.ready, coalesce(c.live_claims, 0) AS live_claims,
            a.oldest_start, a.newest_start, a.newest_start AS since_from,
            count_text(r.ready, 'job') AS _jobs, count_text(a.active, 'active job') AS _active,
            duration_text(e.as_of_ms - epoch_ms(a.newest_start)) AS _age
        FROM active AS a
        JOIN ready AS r USING (dialect, namespace, queue, evidence, db)
        JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
        JOIN evidence AS e USING (evidence)
        LEFT JOIN claims AS c USING (dialect, namespace, queue, evidence, db)
        WHERE q.paused IS NOT TRUE AND a.all_known AND e.as_of_ms - epoch_ms(a.newest_start) > $old_work_ms
            AND r.newest_ready > a.newest_start
    """
    message = (
        "Queue {queue} has {_jobs} ready behind {_active} (live claims: {live_claims}), of which the newest "
        "is {_age} old"
    )
