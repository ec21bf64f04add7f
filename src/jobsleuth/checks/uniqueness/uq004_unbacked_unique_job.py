"""UQ004."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, SOURCE, Check


class UnbackedUniqueJob(Check):
    """Jobs claim a uniqueness id whose key is gone.

    What it finds
    Jobs that have not ended and name a deduplication id or a uniqueness key, where no such key lives. One finding for
    each queue.

    Why it matters
    Equal work is accepted again beside them. That is normal once the key's time is over; a loss of keys looks the same.

    How it comes about
    The key expired (a time to live shorter than the wait), was deleted by hand or evicted under a `volatile-*` policy.

    What to do next
    If duplicates hurt, give the key a longer life than the longest wait with its retries.

    False alarms
    It is information, and busy queues show it all the time: it runs only where the policy enables it.

    References
    hibiken/asynq#642; BullMQ 6.7.0 deduplication with `ttl`.
    """

    id = "UQ004"
    name = "unbacked-unique-job"
    title = "Jobs claim a uniqueness id whose key is gone"
    severity = "info"
    since = "0.1.0"
    versions = "BullMQ 5.11+, Asynq 0.18+"
    impact = "no longer keep equal work out"
    heals = "no: the key is written when a job is added, not later"
    opt_in = True
    needs_time = True
    needs = {
        "jobs": (*JOB_PLACE, "state", "deduplication_id"),
        "relations": (*SOURCE, "dialect", "kind", "valid_until", "evidence", "db"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        WITH claims AS MATERIALIZED (
            SELECT dialect, namespace, queue, job_id, deduplication_id, evidence, db
            FROM jobs
            WHERE deduplication_id IS NOT NULL
                AND state IN ('waiting', 'delayed', 'prioritized', 'active', 'paused', 'waiting-children', 'pending',
                    'scheduled', 'retry', 'aggregating')
        ),
        living AS (
            SELECT DISTINCT r.dialect, r.source_namespace AS namespace, r.source_queue AS queue,
                r.source_id AS deduplication_id, r.evidence, r.db
            FROM relations AS r
            JOIN evidence AS e USING (evidence)
            WHERE r.kind IN ('deduplication', 'uniqueness') AND coalesce(epoch_ms(r.valid_until) > e.as_of_ms, TRUE)
        )
        SELECT c.dialect, c.namespace, c.queue, c.evidence, c.db, count(*) AS jobs, min(c.job_id) AS example,
            count_text(count(*), 'job') AS _jobs
        FROM claims AS c
        ANTI JOIN living AS l USING (dialect, namespace, queue, deduplication_id, evidence, db)
        GROUP BY c.dialect, c.namespace, c.queue, c.evidence, c.db
    """
    message = "Queue {queue} has {_jobs} whose uniqueness key is gone, for example {example}: equal ones are accepted"
