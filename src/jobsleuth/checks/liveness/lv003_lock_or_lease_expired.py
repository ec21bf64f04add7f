"""LV003."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, Check


class LockOrLeaseExpired(Check):
    """A job is active, but its lock or lease had run out at the snapshot.

    What it finds
    An id in `active` whose lock (BullMQ: a key past its expiry that still lies in the file) or lease (Asynq: score in
    `lease`; up to 0.21 in `deadlines`) ended before the moment of the snapshot.

    Why it matters
    The worker died, hangs, or was cut off; another one may take the job while the first still works on it. Asynq's
    recoverer acts between 30 and 90 s after the end: until 30 s this is information, until 90 s a warning, beyond (with
    `clock_skew_ms` allowed) an error, since nobody recovers the queue. A task without a message, or with one that
    cannot be decoded, no release recovers: always an error. Up to 0.21 a deadline is all that tells of a dead worker,
    half an hour after the start unless the task has its own. BullMQ: a warning while stalled checks run, else an error,
    as in LV002.

    How it comes about
    Worker killed, out of memory, event loop blocked for longer than the lock lasts, network partition. Asynq beyond
    90 s: no server consumes the queue, or one undecodable message stops the recovery (see CN001).

    What to do next
    Look for the worker's end in its host's logs at the time in `details.valid_until`. The handler may have done its
    work: check before letting it run again. Then start a consumer of the queue.

    False alarms
    Clocks: leases are written with the clock of the worker, the snapshot's time is the server's.

    References
    hibiken/asynq#907, hibiken/asynq#286, hibiken/asynq#1140, taskforcesh/bullmq#652, taskforcesh/bullmq#3535.
    """

    id = "LV003"
    name = "lock-or-lease-expired"
    title = "A job is active, but its lock or lease had run out"
    severity = "error"
    since = "0.1.0"
    versions = "Bull, BullMQ, Asynq 0.10+"
    impact = "were interrupted, or run on beyond the time their worker was given"
    heals = "once a server of the queue runs: its recoverer takes it between 30 and 90 s after the end of the claim"
    needs_time = True
    parameters = {"recovery_starts_ms": 30_000, "recovery_ends_ms": 90_000, "clock_skew_ms": 2_000}
    absence = False
    needs = {
        "membership": (*JOB_PLACE, "structure"),
        "workers": (*JOB_PLACE, "kind", "worker_id", "valid_until", "key"),
        "keys": (*QUEUE_PLACE, "role", "type", "expired", "expire_at"),
        "queues": (*QUEUE_PLACE, "limits"),
        "jobs": (*JOB_PLACE, "record_complete", "decode_error"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        WITH held AS (
            SELECT dialect, namespace, queue, job_id, evidence, db,
                max(valid_until) AS valid_until, arg_max(key, (valid_until, key)) AS key,
                arg_max(worker_id, (valid_until, worker_id)) AS worker_id,
                bool_or(valid_until IS NULL) AS for_ever
            FROM workers
            WHERE kind IN ('lock', 'lease')
            GROUP BY ALL
        ),
        lapsed AS (
            SELECT h.*, e.as_of_ms - epoch_ms(h.valid_until) AS ended_before_ms
            FROM held AS h
            JOIN evidence AS e USING (evidence)
            WHERE NOT h.for_ever AND epoch_ms(h.valid_until) <= e.as_of_ms
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
        served AS (
            SELECT dialect, namespace, queue, evidence, db
            FROM queues
            WHERE dialect = 'asynq' AND limits['servers'] > 0
        ),
        unreadable AS MATERIALIZED (
            SELECT dialect, namespace, queue, job_id, evidence, db, decode_error IS NOT NULL AS undecodable
            FROM jobs
            WHERE dialect = 'asynq' AND (decode_error IS NOT NULL OR record_complete IS NOT TRUE)
        ),
        blocked AS (
            -- A message that it cannot decode ends a pass of the recovery, whatever the queue.
            SELECT l.evidence, l.db, min(l.job_id) AS stumbling_block
            FROM lapsed AS l
            JOIN unreadable AS u USING (dialect, namespace, queue, job_id, evidence, db)
            WHERE u.undecodable
            GROUP BY ALL
        )
        SELECT l.dialect, l.namespace, l.queue, l.job_id, l.key, l.evidence, l.db, l.worker_id, l.valid_until,
            l.ended_before_ms,
            CASE
                WHEN l.dialect <> 'asynq' THEN CASE WHEN c.queue IS NULL THEN 'error' ELSE 'warning' END
                WHEN u.job_id IS NOT NULL THEN 'error'
                WHEN l.ended_before_ms <= $recovery_starts_ms THEN 'info'
                WHEN l.ended_before_ms <= $recovery_ends_ms + $clock_skew_ms THEN 'warning'
                ELSE 'error'
            END AS severity,
            CASE
                WHEN u.undecodable THEN 'no: recovery stops at its message, for every queue of the server that meets it'
                WHEN u.job_id IS NOT NULL THEN 'no: no release recovers a task without a message'
                WHEN l.dialect = 'asynq' AND b.stumbling_block IS NOT NULL
                    THEN 'no: recovery stops at task ' || b.stumbling_block || ', whose message cannot be decoded'
                WHEN l.dialect = 'asynq' AND l.ended_before_ms > $recovery_ends_ms + $clock_skew_ms
                    AND s.queue IS NOT NULL
                    THEN 'cannot be known: a server of the queue lives, and its recovery did not take it in time'
                WHEN l.dialect = 'asynq' AND l.ended_before_ms > $recovery_ends_ms + $clock_skew_ms
                    THEN 'as soon as a server of the queue starts: its recoverer looks at once'
                WHEN l.dialect = 'asynq' THEN 'between '
                    || strftime(l.valid_until + to_milliseconds($recovery_starts_ms), '%Y-%m-%d %H:%M:%S')
                    || ' and ' || strftime(l.valid_until + to_milliseconds($recovery_ends_ms), '%H:%M:%S')
                    || ' UTC, if a server of the queue runs then'
                WHEN c.queue IS NOT NULL AND k.job_id IS NOT NULL
                    THEN 'at the next stalled check, if a worker still makes them: within 60 s unless configured'
                WHEN c.queue IS NOT NULL THEN 'at the second stalled check from now, if a worker still makes them: '
                    || 'within 90 s unless configured'
                ELSE 'only once a worker of the queue makes stalled checks'
            END AS heals,
            CASE
                -- At the latest one interval after it may: the interval is no part of the snapshot.
                WHEN l.dialect <> 'asynq' AND k.job_id IS NOT NULL THEN c.next_check + INTERVAL 30 SECOND
                WHEN l.dialect <> 'asynq' THEN c.next_check + INTERVAL 60 SECOND
                WHEN u.job_id IS NULL AND b.stumbling_block IS NULL AND s.queue IS NOT NULL
                    AND l.ended_before_ms <= $recovery_ends_ms + $clock_skew_ms
                    THEN l.valid_until + to_milliseconds($recovery_ends_ms)
            END AS heals_at,
            CASE WHEN l.dialect <> 'asynq' AND c.next_check IS NOT NULL
                OR u.job_id IS NULL AND b.stumbling_block IS NOT NULL THEN 'inferred' END AS heals_basis,
            CASE WHEN ends_with(l.key, ':lease') AND l.dialect = 'asynq'
                THEN l.valid_until - INTERVAL 30 SECOND END AS since_from,
            l.valid_until AS since_to,
            CASE
                WHEN l.dialect <> 'asynq' THEN 'when its lock ended, at the latest'
                WHEN ends_with(l.key, ':lease') THEN 'between the last renewal of its lease and its end'
                ELSE 'when its deadline passed, at the latest'
            END AS since_why,
            'derived' AS since_basis,
            CASE
                WHEN l.dialect <> 'asynq' THEN 'lock'
                WHEN l.key LIKE '%deadlines' THEN 'deadline'
                ELSE 'lease'
            END AS _claim,
            duration_text(l.ended_before_ms) AS _ended,
            CASE
                WHEN l.dialect <> 'asynq' THEN CASE WHEN c.queue IS NULL
                    THEN ', and no worker makes stalled checks' ELSE '; a stalled check will put it back' END
                WHEN u.undecodable THEN ', and recovery stops at its message, which cannot be decoded'
                WHEN u.job_id IS NOT NULL THEN ', and no release recovers a task without a message'
                WHEN l.ended_before_ms <= $recovery_ends_ms + $clock_skew_ms THEN '; recovery is still due'
                ELSE ', and nobody recovered it'
            END AS _next
        FROM lapsed AS l
        LEFT JOIN checked AS c USING (dialect, namespace, queue, evidence, db)
        LEFT JOIN marked AS k USING (dialect, namespace, queue, job_id, evidence, db)
        LEFT JOIN served AS s USING (dialect, namespace, queue, evidence, db)
        LEFT JOIN blocked AS b USING (evidence, db)
        LEFT JOIN unreadable AS u ON u.dialect = l.dialect AND u.namespace = l.namespace AND u.queue = l.queue
            AND u.job_id = l.job_id AND u.evidence = l.evidence AND u.db = l.db
        WHERE EXISTS (
            SELECT 1 FROM membership AS m
            WHERE m.structure = 'active' AND m.job_id = l.job_id AND m.queue = l.queue AND m.namespace = l.namespace
                AND m.dialect = l.dialect AND m.evidence = l.evidence AND m.db = l.db
        )
    """
    message = "Job {job_id} of queue {queue} is active, but its {_claim} ended {_ended} before the snapshot{_next}"
