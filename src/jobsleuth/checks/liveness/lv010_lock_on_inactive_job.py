"""LV010."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class LockOnInactiveJob(Check):
    """A job that is not active has a live lock.

    What it finds
    A lock that had not expired, of a job that has a record and is not in `active`.

    Why it matters
    Somebody held the job a moment ago, and may still be working on it while it waits or is finished.

    How it comes about
    A job finished without its token; one moved by hand while a worker held it; a record put back after a removal.

    What to do next
    Nothing, if it has just finished. Else look for the worker with the token in `details.worker_id`.

    False alarms
    It is information: a finish without a token leaves the lock until it expires.

    References
    OptimalBits/bull#1600; BullMQ 6.7.0 `moveToFinished` script.
    """

    id = "LV010"
    name = "lock-on-inactive-job"
    title = "A job that is not active has a live lock"
    severity = "info"
    since = "0.1.0"
    versions = "Bull, BullMQ, all releases"
    impact = "are locked though nobody should work on them"
    heals = "when the lock expires"
    basis = "observed"
    dialects = ("bullmq",)
    needs = {
        "jobs": ("state", "has_record"),
        "membership": (*JOB_PLACE, "structure"),
        "workers": (*JOB_PLACE, "kind", "worker_id", "valid_until", "valid", "key"),
    }
    sql = """
        WITH locks AS MATERIALIZED (
            SELECT dialect, namespace, queue, job_id, key, evidence, db, worker_id, valid_until
            FROM workers
            WHERE kind = 'lock' AND dialect = 'bullmq' AND valid IS NOT FALSE
        )
        SELECT dialect, namespace, queue, job_id, l.key, evidence, db, l.worker_id, l.valid_until, j.state,
            l.valid_until AS heals_at
        FROM locks AS l
        JOIN (
            SELECT dialect, namespace, queue, job_id, state, evidence,
                db FROM jobs WHERE dialect = 'bullmq' AND has_record
        ) AS j USING (dialect, namespace, queue, job_id, evidence, db)
        WHERE j.state <> 'active'
            AND NOT EXISTS (
                SELECT 1 FROM membership AS m
                WHERE m.structure = 'active' AND m.job_id = l.job_id AND m.queue = l.queue AND m.namespace = l.namespace
                    AND m.dialect = l.dialect AND m.evidence = l.evidence AND m.db = l.db
            )
    """
    message = "Job {job_id} of queue {queue} is {state}, but has a live lock"
