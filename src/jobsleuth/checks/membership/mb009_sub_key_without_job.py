"""MB009."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, Check


class SubKeyWithoutJob(Check):
    """Logs or children of jobs that do not exist.

    What it finds
    Keys `<id>:logs`, `<id>:dependencies`, `<id>:processed`, `<id>:failed`, `<id>:unsuccessful` of an id without a
    record. One finding for each queue and kind.

    Why it matters
    They only take memory, but they are traces of jobs that were removed, and may be all that is left of a lost one.

    How it comes about
    Up to 5.7.8 removing a job leaves its logs, up to 1.67.2 the results of its children; obliterating a queue leaves
    those of parents; a record deleted by hand or evicted.

    What to do next
    Read what they tell, then delete them.

    False alarms
    It is information.

    References
    BullMQ 5.7.8 and 1.67.2 changelogs.
    """

    id = "MB009"
    name = "sub-key-without-job"
    title = "Logs or children of jobs that do not exist"
    severity = "info"
    since = "0.1.0"
    versions = "Bull, BullMQ, all releases"
    impact = "belong to jobs that do not exist and only take memory"
    heals = "no: nothing looks for them"
    dialects = ("bullmq",)
    needs = {
        "keys": (*QUEUE_PLACE, "key", "expired", "nbytes", "role"),
        "jobs": (*JOB_PLACE, "has_record"),
    }
    sql = """
        WITH endings(role, ending) AS (
            VALUES ('logs', ':logs'), ('dependencies', ':dependencies'), ('processed', ':processed'),
                ('failed-children', ':failed'), ('unsuccessful', ':unsuccessful')
        ),
        subs AS MATERIALIZED (
            SELECT k.dialect, k.namespace, k.queue, k.key, k.evidence, k.db, k.role, k.nbytes,
                k.key[length(base_of(k.namespace, k.queue)) + 2:length(k.key) - length(n.ending)] AS job_id
            FROM keys AS k
            JOIN endings AS n USING (role)
            WHERE k.dialect = 'bullmq' AND k.expired IS NOT TRUE
                AND starts_with(k.key, base_of(k.namespace, k.queue) || ':') AND ends_with(k.key, n.ending)
        ),
        recorded AS (
            SELECT j.dialect, j.namespace, j.queue, j.job_id, j.evidence, j.db
            FROM jobs AS j
            SEMI JOIN subs AS s USING (dialect, namespace, queue, job_id, evidence, db)
            WHERE j.has_record
        )
        SELECT s.dialect, s.namespace, s.queue, min(s.key) AS key, s.evidence, s.db, s.role, count(*) AS keys,
            min(s.job_id) AS example, sum(s.nbytes)::BIGINT AS nbytes, s.role AS _same, count_text(count(*),
                'key') AS _keys
        FROM subs AS s
        ANTI JOIN recorded AS r USING (dialect, namespace, queue, job_id, evidence, db)
        GROUP BY s.dialect, s.namespace, s.queue, s.evidence, s.db, s.role
    """
    message = "Queue {queue} has {_keys} of {role} whose job does not exist, for example of job {example}"
