"""UQ007."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, TARGET, Check


class LockWithoutTask(Check):
    """A uniqueness lock is held by a task that does not exist.

    What it finds
    A lock that lives and names a task without a record in its queue.

    Why it matters
    Equal tasks are refused as duplicates until the lock expires, although nothing is queued. It is an error when that
    is more than `long_lock_ms` (24 h) away.

    How it comes about
    The task was deleted by an operation that leaves locks: DeleteAllPending and DeleteAllAggregating, RemoveQueue,
    trimming of the archive, the end of an aggregation; deletion by hand up to 0.17.1.

    What to do next
    Delete the lock's key if the work must be accepted now.

    False alarms
    Up to 0.17, where tasks have no record of their own, the holder may be in a structure that is not decoded.

    References
    hibiken/asynq#275, hibiken/asynq#276.
    """

    id = "UQ007"
    name = "lock-without-task"
    title = "A uniqueness lock is held by a task that does not exist"
    severity = "warning"
    since = "0.1.0"
    versions = "Asynq, all releases with unique tasks"
    impact = "keep equal tasks out for a task that does not exist"
    heals = "when the lock expires"
    dialects = ("asynq",)
    needs_time = True
    parameters = {"long_lock_ms": 86_400_000}
    needs = {
        "jobs": (*JOB_PLACE, "has_record"),
        "relations": (*TARGET, "dialect", "kind", "valid_until", "key", "evidence", "db"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        WITH locks AS MATERIALIZED (
            SELECT r.dialect, r.target_namespace AS namespace, r.target_queue AS queue, r.target_id AS job_id, r.key,
                r.valid_until, r.evidence, r.db, e.as_of_ms
            FROM relations AS r
            JOIN evidence AS e USING (evidence)
            WHERE r.kind = 'uniqueness' AND r.dialect = 'asynq' AND epoch_ms(r.valid_until) > e.as_of_ms
        ),
        recorded AS (
            SELECT j.dialect, j.namespace, j.queue, j.job_id, j.evidence, j.db
            FROM jobs AS j
            SEMI JOIN locks AS l USING (dialect, namespace, queue, job_id, evidence, db)
            WHERE j.has_record
        )
        SELECT l.* EXCLUDE (as_of_ms), epoch_ms(l.valid_until) - l.as_of_ms AS left_ms,
            CASE WHEN epoch_ms(l.valid_until) - l.as_of_ms > $long_lock_ms THEN 'error' ELSE 'warning' END AS severity,
            l.valid_until AS heals_at, l.key AS _same,
            duration_text(epoch_ms(l.valid_until) - l.as_of_ms) AS _left
        FROM locks AS l
        ANTI JOIN recorded AS r USING (dialect, namespace, queue, job_id, evidence, db)
    """
    message = (
        "The lock {key} is held by task {job_id}, which does not exist: equal tasks are refused for another {_left}"
    )
