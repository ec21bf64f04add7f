"""RL009."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, SOURCE, TARGET, Check


class ParentWaitsOnHeldQueue(Check):
    """A parent waits for children in a queue that is held.

    What it finds
    A parent in `waiting-children` with children that are ready in a queue that is paused, or whose rate limit has no
    end or one more than `long_limit_ms` (1 h) away. One finding for each parent and such queue.

    Why it matters
    The flow stands still for a reason that is not in the flow: the children cannot be taken before that queue is
    released.

    How it comes about
    A queue paused and forgotten, a limiter key without expiry (LV013), a manual rate limit with a long duration.

    What to do next
    Resume the queue, or remove its limit (`Queue.removeRateLimitKey`).

    False alarms
    A queue that is paused on purpose: the flow waits on purpose too.

    References
    taskforcesh/bullmq#2644.
    """

    id = "RL009"
    name = "parent-waits-on-held-queue"
    title = "A parent waits for children in a queue that is held"
    severity = "warning"
    since = "0.1.0"
    versions = "BullMQ 1.16+"
    impact = "wait for children in a queue that is paused or limited without end"
    heals = "when the queue is resumed or its limit ends"
    basis = "derived"
    dialects = ("bullmq",)
    parameters = {"long_limit_ms": 3_600_000}
    absence = False
    needs = {
        "membership": (*JOB_PLACE, "structure"),
        "queues": (*QUEUE_PLACE, "paused", "limits"),
        "relations": (*SOURCE, *TARGET, "dialect", "kind", "via", "evidence", "db"),
    }
    sql = """
        WITH held AS (
            SELECT dialect, namespace, queue, evidence, db,
                CASE WHEN paused THEN 'is paused'
                    WHEN limits['limiter_ttl_ms'] IS NULL THEN 'has a rate limit without an end'
                    ELSE 'has a rate limit for another ' || duration_text(limits['limiter_ttl_ms'])
                END AS how
            FROM queues
            WHERE dialect = 'bullmq'
                AND (paused OR (limits['limiter'] > 0 AND coalesce(limits['limiter_ttl_ms'] > $long_limit_ms, TRUE)))
        ),
        parents AS MATERIALIZED (
            SELECT dialect, namespace, queue, job_id, evidence, db
            FROM membership
            WHERE structure = 'waiting-children' AND dialect = 'bullmq'
        ),
        links AS MATERIALIZED (
            SELECT DISTINCT r.dialect, r.source_namespace AS namespace, r.source_queue AS queue, r.source_id AS job_id,
                r.target_namespace, r.target_queue, r.target_id, r.evidence, r.db, h.how
            FROM relations AS r
            JOIN held AS h
                ON h.dialect = r.dialect AND h.namespace = r.source_namespace AND h.queue = r.source_queue
                    AND h.evidence = r.evidence AND h.db = r.db
            SEMI JOIN parents AS p
                ON p.dialect = r.dialect AND p.namespace = r.target_namespace AND p.queue = r.target_queue
                    AND p.job_id = r.target_id AND p.evidence = r.evidence AND p.db = r.db
            WHERE r.kind = 'parent' AND r.via = 'dependencies'
        ),
        ready AS (
            SELECT DISTINCT m.dialect, m.namespace, m.queue, m.job_id, m.evidence, m.db
            FROM membership AS m
            SEMI JOIN links AS l USING (dialect, namespace, queue, job_id, evidence, db)
            WHERE m.structure IN ('wait', 'paused', 'prioritized')
        )
        SELECT l.dialect, l.target_namespace AS namespace, l.target_queue AS queue, l.target_id AS job_id, l.evidence,
            l.db,
            l.queue AS child_queue, count(*) AS children, count_text(count(*), 'child job') AS _kids,
            min(l.how) AS how, l.queue AS _same
        FROM links AS l
        SEMI JOIN ready AS r USING (dialect, namespace, queue, job_id, evidence, db)
        GROUP BY l.dialect, l.target_namespace, l.target_queue, l.target_id, l.evidence, l.db, l.queue
    """
    message = "Parent {job_id} of queue {queue} waits for {_kids} in queue {child_queue}, which {how}"
