"""ST005."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class FailedByHousekeeping(Check):
    """A job was failed by the library, not by its handler.

    What it finds
    A job whose latest error is one that the library writes when it loses sight of the handler: a lapsed lease, a
    deadline, a missing lock or record, too many stalls.

    Why it matters
    The handler may have finished its work, or may still be at it. A job that is to run again does it twice: a warning.
    One that has ended is information: retrying it by hand is unsafe for the same reason.

    How it comes about
    Worker killed or cut off, handler longer than its time limit or lock, records removed by code while workers held
    them.

    What to do next
    Look in the worker's log for what the handler did. Give handlers more time, or make them idempotent.

    False alarms
    A handler may report a text of its own that is the same.

    References
    hibiken/asynq#642, hibiken/asynq#532, hibiken/asynq#1030, hibiken/asynq#799, OptimalBits/bull#356.
    """

    id = "ST005"
    name = "failed-by-housekeeping"
    title = "A job was failed by the library, not by its handler"
    severity = "warning"
    since = "0.1.0"
    versions = "all releases of Bull, BullMQ, Asynq"
    impact = "were given up on by the library: their handler may have done the work"
    heals = "for a retry, when it runs again"
    basis = "inferred"
    absence = False
    needs = {
        "jobs": (*JOB_PLACE, "state", "finished_at", "last_failed_at", "error", "key"),
    }
    sql = """
        WITH failed AS (
            SELECT dialect, namespace, queue, job_id, key, evidence, db, state, error, last_failed_at, finished_at
            FROM jobs
            WHERE (dialect = 'asynq' AND state IN ('retry', 'archived', 'pending'))
                OR (dialect = 'bullmq' AND state IN ('failed', 'waiting', 'delayed', 'prioritized'))
        )
        SELECT dialect, namespace, queue, job_id, key, evidence, db, state, error,
            CASE WHEN state IN ('failed', 'archived') THEN 'info' ELSE 'warning' END AS severity,
            coalesce(last_failed_at, finished_at) AS since_from, coalesce(last_failed_at, finished_at) AS since_to,
            CASE WHEN state IN ('failed', 'archived') THEN 'no: it has failed for good, unless somebody retries it' END
                AS heals,
            'when the failure was booked' AS since_why, 'observed' AS since_basis,
            'unsafe' AS retry, 'the library gave up on its handler, which may have done the work' AS retry_why,
            'inferred' AS retry_basis
        FROM failed
        WHERE CASE WHEN dialect = 'asynq'
            THEN error IN ('asynq: task lease expired', 'context deadline exceeded', 'deadline exceeded',
                'context canceled')
            ELSE regexp_matches(error,
                '^([Jj]ob stalled more than|Missing (key|lock) for job|could not renew lock)') END
    """
    message = "Job {job_id} of queue {queue} ({state}) was failed by the library, not by its handler: {error}"
