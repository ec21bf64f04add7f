"""UQ010."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class UniqueTasksCoexist(Check):
    """Several tasks with one uniqueness key are queued at once.

    What it finds
    Two or more tasks that have not ended and name the same uniqueness key.

    Why it matters
    They were meant to be one: the work is done twice.

    How it comes about
    The lock's time was shorter than waiting and retries together, so that it expired while the first task was still
    queued; the lock was deleted or evicted.

    What to do next
    Delete the extra tasks; make the lock outlive the longest wait with all retries.

    False alarms
    A lock that was meant to run out before its task ends (at most one task in a period) lets them coexist by design.

    References
    hibiken/asynq#629; Asynq's documentation of `Unique`.
    """

    id = "UQ010"
    name = "unique-tasks-coexist"
    title = "Several tasks with one uniqueness key are queued at once"
    severity = "warning"
    since = "0.1.0"
    versions = "Asynq, all releases with unique tasks"
    impact = "will do the same work twice although they were meant to be unique"
    heals = "no: each of them runs"
    dialects = ("asynq",)
    absence = False
    needs = {
        "jobs": (*JOB_PLACE, "state", "deduplication_id"),
    }
    sql = """
        SELECT dialect, namespace, queue, evidence, db, deduplication_id AS key, count(*) AS tasks,
            list_sort(list(job_id))[:5] AS ids, array_to_string(list_sort(list(job_id))[:5], ', ') AS _ids
        FROM jobs
        WHERE dialect = 'asynq' AND deduplication_id IS NOT NULL
            AND state IN ('pending', 'active', 'scheduled', 'retry', 'aggregating')
        GROUP BY dialect, namespace, queue, evidence, db, deduplication_id
        HAVING count(*) > 1
    """
    message = "{tasks} tasks of queue {queue} share one uniqueness key and are queued at once: {_ids}"
