"""MB002."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, TARGET, Check


class RecordInNoStructure(Check):
    """A job's record exists, but no structure of its queue names it.

    What it finds
    A complete record whose id is in none of the structures that decide a job's state. For BullMQ the library answers
    `unknown` for it (Bull: `stuck`). Jobs waiting in groups of the commercial edition are left out.

    Why it matters
    Nothing will ever move the job: no worker sees it, no listing shows it. While the record stays, adding a job with
    the same id does nothing, and a deduplication or unique key that points to it (named in `details`) keeps blocking.

    How it comes about
    BullMQ up to 5.x: pausing twice with ids in `wait` between, ids `0` or `0:…` swallowed as markers, a script that
    failed half-way; up to 1.46 `drain(true)`, which leaves the records of delayed jobs. Bull: a limiter with
    bounceBack, retries while paused. Any: a list entry removed by hand.
    Asynq: `archived` and `completed` records stay when their zset is trimmed (all releases before 0.25, the Inspector
    still); `active` ones when the lease was gone at the finish: the handler ended, its outcome is lost.

    What to do next
    `details.started_at` tells whether it ever ran. If it never started, adding the payload again under a new id is
    safe; if it did, find out what the handler already did first. Then delete the record (and the key that pins it).
    For archived or completed records of Asynq: save what you need of them, then delete them.

    False alarms
    None known in a snapshot of one instant. `archived` and `completed` records of Asynq are only a warning: the work
    is over, they waste memory and block their ids.

    References
    taskforcesh/bullmq#1644, taskforcesh/bullmq#3253, OptimalBits/bull#688, OptimalBits/bull#2540, hibiken/asynq#730,
    hibiken/asynq#803, hibiken/asynq#847.
    """

    id = "MB002"
    name = "record-in-no-structure"
    title = "A job's record is in no structure: nothing will move it"
    severity = "error"
    since = "0.1.0"
    versions = "all releases of Bull, BullMQ, Asynq 0.18+"
    impact = "will never run and are shown nowhere"
    heals = "no: nothing looks for records that no structure names"
    needs = {
        "jobs": (
            *JOB_PLACE,
            "key",
            "has_record",
            "record_complete",
            "state",
            "claimed_state",
            "created_at",
            "started_at",
            "attempts_started",
            "attempts",
        ),
        "membership": (*JOB_PLACE, "structure"),
        "relations": (*TARGET, "dialect", "kind", "source_id", "evidence", "db"),
    }
    sql = """
        WITH lost AS MATERIALIZED (
            SELECT dialect, namespace, queue, job_id, key, evidence, db, claimed_state, created_at, started_at,
                attempts_started, attempts
            FROM jobs
            WHERE state IN ('unknown', 'stuck') AND has_record AND record_complete IS NOT FALSE
        ),
        grouped AS MATERIALIZED (
            SELECT m.dialect, m.namespace, m.queue, m.job_id, m.evidence, m.db
            FROM membership AS m
            SEMI JOIN lost AS l USING (dialect, namespace, queue, job_id, evidence, db)
            WHERE m.structure = 'group' AND m.dialect = 'bullmq'
        ),
        pins AS (
            SELECT dialect, target_namespace AS namespace, target_queue AS queue, target_id AS job_id, evidence, db,
                string_agg(DISTINCT source_id, ', ' ORDER BY source_id) AS pinned_by
            FROM relations
            WHERE kind IN ('deduplication', 'uniqueness')
            GROUP BY ALL
        )
        SELECT l.*, p.pinned_by,
            CASE WHEN l.dialect = 'asynq' AND l.claimed_state IN ('archived', 'completed')
                THEN 'warning' ELSE 'error' END AS severity,
            CASE WHEN l.claimed_state IS NULL THEN '' ELSE ' although it says ' || l.claimed_state END AS _claim,
            CASE
                WHEN p.pinned_by IS NOT NULL THEN ', and the key ' || p.pinned_by || ' keeps new ones out'
                WHEN l.dialect <> 'asynq' AND l.started_at IS NULL AND coalesce(l.attempts_started, l.attempts, 0) = 0
                THEN '; it never started'
                ELSE ''
            END AS _more
        FROM lost AS l
        LEFT JOIN pins AS p USING (dialect, namespace, queue, job_id, evidence, db)
        ANTI JOIN grouped AS g USING (dialect, namespace, queue, job_id, evidence, db)
    """
    message = "Job {job_id} of queue {queue} has a record, but is in no structure{_claim}: nothing will move it{_more}"
