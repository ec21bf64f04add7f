"""UQ008."""

from __future__ import annotations

from jobsleuth.checks.base import TARGET, Check


class LockOnForeignTask(Check):
    """A uniqueness lock names a task that did not take it.

    What it finds
    A lock that lives and names a task whose own message has no uniqueness key, or another one.

    Why it matters
    Tasks of the lock's type and payload are refused until it expires, although none is queued. The named task does not
    free the lock when it ends.

    How it comes about
    A unique task was enqueued with a task id that existed: the script takes the lock first and stops at the id, and the
    lock stays.

    What to do next
    Delete the lock's key; do not combine fixed ids with uniqueness.

    False alarms
    None known.

    References
    Asynq 0.26.0, `enqueueUniqueCmd`.
    """

    id = "UQ008"
    name = "lock-on-foreign-task"
    title = "A uniqueness lock names a task that did not take it"
    severity = "warning"
    since = "0.1.0"
    versions = "Asynq 0.19+"
    impact = "keep equal tasks out for a task that is not like them"
    heals = "when the lock expires"
    basis = "derived"
    dialects = ("asynq",)
    needs_time = True
    absence = False
    needs = {
        "jobs": ("has_record", "record_complete", "deduplication_id", "decode_error"),
        "relations": (*TARGET, "dialect", "kind", "valid_until", "key", "evidence", "db"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        WITH locks AS MATERIALIZED (
            SELECT r.dialect, r.target_namespace AS namespace, r.target_queue AS queue, r.target_id AS job_id, r.key,
                r.valid_until, r.evidence, r.db
            FROM relations AS r
            JOIN evidence AS e USING (evidence)
            WHERE r.kind = 'uniqueness' AND r.dialect = 'asynq' AND coalesce(epoch_ms(r.valid_until) > e.as_of_ms, TRUE)
        )
        SELECT dialect, namespace, queue, job_id, l.key, evidence, db, l.valid_until, j.deduplication_id AS own_key,
            l.valid_until AS heals_at, l.key AS _same
        FROM locks AS l
        JOIN (
            SELECT dialect, namespace, queue, job_id, deduplication_id, evidence, db
            FROM jobs
            WHERE dialect = 'asynq' AND has_record AND record_complete AND decode_error IS NULL
        ) AS j USING (dialect, namespace, queue, job_id, evidence, db)
        WHERE j.deduplication_id IS DISTINCT FROM l.key
    """
    message = "The lock {key} names task {job_id} of queue {queue}, which did not take it"
