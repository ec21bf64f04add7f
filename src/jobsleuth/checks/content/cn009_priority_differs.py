"""CN009."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, Check


class PriorityDiffers(Check):
    """A job is ranked by another priority than its record names.

    What it finds
    A job in `prioritized` whose score holds another priority than its record.

    Why it matters
    The score decides: the job runs earlier or later than everybody believes.

    How it comes about
    The record or the score written by hand; a release whose ranks overflow.

    What to do next
    Change the priority again (`Job.changePriority`): that writes both.

    False alarms
    4.0.0 to 4.18.2 and 5.0.0 to 5.8.0 rank one class too low once their counter has passed 2^31: then the finding is
    only possible.

    References
    BullMQ 4.18.3 and 5.8.1 changelogs.
    """

    id = "CN009"
    name = "priority-differs"
    title = "A job is ranked by another priority than its record names"
    severity = "warning"
    since = "0.1.0"
    versions = "BullMQ 4+"
    impact = "run in another order than their record says"
    heals = "no: the rank counts until the priority is changed again"
    basis = "derived"
    dialects = ("bullmq",)
    absence = False
    needs = {
        "jobs": (*JOB_PLACE, "state", "has_record", "record_complete", "priority", "key"),
        "membership": (*JOB_PLACE, "structure", "score"),
        "queues": (*QUEUE_PLACE, "library_version"),
    }
    sql = """
        WITH ranked AS (
            SELECT dialect, namespace, queue, job_id, evidence, db, score, floor(score / 4294967296)::BIGINT AS rank
            FROM membership
            WHERE structure = 'prioritized' AND dialect = 'bullmq'
        ),
        records AS (
            SELECT dialect, namespace, queue, job_id, key, priority, evidence, db
            FROM jobs
            WHERE dialect = 'bullmq' AND has_record AND record_complete AND state IN ('prioritized', 'completed',
                'failed',
                'delayed') AND priority IS NOT NULL
        )
        SELECT dialect, namespace, queue, job_id, j.key, evidence, db, j.priority, r.rank,
            CASE WHEN r.rank = j.priority - 1 AND coalesce(
                version_of(q.library_version) < [4, 18, 3]
                    OR version_of(q.library_version) BETWEEN [5, 0, 0] AND [5, 8, 0], TRUE)
                THEN 'possible' ELSE 'certain' END AS certainty
        FROM ranked AS r
        JOIN records AS j USING (dialect, namespace, queue, job_id, evidence, db)
        JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
        WHERE r.rank <> j.priority
    """
    message = "Job {job_id} of queue {queue} is ranked with priority {rank}, but its record says {priority}"
