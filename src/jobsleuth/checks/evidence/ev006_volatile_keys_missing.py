"""EV006."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, Check


class VolatileKeysMissing(Check):
    """Keys that must still live are missing: Redis may have evicted them.

    What it finds
    At least `least_jobs` (3) active jobs of a database that were started less than `lock_duration_ms` (30 s) before the
    snapshot, none of which has a lock, while no lock and no other key with an expiry is left among the queues' keys of
    that database.

    Why it matters
    A lock lives for its duration from the start. Gone earlier and all at once, they were most likely evicted, as Redis
    does under a `volatile-*` policy when its memory is full; what else had an expiry went too. Jobs will run twice.

    How it comes about
    `maxmemory` reached with a `volatile-*` policy; a clean-up that deletes keys with an expiry.

    What to do next
    Set `maxmemory-policy noeviction`, give Redis more memory, and expect duplicates.

    False alarms
    Workers with a lock duration shorter than 30 s that died and made no stalled checks: set `lock_duration_ms` in the
    policy. That is why the finding is never more than possible.

    References
    taskforcesh/bullmq#1046, taskforcesh/bullmq#2215.
    """

    id = "EV006"
    name = "volatile-keys-missing"
    title = "Keys that must still live are missing: Redis may have evicted them"
    severity = "error"
    since = "0.1.0"
    versions = "BullMQ 5+"
    impact = "lost their locks before the time: other workers will take them too"
    heals = "a stalled check puts the jobs back, although their workers live"
    basis = "inferred"
    dialects = ("bullmq",)
    needs_time = True
    parameters = {"lock_duration_ms": 30_000, "least_jobs": 3}
    needs = {
        "keys": ("evidence", "db", "dialect", "role", "expire_at", "expired"),
        "jobs": (*JOB_PLACE, "state", "started_at"),
        "queues": (*QUEUE_PLACE, "layout"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        WITH fresh AS (
            SELECT dialect, namespace, queue, j.job_id, evidence, db
            FROM (
                SELECT dialect, namespace, queue, job_id, evidence, db, started_at
                FROM jobs
                WHERE dialect = 'bullmq' AND state = 'active' AND started_at IS NOT NULL
            ) AS j
            JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
            JOIN evidence AS e USING (evidence)
            WHERE major_of(q.layout) >= 5
                -- The snapshot's time is a whole second, rounded down: a start may lie behind it.
                AND e.as_of_ms - epoch_ms(j.started_at) BETWEEN -1000 AND $lock_duration_ms - 1000
        ),
        locks AS (
            SELECT DISTINCT evidence, db
            FROM keys
            WHERE dialect = 'bullmq' AND (role = 'lock' OR (expire_at IS NOT NULL AND expired IS NOT TRUE))
        )
        SELECT f.dialect, min(f.namespace) AS namespace, 'possible' AS certainty,
            f.evidence, f.db, count(*) AS jobs, min(f.job_id) AS example,
            count(DISTINCT f.queue) AS queues, count_text(count(DISTINCT f.queue), 'queue') AS _queues
        FROM fresh AS f
        ANTI JOIN locks AS l USING (evidence, db)
        GROUP BY f.dialect, f.evidence, f.db
        HAVING count(*) >= $least_jobs
    """
    message = (
        "{jobs} jobs of {_queues} have just been started, but no lock is left in database {db}: Redis may "
        "have evicted them"
    )
