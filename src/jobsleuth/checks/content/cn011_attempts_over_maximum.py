"""CN011."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class AttemptsOverMaximum(Check):
    """A task was retried more often than it may.

    What it finds
    A task whose count of retries is above its maximum.

    Why it matters
    The library archives a task at its maximum: the numbers were written by something else.

    How it comes about
    A message edited by hand or re-encoded by other software.

    What to do next
    Find out who writes messages; archive the task if it should not run again.

    False alarms
    None known. BullMQ is left out: there a retry by hand, a stall or a rate limit may exceed the maximum.

    References
    Asynq 0.26.0, `handleFailedMessage`.
    """

    id = "CN011"
    name = "attempts-over-maximum"
    title = "A task was retried more often than it may"
    severity = "warning"
    since = "0.1.0"
    versions = "Asynq, all releases"
    impact = "were retried more often than their producer allowed"
    heals = "no"
    moving = False
    dialects = ("asynq",)
    needs = {
        "jobs": (*JOB_PLACE, "state", "attempts", "max_attempts", "key"),
    }
    sql = """
        SELECT dialect, namespace, queue, job_id, key, evidence, db, state, attempts, max_attempts
        FROM jobs
        WHERE dialect = 'asynq' AND attempts > max_attempts
    """
    message = "Task {job_id} of queue {queue} ({state}) was retried {attempts} times, but may be {max_attempts} times"
