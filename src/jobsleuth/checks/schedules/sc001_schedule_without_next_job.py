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
    nothing runs any more, and nothing reports it. Where a run before is left, and its worker has a name, `held_by`
    names both: workers have names since BullMQ 5.3, where the application gives them one, and runs that
    `removeOnComplete` took away name nobody. `details.missed` counts the runs that are missing by now, where the
    interval is known.

    How it comes about
    The delayed job was removed by hand or by emptying the queue; a worker died, or its host was restarted, between
    taking a job and making the next one; another job occupied the id of the next run.

    What to do next
    Register the schedule again (`upsertJobScheduler`, or `add` with the same repeat options): that makes a next job.
    Then see which runs were missed.

    False alarms
    Repeatables, and job schedulers before 5.34.6, are moved on in two steps: in a queue with activity in the last
    `chain_slack_ms` (30 s) the finding is only possible and a warning. The limit of repeatables, and before 5.40.4 that
    of job schedulers, stands in the jobs alone, with the number of each run. Where the newest job left is the last run,
    nothing is said. Where it has a limit and is not the current one, or where no job is left and the next run was due
    before the snapshot, the limit may have been reached, and the finding is only possible and a warning.

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
        "jobs": (*JOB_PLACE, "state", "has_record", "finished_at", "worker_name", "rest"),
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
        dead AS MATERIALIZED (
            SELECT m.*, c.state, regexp_replace(m.job_id, ':[^:]*$', '') AS chain,
                -- Repeatables have a digest for an id, and `ic` once a release with job schedulers moved them on in one
                -- step; 5.0 to 5.19 record no version.
                NOT m.has_record OR regexp_matches(m.schedule_id, '^[0-9a-f]{32}$') AND m.made IS NULL
                    OR coalesce(version_of(q.library_version) < [5, 34, 6],
                        major_of(q.layout) < 6 AND m.made IS NULL) AS two_steps,
                NOT m.has_record OR regexp_matches(m.schedule_id, '^[0-9a-f]{32}$')
                    OR coalesce(version_of(q.library_version) < [5, 40, 4],
                        major_of(q.layout) < 6 AND m.made IS NULL) AS limit_in_jobs,
                coalesce(m.as_of_ms - epoch_ms(q.last_activity_at) < $chain_slack_ms, FALSE) AS busy
            FROM members AS m
            JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
            LEFT JOIN current AS c USING (dialect, namespace, queue, job_id, evidence, db)
            WHERE (c.state IS NULL OR c.state IN ('completed', 'failed', 'unknown', 'stuck'))
                AND NOT coalesce(m.made >= m.most, FALSE)
                -- The snapshot's time is cut to the second.
                AND NOT coalesce(m.end_ms <= epoch_ms(m.next_at) OR m.end_ms < m.as_of_ms + 1000, FALSE)
                AND NOT coalesce(c.state IN ('completed', 'failed')
                    AND epoch_ms(c.finished_at) > m.as_of_ms - $chain_slack_ms, FALSE)
        ),
        newest AS (
            SELECT dialect, namespace, queue, evidence, db, chain,
                max_by({'job_id': job_id, 'opts': opts, 'worker': worker_name}, run_ms) AS job, max(run_ms) AS run_ms
            FROM (
                SELECT dialect, namespace, queue, evidence, db, job_id, worker_name,
                    regexp_replace(job_id, ':[^:]*$', '') AS chain,
                    try_cast(regexp_extract(job_id, ':(\\d+)$', 1) AS BIGINT) AS run_ms,
                    TRY(json(decode(map_extract(rest, 'opts')[1]))) AS opts
                FROM jobs
                WHERE dialect = 'bullmq' AND has_record AND starts_with(job_id, 'repeat:')
            )
            SEMI JOIN dead USING (dialect, namespace, queue, evidence, db, chain)
            WHERE run_ms IS NOT NULL
            GROUP BY ALL
        ),
        told AS (
            SELECT *, coalesce(json_type(job.opts) = 'OBJECT', FALSE) AS readable,
                try_cast(json_extract_string(job.opts, '$.repeat.limit') AS DOUBLE) AS run_limit,
                try_cast(json_extract_string(job.opts, '$.repeat.count') AS DOUBLE) AS run
            FROM newest
        ),
        judged AS (
            SELECT d.*,
                coalesce(n.run >= n.run_limit, FALSE) AS ended,
                d.limit_in_jobs AND CASE
                    WHEN n.readable THEN n.run_limit IS NOT NULL AND n.job.job_id <> d.job_id
                    ELSE d.state IS DISTINCT FROM 'unknown' AND d.state IS DISTINCT FROM 'stuck'
                        AND epoch_ms(d.next_at) < d.as_of_ms + 1000
                END AS may_have_ended,
                d.two_steps AND d.busy AS may_move_on,
                -- Whoever took a run had to make the next one, or made the one that is gone.
                CASE WHEN d.state IS NULL
                    AND n.run_ms < try_cast(regexp_extract(d.job_id, ':(\\d+)$', 1) AS BIGINT)
                    THEN 'worker ' || n.job.worker || ' took the newest run that is left, ' || n.job.job_id
                END AS held_by
            FROM dead AS d
            LEFT JOIN told AS n USING (dialect, namespace, queue, evidence, db, chain)
        )
        SELECT dialect, namespace, queue, job_id, key, evidence, db, schedule_id, spec, next_at, state,
            CASE WHEN every_ms > 0 THEN greatest(0, (as_of_ms - epoch_ms(next_at)) // every_ms + 1) END AS missed,
            CASE WHEN may_move_on OR may_have_ended THEN 'warning' ELSE 'error' END AS severity,
            CASE WHEN may_move_on OR may_have_ended THEN 'possible' ELSE 'certain' END AS certainty,
            schedule_id AS _same, held_by, CASE WHEN held_by IS NOT NULL THEN 'observed' END AS held_by_basis,
            CASE
                WHEN state IS NULL THEN 'its job for '
                WHEN state IN ('unknown', 'stuck') THEN 'in no structure is its job for '
                ELSE state || ', without a successor, is its job for '
            END AS _lead,
            CASE WHEN state IS NULL THEN ' is gone' ELSE '' END AS _tail,
            CASE WHEN every_ms > 0 AND as_of_ms >= epoch_ms(next_at)
                THEN '; ' || count_text((as_of_ms - epoch_ms(next_at)) // every_ms + 1, 'run') || ' missed'
                ELSE '' END AS _missed,
            CASE WHEN may_have_ended THEN '; or it reached a limit of runs, which only its jobs would tell'
                ELSE '' END AS _or,
            strftime(next_at, '%Y-%m-%d %H:%M:%S') AS _when
        FROM judged
        WHERE NOT ended
    """
    message = "Schedule {schedule_id} of queue {queue} has stopped: {_lead}{_when} UTC{_tail}{_missed}{_or}"
