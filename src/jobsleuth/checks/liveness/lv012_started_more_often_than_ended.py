"""LV012."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, Check


class StartedMoreOftenThanEnded(Check):
    """A job was started more often than its attempts tell.

    What it finds
    A job that was recovered from a lost lock at least once and was started at least two times more than attempts of it
    ended (a warning), or that was recovered more than once without failing for it (information). Jobs of schedules that
    are registered are left out of the second.

    Why it matters
    Each recovery is a run that may have done its work, without anybody counting it as an attempt. Trying the job again
    blindly may do the work a further time.

    How it comes about
    Workers that lose their locks: blocked event loop, killed process, network; `maxStalledCount` above one.

    What to do next
    Compare the three counters in `details` with the worker's log before the job is run again.

    False alarms
    From 5.58.8 on jobs of a schedule are exempt from the limit of stalls.

    References
    taskforcesh/bullmq#1062.
    """

    id = "LV012"
    name = "started-more-often-than-ended"
    title = "A job was started more often than its attempts tell"
    severity = "warning"
    since = "0.1.0"
    versions = "Bull, BullMQ, all releases"
    impact = "were started more often than their attempts tell: their work may be done twice"
    heals = "no: the counters stay"
    basis = "derived"
    dialects = ("bullmq",)
    absence = False
    needs = {
        "jobs": (
            *JOB_PLACE,
            "state",
            "has_record",
            "record_complete",
            "attempts",
            "attempts_started",
            "stalled_count",
            "deferred_failure",
            "schedule_id",
            "key",
        ),
        "schedules": (*QUEUE_PLACE, "schedule_id", "next_at"),
    }
    sql = """
        WITH recovered AS MATERIALIZED (
            SELECT dialect, namespace, queue, job_id, key, evidence, db, state, stalled_count, attempts_started,
                attempts,
                deferred_failure, schedule_id
            FROM jobs
            WHERE dialect = 'bullmq' AND has_record AND record_complete IS NOT FALSE AND stalled_count > 0
        ),
        listed AS (
            SELECT DISTINCT dialect, namespace, queue, schedule_id, evidence,
                db FROM schedules WHERE next_at IS NOT NULL
        )
        SELECT dialect, namespace, queue, job_id, r.key, evidence, db, r.state, r.stalled_count, r.attempts_started,
            r.attempts,
            CASE WHEN r.attempts_started - r.attempts > 1 THEN 'warning' ELSE 'info' END AS severity,
            coalesce(count_text(r.attempts_started, 'time'), 'an unknown number of times') AS _started,
            count_text(r.attempts, 'attempt') AS _ended, count_text(r.stalled_count, 'time') AS _stalled
        FROM recovered AS r
        LEFT JOIN listed AS l USING (dialect, namespace, queue, schedule_id, evidence, db)
        WHERE r.attempts_started - r.attempts > 1
            OR (r.stalled_count > 1 AND r.state <> 'failed' AND r.deferred_failure IS NULL AND l.schedule_id IS NULL)
    """
    message = (
        "Job {job_id} of queue {queue} ({state}) lost its worker {_stalled}: it was started {_started} and "
        "ended {_ended}"
    )
