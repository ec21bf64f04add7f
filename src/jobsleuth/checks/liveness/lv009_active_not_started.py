"""LV009."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, Check


class ActiveNotStarted(Check):
    """A job is active, but was never stamped as started.

    What it finds
    A job in `active` whose record is complete and holds no start time.

    Why it matters
    From 5.0 on one script makes a job active and stamps it. Without the stamp it came into the list another way, so it
    may be run by nobody, and its duration cannot be told.

    How it comes about
    An id pushed into `active` by hand, a worker of another library, a record that was rewritten.

    What to do next
    See whether a lock exists; if not, the job is waiting for a stalled check (LV002).

    False alarms
    Up to 4.18 and in Bull the list and the stamp are two steps: those are left alone.

    References
    BullMQ 5.0.0 `moveToActive` script.
    """

    id = "LV009"
    name = "active-not-started"
    title = "A job is active, but was never stamped as started"
    severity = "warning"
    since = "0.1.0"
    versions = "BullMQ 5+"
    impact = "are active without a start: nobody knows whether they run"
    heals = "when its lock runs out: a stalled check puts it back"
    basis = "observed"
    dialects = ("bullmq",)
    absence = False
    needs = {
        "jobs": (*JOB_PLACE, "state", "has_record", "record_complete", "started_at", "key"),
        "queues": (*QUEUE_PLACE, "layout"),
    }
    sql = """
        SELECT dialect, namespace, queue, j.job_id, j.key, evidence, db
        FROM (
            SELECT dialect, namespace, queue, job_id, key, evidence, db
            FROM jobs
            WHERE dialect = 'bullmq' AND state = 'active' AND has_record AND record_complete AND started_at IS NULL
        ) AS j
        JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
        WHERE major_of(q.layout) >= 5
    """
    message = "Job {job_id} of queue {queue} is active, but its record has no start time"
