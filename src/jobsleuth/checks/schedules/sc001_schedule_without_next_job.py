"""SC001."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, Check


class ScheduleWithoutNextJob(Check):
    """A schedule has no next job: it never starts again by itself.

    What it finds
    A member of `repeat` whose current job, the one with the time of its score in the id, has no record, is in no
    structure, or has ended, while no limit and no end date has been reached.

    Why it matters
    A schedule lives through its one next job: the worker that takes it makes the following one. With that job gone
    nothing runs any more, and nothing reports it. `details.missed` counts the runs that are missing by now, where the
    interval is known.

    How it comes about
    The delayed job was removed by hand or by emptying the queue; a worker died, or its host was restarted, between
    taking a job and making the next one; another job occupied the id of the next run.

    What to do next
    Register the schedule again (`upsertJobScheduler`, or `add` with the same repeat options): that makes a next job.
    Then see which runs were missed.

    False alarms
    Repeatables of Bull and of BullMQ before 5.16 are moved on in two steps: in a queue with activity in the last
    `chain_slack_ms` (30 s) the finding is only possible and a warning. A limit on repeats that older releases kept in
    the job alone cannot be seen.

    References
    taskforcesh/bullmq#3272, taskforcesh/bullmq#2790, taskforcesh/bullmq#2643, OptimalBits/bull#2167.
    """

    id = "SC001"
    name = "schedule-without-next-job"
    title = "A schedule has no next job: it never starts again by itself"
    severity = "error"
    since = "0.1.0"
    versions = "Bull, BullMQ, all releases"
    impact = "have stopped and will not start again by themselves"
    heals = "no: only a worker that takes the current job makes its successor"
    basis = "derived"
    dialects = ("bullmq",)
    needs_time = True
    parameters = {"chain_slack_ms": 30_000}
    needs = {
        "jobs": (*JOB_PLACE, "state", "has_record", "finished_at"),
        "queues": (*QUEUE_PLACE, "layout", "library_version", "last_activity_at"),
        "schedules": (*JOB_PLACE, "schedule_id", "spec", "next_at", "details", "has_record", "key"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        WITH members AS MATERIALIZED (
            SELECT s.dialect, s.namespace, s.queue, s.job_id, s.key, s.evidence, s.db, s.schedule_id, s.spec, s.next_at,
                s.has_record, e.as_of_ms,
                coalesce(
                    try_cast(s.details['endDate'] AS DOUBLE),
                    CASE WHEN NOT s.has_record
                        THEN try_cast(regexp_extract(s.schedule_id, '^.*?:[^:]*:(\\d+):', 1) AS DOUBLE) END
                ) AS end_ms,
                try_cast(s.details['limit'] AS BIGINT) AS most,
                try_cast(s.details['ic'] AS BIGINT) AS made,
                try_cast(regexp_extract(s.spec, '^every (\\d+)$', 1) AS BIGINT) AS every_ms
            FROM schedules AS s
            JOIN evidence AS e USING (evidence)
            WHERE s.dialect = 'bullmq' AND s.next_at IS NOT NULL
        ),
        current AS MATERIALIZED (
            SELECT j.dialect, j.namespace, j.queue, j.job_id, j.evidence, j.db, j.state, j.finished_at
            FROM (
                SELECT dialect, namespace, queue, job_id, evidence, db, state, finished_at
                FROM jobs
                WHERE has_record
            ) AS j
            SEMI JOIN members AS m USING (dialect, namespace, queue, job_id, evidence, db)
        ),
        dead AS (
            SELECT m.*, c.state,
                NOT m.has_record OR coalesce(version_of(q.library_version) < [5, 34, 6],
                    major_of(q.layout) < 5) AS two_steps,
                coalesce(m.as_of_ms - epoch_ms(q.last_activity_at) < $chain_slack_ms, FALSE) AS busy
            FROM members AS m
            JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
            LEFT JOIN current AS c USING (dialect, namespace, queue, job_id, evidence, db)
            WHERE (c.state IS NULL OR c.state IN ('completed', 'failed', 'unknown', 'stuck'))
                AND NOT coalesce(m.made >= m.most, FALSE)
                AND NOT coalesce(m.end_ms <= epoch_ms(m.next_at) OR m.end_ms <= m.as_of_ms, FALSE)
                AND NOT coalesce(c.state IN ('completed', 'failed')
                    AND epoch_ms(c.finished_at) > m.as_of_ms - $chain_slack_ms, FALSE)
        )
        SELECT dialect, namespace, queue, job_id, key, evidence, db, schedule_id, spec, next_at, state,
            CASE WHEN every_ms > 0 THEN greatest(0, (as_of_ms - epoch_ms(next_at)) // every_ms + 1) END AS missed,
            CASE WHEN two_steps AND busy THEN 'warning' ELSE 'error' END AS severity,
            CASE WHEN two_steps AND busy THEN 'possible' ELSE 'certain' END AS certainty,
            schedule_id AS _same,
            CASE
                WHEN state IS NULL THEN 'its job for '
                WHEN state IN ('unknown', 'stuck') THEN 'in no structure is its job for '
                ELSE state || ', without a successor, is its job for '
            END AS _lead,
            CASE WHEN state IS NULL THEN ' is gone' ELSE '' END AS _tail,
            CASE WHEN every_ms > 0 AND as_of_ms >= epoch_ms(next_at)
                THEN '; ' || count_text((as_of_ms - epoch_ms(next_at)) // every_ms + 1, 'run') || ' missed'
                ELSE '' END AS _missed,
            strftime(next_at, '%Y-%m-%d %H:%M:%S') AS _when
        FROM dead
    """
    message = "Schedule {schedule_id} of queue {queue} has stopped: {_lead}{_when} UTC{_tail}{_missed}"
