"""LV002."""

from __future__ import annotations

from jobsleuth.checks.base import Check


class ActiveWithoutLockOrLease(Check):
    """A job is active, but nobody holds it.

    What it finds
    An id in `active` for which the snapshot has no lock (BullMQ) or no lease (Asynq; up to 0.21 no deadline). Locks
    and leases that are there but had run out belong to LV003.

    Why it matters
    No worker renews its claim on the job. Asynq never recovers such a task: the recoverer looks at leases only, so this
    is an error. BullMQ puts it back at the second stalled check, provided that some worker makes them: a warning while
    the `stalled-check` key shows that, else an error, since the job stays until a worker with stalled checks starts.
    Under a global concurrency limit such jobs take the slots of others.

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
    there the finding is only possible while stalled checks run. 5.x and later do both in one script.

    References
    taskforcesh/bullmq#652, taskforcesh/bullmq#2580, taskforcesh/bullmq#806, OptimalBits/bull#1766,
    hibiken/asynq#1051, hibiken/asynq#1144, hibiken/asynq#643.
    """

    id = "LV002"
    name = "active-without-lock-or-lease"
    title = "A job is active, but nobody holds it"
    severity = "error"
    since = "0.1.0"
    versions = "Bull, BullMQ, Asynq 0.10+"
    impact = "stay active although nobody works on them"
    heals = "no: no release of Asynq recovers an active task without a lease"
    needs = {
        "membership": ("dialect", "namespace", "queue", "job_id", "structure", "key", "evidence", "db"),
        "workers": ("dialect", "namespace", "queue", "kind", "job_id", "evidence", "db"),
        "keys": ("dialect", "namespace", "queue", "role", "type", "expired", "evidence", "db"),
        "queues": ("dialect", "namespace", "queue", "layout", "evidence", "db"),
        "jobs": ("dialect", "namespace", "queue", "job_id", "started_at", "evidence", "db"),
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
            SELECT DISTINCT dialect, namespace, queue, evidence, db
            FROM keys
            WHERE role = 'stalled-check' AND type = 'string' AND expired IS NOT TRUE
        ),
        marked AS (
            SELECT DISTINCT dialect, namespace, queue, job_id, evidence, db FROM membership WHERE structure = 'stalled'
        ),
        begun AS MATERIALIZED (
            SELECT j.dialect, j.namespace, j.queue, j.job_id, j.started_at, j.evidence, j.db
            FROM jobs AS j
            SEMI JOIN loose AS l USING (dialect, namespace, queue, job_id, evidence, db)
        ),
        judged AS (
            SELECT dialect, namespace, queue, l.job_id, l.key, evidence, db, j.started_at,
                c.queue IS NOT NULL AS stalled_checks,
                k.job_id IS NOT NULL AS marked_stalled,
                coalesce(try_cast(regexp_extract(q.layout, '^bullmq (\\d+)', 1) AS INTEGER), 0) AS major
            FROM loose AS l
            JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
            LEFT JOIN checked AS c USING (dialect, namespace, queue, evidence, db)
            LEFT JOIN marked AS k USING (dialect, namespace, queue, job_id, evidence, db)
            LEFT JOIN begun AS j USING (dialect, namespace, queue, job_id, evidence, db)
        )
        SELECT dialect, namespace, queue, job_id, key, evidence, db, started_at, stalled_checks, marked_stalled,
            CASE WHEN dialect = 'bullmq' AND stalled_checks THEN 'warning' ELSE 'error' END AS severity,
            CASE WHEN dialect = 'bullmq' AND stalled_checks AND major < 5 THEN 'possible' ELSE 'certain'
                END AS certainty,
            CASE WHEN dialect = 'asynq' THEN 'lease' ELSE 'lock' END AS _claim,
            CASE
                WHEN dialect = 'asynq' THEN ': no release recovers it by itself'
                WHEN stalled_checks THEN ': a stalled check will put it back'
                ELSE ', and no worker makes stalled checks: it stays until one does'
            END AS _next
        FROM judged
    """
    message = "Job {job_id} of queue {queue} is active without a {_claim}{_next}"
