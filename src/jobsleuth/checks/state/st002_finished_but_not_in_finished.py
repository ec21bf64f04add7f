"""ST002."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, Check


class FinishedButNotInFinished(Check):
    """A job has a finish time, but is in a structure of unfinished ones.

    What it finds
    A job whose record holds `finishedOn` while its id is neither in `completed` nor in `failed`, but in another
    structure.

    Why it matters
    The job ended and is about to run again: the work may be done twice.

    How it comes about
    An id pushed back by hand, a record written by other software, a restored fragment. A retry of the library deletes
    the time.

    What to do next
    See its result and events. If the work was done, take the id out of the structure and put it into `completed` with
    the time as score.

    False alarms
    Up to 1.67.0 retries kept the time; Bull keeps it in some paths and is left alone.

    References
    BullMQ 1.67.1 changelog; 6.7.0 `reprocessJob` script.
    """

    id = "ST002"
    name = "finished-but-not-in-finished"
    title = "A job has a finish time, but is in a structure of unfinished ones"
    severity = "error"
    since = "0.1.0"
    versions = "BullMQ 1.67.1+"
    impact = "ended once and are about to run again, or are shown as unfinished"
    heals = "no: the time stays until the job ends again"
    dialects = ("bullmq",)
    absence = False
    needs = {
        "jobs": (*JOB_PLACE, "state", "record_complete", "finished_at", "key"),
        "queues": (*QUEUE_PLACE, "layout", "library_version"),
    }
    sql = """
        SELECT dialect, namespace, queue, j.job_id, j.key, evidence, db, j.state, j.finished_at,
            'unsafe' AS retry, 'its record says that it ended at ' || strftime(j.finished_at,
                '%Y-%m-%d %H:%M:%S') || ' UTC'
                AS retry_why,
            'observed' AS retry_basis, strftime(j.finished_at, '%Y-%m-%d %H:%M:%S') AS _ended
        FROM (
            SELECT dialect, namespace, queue, job_id, key, evidence, db, state, finished_at
            FROM jobs
            WHERE dialect = 'bullmq' AND finished_at IS NOT NULL AND record_complete
                AND state IN ('waiting', 'active', 'delayed', 'prioritized', 'waiting-children')
        ) AS j
        JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
        WHERE coalesce(version_of(q.library_version) >= [1, 67, 1], major_of(q.layout) >= 2)
    """
    message = "Job {job_id} of queue {queue} ended at {_ended} UTC, but is {state}"
