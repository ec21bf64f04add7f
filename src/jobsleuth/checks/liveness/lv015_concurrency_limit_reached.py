"""LV015."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, Check


class ConcurrencyLimitReached(Check):
    """Ready jobs wait for a slot under the queue's concurrency limit.

    What it finds
    A queue with a global concurrency and ready jobs whose `active` list is as long as the limit. It is an error when
    none of the active jobs has a live lock: then dead jobs hold all slots.

    Why it matters
    It explains waiting jobs beside idle workers. With dead jobs in the slots the queue stands still until a stalled
    check frees them.

    How it comes about
    The limit is meant so; or workers died while they held all slots.

    What to do next
    Live locks: nothing. No locks: start a worker and wait two stall intervals.

    False alarms
    It is information unless all active jobs are without a lock.

    References
    taskforcesh/bullmq#3535; BullMQ 5.9.0, `setGlobalConcurrency`.
    """

    id = "LV015"
    name = "concurrency-limit-reached"
    title = "Ready jobs wait for a slot under the queue's concurrency limit"
    severity = "info"
    since = "0.1.0"
    versions = "BullMQ 5.9+"
    impact = "wait for a slot of the queue"
    heals = "when an active job ends"
    basis = "derived"
    dialects = ("bullmq",)
    needs = {
        "membership": (*JOB_PLACE, "structure"),
        "queues": (*QUEUE_PLACE, "limits"),
        "workers": (*JOB_PLACE, "kind", "valid"),
    }
    sql = """
        WITH capped AS (
            SELECT dialect, namespace, queue, evidence, db, limits['concurrency'] AS slots
            FROM queues
            WHERE dialect = 'bullmq' AND limits['concurrency'] > 0
        ),
        tally AS MATERIALIZED (
            SELECT m.dialect, m.namespace, m.queue, m.evidence, m.db,
                count(*) FILTER (m.structure IN ('wait', 'prioritized')) AS ready,
                count(*) FILTER (m.structure = 'active') AS active
            FROM membership AS m
            SEMI JOIN capped AS c USING (dialect, namespace, queue, evidence, db)
            WHERE m.structure IN ('wait', 'prioritized', 'active')
            GROUP BY ALL
        ),
        locked AS (
            SELECT w.dialect, w.namespace, w.queue, w.evidence, w.db, count(DISTINCT w.job_id) AS locked
            FROM workers AS w
            SEMI JOIN membership AS m
                ON m.structure = 'active' AND m.job_id = w.job_id AND m.queue = w.queue AND m.namespace = w.namespace
                    AND m.dialect = w.dialect AND m.evidence = w.evidence AND m.db = w.db
            WHERE w.kind = 'lock' AND w.valid IS NOT FALSE
            GROUP BY ALL
        )
        SELECT dialect, namespace, queue, evidence, db, c.slots, t.ready, coalesce(l.locked, 0) AS locked,
            CASE WHEN coalesce(l.locked, 0) = 0 THEN 'error' ELSE 'info' END AS severity,
            count_text(t.ready, 'job') AS _jobs,
            CASE WHEN coalesce(l.locked, 0) = 0 THEN 'taken by jobs without a lock: the queue stands still'
                ELSE 'taken' END AS _how
        FROM tally AS t
        JOIN capped AS c USING (dialect, namespace, queue, evidence, db)
        LEFT JOIN locked AS l USING (dialect, namespace, queue, evidence, db)
        WHERE t.ready > 0 AND t.active >= c.slots
    """
    message = "Queue {queue} has {_jobs} ready, but its {slots} slots are {_how}"
