"""SC005."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class SeveralNextJobs(Check):
    """A schedule has several next jobs.

    What it finds
    Two or more jobs of one schedule in `delayed`. The one that the schedule itself names is the real one;
    `details.extra` names others.

    Why it matters
    The work is done twice or more at each run until the extra jobs are used up.

    How it comes about
    Registering the schedule again at every start with other options, time zones or clocks; releases that did not remove
    the old next job; two libraries on one queue.

    What to do next
    Remove the extra jobs. Let one process register schedules, with the same options each time.

    False alarms
    None known: a schedule has one job ahead, beside one that runs or waits.

    References
    taskforcesh/bullmq#2889.
    """

    id = "SC005"
    name = "several-next-jobs"
    title = "A schedule has several next jobs"
    severity = "warning"
    since = "0.1.0"
    versions = "Bull, BullMQ, all releases"
    impact = "will run more often than their schedule says"
    heals = "when the extra jobs have run: they make no successors of their own in 5.x and later"
    basis = "derived"
    dialects = ("bullmq",)
    absence = False
    needs = {
        "jobs": (*JOB_PLACE, "state", "schedule_id"),
        "schedules": ("job_id",),
    }
    sql = """
        WITH ahead AS MATERIALIZED (
            SELECT dialect, namespace, queue, schedule_id, evidence, db, count(*) AS jobs,
                list_sort(list(job_id))[:10] AS ids
            FROM jobs
            WHERE dialect = 'bullmq' AND state = 'delayed' AND schedule_id IS NOT NULL
            GROUP BY ALL
            HAVING count(*) > 1
        )
        SELECT dialect, namespace, queue, evidence, db, a.schedule_id, a.jobs, s.job_id AS named,
            list_filter(a.ids, lambda i: i IS DISTINCT FROM s.job_id) AS extra, a.schedule_id AS _same,
            list_filter(a.ids, lambda i: i IS DISTINCT FROM s.job_id)[1] AS _example
        FROM ahead AS a
        LEFT JOIN (
            SELECT dialect, namespace, queue, schedule_id, evidence, db,
                min(job_id) AS job_id FROM schedules GROUP BY ALL
        ) AS s USING (dialect, namespace, queue, schedule_id, evidence, db)
    """
    message = "Schedule {schedule_id} of queue {queue} has {jobs} jobs ahead instead of one; one too many is {_example}"
