"""UQ009."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, TARGET, Check


class LockHeldByArchivedTask(Check):
    """An archived task keeps equal tasks out.

    What it finds
    A lock that lives and is held by a task in `archived`.

    Why it matters
    The task has given up, and equal ones are refused until its lock expires: periodic work stands still meanwhile. It
    is by design, and often a surprise.

    How it comes about
    The task used up its retries or was archived by hand; only its end or deletion frees the lock before its time.

    What to do next
    Delete the archived task (that frees the lock) or run it again.

    False alarms
    None, but it may be what you want: accept it in the baseline then.

    References
    hibiken/asynq#629.
    """

    id = "UQ009"
    name = "lock-held-by-archived-task"
    title = "An archived task keeps equal tasks out"
    severity = "warning"
    since = "0.1.0"
    versions = "Asynq, all releases with unique tasks"
    impact = "keep equal tasks out although they gave up"
    heals = "when the lock expires, or the task is deleted"
    basis = "derived"
    dialects = ("asynq",)
    needs_time = True
    absence = False
    needs = {
        "membership": (*JOB_PLACE, "structure", "due_at"),
        "relations": (*TARGET, "dialect", "kind", "valid_until", "key", "evidence", "db"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        WITH locks AS MATERIALIZED (
            SELECT r.dialect, r.target_namespace AS namespace, r.target_queue AS queue, r.target_id AS job_id, r.key,
                r.valid_until, r.evidence, r.db
            FROM relations AS r
            JOIN evidence AS e USING (evidence)
            WHERE r.kind = 'uniqueness' AND r.dialect = 'asynq' AND coalesce(epoch_ms(r.valid_until) > e.as_of_ms, TRUE)
        ),
        archived AS (
            SELECT m.dialect, m.namespace, m.queue, m.job_id, m.due_at, m.evidence, m.db
            FROM membership AS m
            SEMI JOIN locks AS l USING (dialect, namespace, queue, job_id, evidence, db)
            WHERE m.structure = 'archived'
        )
        SELECT dialect, namespace, queue, job_id, l.key, evidence, db, l.valid_until, l.valid_until AS heals_at,
            a.due_at AS since_from, a.due_at AS since_to, 'when it was archived' AS since_why,
                'observed' AS since_basis,
            coalesce('until ' || strftime(l.valid_until, '%Y-%m-%d %H:%M:%S') || ' UTC', 'for ever') AS _until
        FROM locks AS l
        JOIN archived AS a USING (dialect, namespace, queue, job_id, evidence, db)
    """
    message = "Archived task {job_id} of queue {queue} keeps equal tasks out {_until}"
