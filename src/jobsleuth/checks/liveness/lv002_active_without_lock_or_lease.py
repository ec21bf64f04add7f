"""LV002."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, Check


class ActiveWithoutLockOrLease(Check):
    """A job is active, but nobody holds it.

    What it finds
    An id in `active` for which the snapshot has no lock (BullMQ) or no lease (Asynq; 0.10 to 0.21 no deadline; before
    0.10, where there is neither, no entry of a live worker). Locks and leases that are there but had run out belong to
    LV003.

    Why it matters
    No worker renews its claim on the job. Asynq never recovers such a task: the recoverer looks at leases only, so this
    is an error; before 0.10 there is no recoverer, but servers up to 0.9.3 put everything back when they start. BullMQ
    puts it back at the second stalled check, provided that some worker makes them: a warning while the `stalled-check`
    key shows that, else an error, since the job stays until a worker with stalled checks starts. Under a global
    concurrency limit such jobs take the slots of others.

    How it comes about
    The worker was killed or lost its connection; locks were evicted under a `volatile-*` memory policy; jobs fetched
    without a token. Asynq: a restart while Redis refused connections, an upgrade over 0.22 (which reads `lease`, not
    `deadlines`), an aborted dequeue of 0.21 or older.

    What to do next
    The work may have been done in part: find out before it is run again. BullMQ: start a worker of the queue, wait two
    stall intervals. Asynq: if the handler is idempotent, move the id from `active` to `pending` by hand and set the
    record's `state`; else archive it likewise.

    False alarms
    BullMQ 4 and older, and Bull, take a job and lock it in two steps, about 1 % of looks at a healthy queue show it:
    there the finding is only possible while stalled checks run, or while the job has no start time of this try, which
    the second step writes; then it is a warning. Bull before 3.0 writes neither start times nor a `stalled-check` key:
    always possible, a warning. 5.x and later do both in one script. BullMQ 1.0 takes no locks, and nothing in the data
    tells it from later 1.x: each of its active jobs is called an error. Asynq before 0.10 takes one task more than it
    has workers, so one for each live server is no finding, and more are only possible. Of 0.1, which keeps neither
    locks nor heartbeats, nothing can be said.

    References
    taskforcesh/bullmq#652, taskforcesh/bullmq#2580, taskforcesh/bullmq#806, OptimalBits/bull#1766,
    hibiken/asynq#1051, hibiken/asynq#1144, hibiken/asynq#643.
    """

    id = "LV002"
    name = "active-without-lock-or-lease"
    title = "A job is active, but nobody holds it"
    severity = "error"
    since = "0.1.0"
    versions = "Bull, BullMQ, Asynq"
    impact = "stay active although nobody works on them"
    heals = "no: no release looks for active tasks that have no lease"
    needs = {
        "membership": (*JOB_PLACE, "structure", "key"),
        "workers": (*JOB_PLACE, "kind", "valid", "details"),
        "keys": (*QUEUE_PLACE, "role", "type", "expired", "expire_at"),
        "queues": (*QUEUE_PLACE, "layout"),
        "jobs": (*JOB_PLACE, "started_at", "error"),
    }
    sql = """
        WITH loose AS MATERIALIZED (
            SELECT DISTINCT dialect, namespace, queue, job_id, key, evidence, db
            FROM membership AS m
            WHERE structure = 'active'
                AND NOT EXISTS (
                    SELECT 1 FROM workers AS w
                    WHERE w.kind IN ('lock', 'lease') AND w.job_id = m.job_id AND w.queue = m.queue
                        AND w.namespace = m.namespace AND w.dialect = m.dialect
                        AND w.evidence = m.evidence AND w.db = m.db
                )
        ),
        checked AS (
            -- A check leaves the key for as long as the next one has to wait.
            SELECT dialect, namespace, queue, evidence, db, max(expire_at) AS next_check
            FROM keys
            WHERE role = 'stalled-check' AND type = 'string' AND expired IS NOT TRUE
            GROUP BY ALL
        ),
        marked AS (
            SELECT DISTINCT dialect, namespace, queue, job_id, evidence, db FROM membership WHERE structure = 'stalled'
        ),
        living AS (
            SELECT DISTINCT dialect, namespace, queue, evidence, db FROM workers WHERE kind = 'lock' AND valid
        ),
        begun AS MATERIALIZED (
            SELECT j.dialect, j.namespace, j.queue, j.job_id, j.started_at, j.error IS NOT NULL AS failed_before,
                j.evidence, j.db
            FROM jobs AS j
            SEMI JOIN loose AS l USING (dialect, namespace, queue, job_id, evidence, db)
        ),
        working AS (
            SELECT DISTINCT dialect, namespace, queue, job_id, evidence, db
            FROM workers
            WHERE kind = 'worker' AND valid IS NOT FALSE
        ),
        servers AS (
            -- Until 0.4 servers told how many tasks they work on, but not which.
            SELECT dialect, evidence, db, count(*) FILTER (kind = 'server' AND valid IS NOT FALSE) AS alive,
                greatest(
                    coalesce(
                        sum(try_cast(details['active_worker_count'] AS INTEGER))
                            FILTER (kind = 'server' AND valid IS NOT FALSE),
                        0
                    ) - count(*) FILTER (kind = 'worker' AND valid IS NOT FALSE),
                    0
                ) AS unnamed
            FROM workers
            WHERE kind IN ('server', 'worker')
            GROUP BY ALL
            HAVING count(*) FILTER (kind = 'server') > 0
        ),
        judged AS (
            SELECT dialect, namespace, queue, l.job_id, l.key, evidence, db, j.started_at,
                regexp_matches(q.layout, '^asynq 0\\.[2-9]–0\\.[2-9]$') AS before_leases,
                regexp_matches(q.layout, '^asynq 0\\.(1[0-9]|20).*[0-9]$') AS has_deadlines,
                w.job_id IS NOT NULL AS worked_on, s.alive, coalesce(s.unnamed, 0) AS unnamed, q.layout,
                c.queue IS NOT NULL AS stalled_checks, c.next_check,
                k.job_id IS NOT NULL AS marked_stalled,
                v.queue IS NOT NULL AS others_locked,
                major_of(q.layout) AS major,
                -- The id is moved, and with the next call come lock and start time; an older time is of an older try.
                dialect = 'bullmq' AND major_of(q.layout) < 5
                    AND (j.started_at IS NULL OR j.failed_before) AS may_be_fetched
            FROM loose AS l
            JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
            LEFT JOIN checked AS c USING (dialect, namespace, queue, evidence, db)
            LEFT JOIN marked AS k USING (dialect, namespace, queue, job_id, evidence, db)
            LEFT JOIN begun AS j USING (dialect, namespace, queue, job_id, evidence, db)
            LEFT JOIN working AS w USING (dialect, namespace, queue, job_id, evidence, db)
            LEFT JOIN servers AS s USING (dialect, evidence, db)
            LEFT JOIN living AS v USING (dialect, namespace, queue, evidence, db)
        ),
        counted AS (
            SELECT *, before_leases AND coalesce(alive, 0) = 0 AND alive IS NOT NULL AS left_behind,
                count(*) FILTER (before_leases AND NOT worked_on) OVER (PARTITION BY dialect, evidence, db) AS loose
            FROM judged
        )
        SELECT dialect, namespace, queue, job_id, key, evidence, db, started_at, stalled_checks, marked_stalled,
            CASE
                WHEN dialect = 'bullmq' AND (stalled_checks OR may_be_fetched)
                    OR before_leases AND NOT left_behind THEN 'warning'
                ELSE 'error'
            END AS severity,
            CASE
                WHEN dialect = 'bullmq' AND (stalled_checks AND major < 5 OR may_be_fetched)
                    OR before_leases AND NOT left_behind THEN 'possible'
                ELSE 'certain'
            END AS certainty,
            CASE
                WHEN before_leases THEN 'at its next start, if that server is of 0.9.3 or older; 0.9.4: never'
                WHEN dialect = 'asynq' THEN NULL
                WHEN layout = 'bull 0.x-2.x'
                    THEN 'at the next stalled check of a worker: of those this release leaves no trace'
                WHEN marked_stalled AND stalled_checks
                    THEN 'at the next stalled check, if a worker still makes them: within 60 s unless configured'
                WHEN stalled_checks THEN 'at the second stalled check from now, if a worker still makes them: '
                    || 'within 90 s unless configured'
                ELSE 'only once a worker of the queue makes stalled checks'
            END AS heals,
            -- At the latest one interval after it may: the interval is no part of the snapshot.
            CASE WHEN dialect = 'bullmq' AND marked_stalled THEN next_check + INTERVAL 30 SECOND
                WHEN dialect = 'bullmq' THEN next_check + INTERVAL 60 SECOND END AS heals_at,
            CASE WHEN dialect = 'bullmq' AND next_check IS NOT NULL THEN 'inferred' END AS heals_basis,
            CASE
                WHEN dialect = 'bullmq' THEN 'lock'
                WHEN before_leases THEN 'live worker'
                WHEN has_deadlines THEN 'deadline'
                ELSE 'lease'
            END AS _claim,
            CASE
                WHEN before_leases THEN ': servers up to 0.9.3 put it back when they start, 0.9.4 never does'
                WHEN dialect = 'asynq' THEN ': no release recovers it by itself'
                WHEN layout = 'bull 0.x-2.x' THEN ', or is just being taken: a stalled check will put it back'
                WHEN stalled_checks THEN ': a stalled check will put it back'
                WHEN may_be_fetched THEN ', or is just being taken; no worker makes stalled checks'
                WHEN others_locked THEN ', and no living worker makes stalled checks: recovery looks switched off'
                ELSE ', and no worker makes stalled checks: it stays until one does'
            END AS _next
        FROM counted
        -- Of 0.1 nothing tells a working task from one left behind, of 0.2 neither; from 0.3 on there are servers.
        WHERE layout <> 'asynq 0.1' AND (layout <> 'asynq 0.2–0.3' OR alive IS NOT NULL)
            AND (NOT before_leases OR NOT worked_on AND loose > coalesce(alive, 0) + unnamed)
    """
    message = "Job {job_id} of queue {queue} is active without a {_claim}{_next}"
