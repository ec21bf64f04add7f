"""CN012."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class RetryNeverFailed(Check):
    """A task waits for a retry, but never failed.

    What it finds
    A task in `retry` whose message holds no time of a failure.

    Why it matters
    The library writes that time whenever it retries: something else put the task there, and it may have run or not.

    How it comes about
    Raw commands, other software; a task migrated from before 0.18 by the library's own tool, where this is normal.

    What to do next
    Look in the workers' logs whether it ran.

    False alarms
    Migrated tasks.

    References
    Asynq 0.26.0, `retryCmd`.
    """

    id = "CN012"
    name = "retry-never-failed"
    title = "A task waits for a retry, but never failed"
    severity = "warning"
    since = "0.1.0"
    versions = "Asynq 0.18+"
    impact = "wait for a retry without a failure: the library did not put them there"
    heals = "when it runs"
    dialects = ("asynq",)
    absence = False
    needs = {
        "jobs": (
            *JOB_PLACE,
            "state",
            "has_record",
            "record_complete",
            "scheduled_at",
            "last_failed_at",
            "attempts",
            "decode_error",
            "key",
        ),
    }
    sql = """
        SELECT dialect, namespace, queue, job_id, key, evidence, db, attempts, scheduled_at
        FROM jobs
        WHERE dialect = 'asynq' AND state = 'retry' AND has_record AND record_complete AND decode_error IS NULL
            AND last_failed_at IS NULL AND key IS NOT NULL
    """
    message = "Task {job_id} of queue {queue} waits for a retry, but its message names no failure"
