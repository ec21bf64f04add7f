"""LV007."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class LockWithoutJob(Check):
    """A live lock belongs to a job that has no record.

    What it finds
    A BullMQ or Bull lock that had not expired at the snapshot, for an id without a record.

    Why it matters
    The job was deleted while a worker held it. The worker goes on, and its finish fails with "missing key for job";
    what the handler did is recorded nowhere.

    How it comes about
    A job or queue deleted by hand or by code while workers run; eviction of the record. The lock lives on for its time
    (30 s unless configured).

    What to do next
    Find the worker by the token in `details.worker_id`; its log knows the job. Stop workers before deleting jobs.

    False alarms
    Removing jobs leaves their locks until they expire; soon after such a removal this is only its trace.

    References
    taskforcesh/bullmq#1046, OptimalBits/bull#356.
    """

    id = "LV007"
    name = "lock-without-job"
    title = "A live lock belongs to a job that has no record"
    severity = "warning"
    since = "0.1.0"
    versions = "Bull, BullMQ"
    impact = "were deleted while a worker held them: what it did is recorded nowhere"
    heals = "the lock goes with its expiry"
    dialects = ("bullmq",)
    needs = {
        "workers": (*JOB_PLACE, "kind", "worker_id", "valid_until", "valid", "key"),
        "jobs": (*JOB_PLACE, "has_record"),
    }
    sql = """
        WITH locks AS MATERIALIZED (
            SELECT dialect, namespace, queue, job_id, key, evidence, db, worker_id, valid_until
            FROM workers
            WHERE kind = 'lock' AND dialect = 'bullmq' AND valid IS NOT FALSE
        ),
        recorded AS MATERIALIZED (
            SELECT j.dialect, j.namespace, j.queue, j.job_id, j.evidence, j.db
            FROM jobs AS j
            SEMI JOIN locks AS l USING (dialect, namespace, queue, job_id, evidence, db)
            WHERE j.has_record
        )
        SELECT l.*, l.valid_until AS heals_at
        FROM locks AS l
        ANTI JOIN recorded AS r USING (dialect, namespace, queue, job_id, evidence, db)
    """
    message = "Job {job_id} of queue {queue} has a live lock, but no record: it was deleted under its worker"
