"""CN007."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class TimesOutOfOrder(Check):
    """Times in records are out of order or in the future.

    What it finds
    Jobs whose creation, start and end are not in this order, or one of which lies after the snapshot, by more than
    `clock_skew_ms` (2 s). One finding for each queue, with the largest difference.

    Why it matters
    Every duration computed from such records is wrong. It is the best hint at clocks that differ.

    How it comes about
    Producers and workers on machines with different clocks; a creation time given by the caller; a retry, which keeps
    an older end in some releases.

    What to do next
    Compare clocks (NTP) before you trust any duration in this case.

    False alarms
    It is information.

    References
    BullMQ 6.7.0: `timestamp` comes from the producer, `processedOn` and `finishedOn` from the worker.
    """

    id = "CN007"
    name = "times-out-of-order"
    title = "Times in records are out of order or in the future"
    severity = "info"
    since = "0.1.0"
    versions = "all releases of Bull, BullMQ, Asynq"
    impact = "hold times that cannot all be right: do not build on their differences"
    heals = "no"
    basis = "derived"
    needs_time = True
    parameters = {"clock_skew_ms": 2_000}
    absence = False
    needs = {
        "jobs": (*JOB_PLACE, "has_record", "created_at", "started_at", "finished_at"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        WITH odd AS (
            SELECT j.dialect, j.namespace, j.queue, j.job_id, j.evidence, j.db,
                greatest(
                    epoch_ms(j.created_at) - epoch_ms(j.started_at),
                    epoch_ms(j.started_at) - epoch_ms(j.finished_at),
                    epoch_ms(j.created_at) - epoch_ms(j.finished_at),
                    epoch_ms(j.created_at) - e.as_of_ms - 1000,
                    epoch_ms(j.started_at) - e.as_of_ms - 1000,
                    epoch_ms(j.finished_at) - e.as_of_ms - 1000
                ) AS off_ms
            FROM (
                SELECT dialect, namespace, queue, job_id, evidence, db, created_at, started_at, finished_at
                FROM jobs
                WHERE has_record AND (started_at IS NOT NULL OR finished_at IS NOT NULL OR created_at IS NOT NULL)
            ) AS j
            JOIN evidence AS e USING (evidence)
        )
        SELECT dialect, namespace, queue, evidence, db, count(*) AS jobs, max(off_ms) AS most_ms,
            arg_max(job_id, (off_ms, job_id)) AS example, count_text(count(*), 'job') AS _jobs,
            duration_text(max(off_ms)) AS _most
        FROM odd
        WHERE off_ms > $clock_skew_ms
        GROUP BY dialect, namespace, queue, evidence, db
    """
    message = "Times of {_jobs} of queue {queue} are out of order or in the future, by {_most} at most ({example})"
