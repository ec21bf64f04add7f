"""LV011."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, Check


class StalledMarkOnInactiveJob(Check):
    """A job that is not active is marked as stalled.

    What it finds
    A member of `stalled` that is not in `active`, in a queue where no stalled check was made within its interval (30
    s).

    Why it matters
    Bull up to 3.11 puts such a job back into its waiting list although it has ended: a finished job is a warning. Later
    releases drop the mark.

    How it comes about
    A job that ended or was removed after a check and before the next one, which then never came; raw commands.

    What to do next
    Start a worker of a current release: its first checks clear the set.

    False alarms
    While checks are made, marks on jobs that have just ended are normal and left alone.

    References
    OptimalBits/bull#1600, OptimalBits/bull#2049.
    """

    id = "LV011"
    name = "stalled-mark-on-inactive-job"
    title = "A job that is not active is marked as stalled"
    severity = "info"
    since = "0.1.0"
    versions = "Bull, BullMQ, all releases"
    impact = "are marked for recovery though they are not active"
    heals = "at the next stalled check, which empties the set"
    basis = "observed"
    dialects = ("bullmq",)
    needs = {
        "keys": (*QUEUE_PLACE, "type", "expired", "role"),
        "membership": (*JOB_PLACE, "structure", "decides_state", "key"),
    }
    sql = """
        WITH marked AS MATERIALIZED (
            SELECT dialect, namespace, queue, job_id, key, evidence, db
            FROM membership
            WHERE structure = 'stalled' AND dialect = 'bullmq'
        ),
        places AS (
            SELECT m.dialect, m.namespace, m.queue, m.job_id, m.evidence, m.db,
                string_agg(DISTINCT m.structure, ', ' ORDER BY m.structure) AS structures,
                bool_or(m.structure = 'active') AS active,
                bool_or(m.structure IN ('completed', 'failed')) AS ended
            FROM membership AS m
            SEMI JOIN marked AS k USING (dialect, namespace, queue, job_id, evidence, db)
            WHERE m.decides_state
            GROUP BY ALL
        ),
        checked AS (
            SELECT DISTINCT dialect, namespace, queue, evidence, db
            FROM keys
            WHERE role = 'stalled-check' AND type = 'string' AND expired IS NOT TRUE
        )
        SELECT dialect, namespace, queue, job_id, k.key, evidence, db, p.structures,
            CASE WHEN p.ended OR p.job_id IS NULL THEN 'warning' ELSE 'info' END AS severity,
            coalesce('in ' || p.structures, 'in no structure') AS _where
        FROM marked AS k
        LEFT JOIN places AS p USING (dialect, namespace, queue, job_id, evidence, db)
        ANTI JOIN checked AS c USING (dialect, namespace, queue, evidence, db)
        WHERE p.active IS NOT TRUE
    """
    message = "Job {job_id} of queue {queue} is marked as stalled, but is {_where}"
