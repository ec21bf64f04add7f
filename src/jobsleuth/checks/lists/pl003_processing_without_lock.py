"""PL003."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, Check


class ProcessingWithoutLock(Check):
    """A job is being processed, but its lock is not there or had run out.

    What it finds
    Jobs of a described layout with locks that are in a processing structure without a valid lock.

    Why it matters
    Either nobody works on it any more, or two workers may.

    How it comes about
    A worker that died; work that takes longer than the lock lives and does not renew it.

    What to do next
    Find out whether its worker lives. If not, put the job back; it may have been worked on.

    False alarms
    A layout that takes the lock only after it moved the job.

    References
    The description of the layout.
    """

    id = "PL003"
    name = "processing-without-lock"
    title = "A job is being processed, but its lock is not there"
    severity = "error"
    since = "0.1.0"
    versions = "described layouts with locks"
    impact = "are being processed by nobody, or by several"
    basis = "derived"
    heals = "no: only the application itself puts them back"
    dialects = ("layouts",)
    needs = {
        "jobs": (*JOB_PLACE, "state", "started_at", "key"),
        "queues": (*QUEUE_PLACE, "counters"),
        "workers": (*JOB_PLACE, "kind", "valid_until", "valid"),
    }
    sql = """
        WITH locked AS (
            SELECT dialect, namespace, queue, evidence, db
            FROM queues
            WHERE dialect = 'layouts' AND counters['locks'] IS NOT NULL
        ),
        claims AS (
            SELECT dialect, namespace, queue, job_id, evidence, db, bool_or(valid IS NOT FALSE) AS holds,
                max(valid_until) AS ended_at
            FROM workers
            WHERE dialect = 'layouts' AND kind = 'lock'
            GROUP BY ALL
        )
        SELECT dialect, namespace, queue, j.job_id, j.key, evidence, db, j.started_at, c.ended_at,
            CASE WHEN c.job_id IS NULL THEN 'it has no lock' ELSE 'its lock had run out' END AS _how
        FROM (
            SELECT dialect, namespace, queue, job_id, key, evidence, db, started_at
            FROM jobs
            WHERE dialect = 'layouts' AND state IN ('processing', 'active')
        ) AS j
        SEMI JOIN locked USING (dialect, namespace, queue, evidence, db)
        LEFT JOIN claims AS c USING (dialect, namespace, queue, job_id, evidence, db)
        WHERE c.holds IS NOT TRUE
    """
    message = "Job {job_id} of queue {queue} is being processed, but {_how}"
