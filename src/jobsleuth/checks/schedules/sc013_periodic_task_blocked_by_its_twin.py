"""SC013."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class PeriodicTaskBlockedByItsTwin(Check):
    """A periodic task with a fixed id is blocked by its own earlier run.

    What it finds
    An entry of a live scheduler with the option `TaskID`, whose task is in `archived` or `completed`.

    Why it matters
    Enqueueing is refused as long as a task with that id exists, so the periodic work has silently stopped.

    How it comes about
    The task used up its retries and was archived; or it keeps its result for longer than the interval.

    What to do next
    Delete or run the archived task; do not combine a fixed id with retention or few retries.

    False alarms
    A completed task whose retention ends before the next run blocks nothing.

    References
    hibiken/asynq#842, hibiken/asynq#492.
    """

    id = "SC013"
    name = "periodic-task-blocked-by-its-twin"
    title = "A periodic task with a fixed id is blocked by its own earlier run"
    severity = "warning"
    since = "0.1.0"
    versions = "Asynq 0.19+"
    impact = "cannot be enqueued: an earlier run keeps their id"
    heals = "when the earlier run is deleted: completed ones at their retention, archived ones by age or count"
    basis = "derived"
    dialects = ("asynq",)
    absence = False
    needs = {
        "jobs": ("state",),
        "schedules": (*QUEUE_PLACE, "spec", "details", "has_record", "key"),
    }
    sql = """
        WITH fixed AS (
            SELECT dialect, namespace, queue, evidence, db, spec, key, details['type'] AS task_type,
                regexp_extract(details['options'], '"TaskID\\(\\\\"(.*?)\\\\"\\)"', 1) AS job_id
            FROM schedules
            WHERE dialect = 'asynq' AND has_record
                AND regexp_matches(details['options'], '"TaskID\\(\\\\"(.*?)\\\\"\\)"')
        )
        SELECT f.dialect, f.namespace, f.queue, f.job_id, f.key, f.evidence, f.db, f.task_type, f.spec, j.state
        FROM fixed AS f
        JOIN (
            SELECT dialect, namespace, queue, job_id, evidence, db, state FROM jobs WHERE state IN ('archived',
                'completed')
        ) AS j USING (dialect, namespace, queue, job_id, evidence, db)
    """
    message = "Periodic task {task_type} ({spec}) cannot be enqueued: task {job_id} of queue {queue} is still {state}"
