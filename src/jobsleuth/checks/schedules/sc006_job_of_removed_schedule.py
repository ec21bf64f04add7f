"""SC006."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, Check


class JobOfRemovedSchedule(Check):
    """A pending job belongs to a schedule that is no longer registered.

    What it finds
    A job that waits, is delayed or active and names a schedule which `repeat` does not list. One finding for each
    schedule.

    Why it matters
    It runs once more although the schedule was removed, and makes no successor. If the schedule was meant to be there,
    this is the last trace of it.

    How it comes about
    The schedule was removed while its job waited; from 5.81 on even its first job stays in `wait`.

    What to do next
    Remove the job if it must not run; register the schedule again if it was lost.

    False alarms
    It is information.

    References
    BullMQ 5.81.5 and 6.7.0, `removeJobScheduler`.
    """

    id = "SC006"
    name = "job-of-removed-schedule"
    title = "A pending job belongs to a schedule that is no longer registered"
    severity = "info"
    since = "0.1.0"
    versions = "BullMQ 1.86+"
    impact = "belong to a schedule that was removed: they run once more"
    heals = "when the job has run"
    basis = "derived"
    dialects = ("bullmq",)
    needs = {
        "jobs": (*JOB_PLACE, "state", "has_record", "schedule_id"),
        "schedules": (*QUEUE_PLACE, "schedule_id", "next_at"),
    }
    sql = """
        WITH pending AS MATERIALIZED (
            SELECT dialect, namespace, queue, schedule_id, evidence, db, count(*) AS jobs, min(job_id) AS example
            FROM jobs
            WHERE dialect = 'bullmq' AND schedule_id IS NOT NULL AND has_record
                AND state IN ('waiting', 'delayed', 'prioritized', 'active', 'paused')
            GROUP BY ALL
        ),
        listed AS (
            SELECT DISTINCT dialect, namespace, queue, schedule_id, evidence, db
            FROM schedules
            WHERE next_at IS NOT NULL
        )
        SELECT p.*, p.schedule_id AS _same, count_text(p.jobs, 'pending job') AS _jobs
        FROM pending AS p
        ANTI JOIN listed AS l USING (dialect, namespace, queue, schedule_id, evidence, db)
    """
    message = "Schedule {schedule_id} of queue {queue} is no longer registered, but has {_jobs}, for example {example}"
