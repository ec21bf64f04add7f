"""RL007."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, SOURCE, TARGET, Check


class ResultOfMissingChild(Check):
    """Parents keep results of children that are gone.

    What it finds
    Entries of `processed`, `failed` or `unsuccessful` that name a child without a record; one finding for each queue of
    parents, with the number of such entries.

    Why it matters
    It explains why a child that a parent knows cannot be looked up. Nothing is wrong.

    How it comes about
    Children are removed when they end (`removeOnComplete`, `removeOnFail`), their results stay with the parent.

    What to do next
    Nothing; keep children longer if you need them.

    False alarms
    It is information, and healthy queues show it all the time: it runs only where the policy enables it.

    References
    BullMQ 6.7.0, `removeOnComplete`.
    """

    id = "RL007"
    name = "result-of-missing-child"
    title = "Parents keep results of children that are gone"
    severity = "info"
    since = "0.1.0"
    versions = "BullMQ 1.16+"
    impact = "keep results of children that were removed"
    heals = "no: it is no fault"
    opt_in = True
    dialects = ("bullmq",)
    needs = {
        "jobs": (*JOB_PLACE, "has_record"),
        "relations": (*SOURCE, *TARGET, "dialect", "kind", "via", "evidence", "db"),
    }
    sql = """
        WITH links AS MATERIALIZED (
            SELECT DISTINCT dialect, source_namespace AS namespace, source_queue AS queue, source_id AS job_id,
                target_namespace, target_queue, target_id, evidence, db
            FROM relations
            WHERE kind = 'parent' AND via IN ('processed', 'failed', 'unsuccessful') AND dialect = 'bullmq'
        ),
        recorded AS (
            SELECT j.dialect, j.namespace, j.queue, j.job_id, j.evidence, j.db
            FROM jobs AS j
            SEMI JOIN links AS l USING (dialect, namespace, queue, job_id, evidence, db)
            WHERE j.has_record
        )
        SELECT l.dialect, l.target_namespace AS namespace, l.target_queue AS queue, l.evidence, l.db,
            count(*) AS entries, count(DISTINCT l.target_id) AS parents, min(l.target_id) AS example,
            count_text(count(*), 'removed child job') AS _kids,
            count_text(count(DISTINCT l.target_id), 'parent') AS _parents
        FROM links AS l
        ANTI JOIN recorded AS r USING (dialect, namespace, queue, job_id, evidence, db)
        GROUP BY l.dialect, l.target_namespace, l.target_queue, l.evidence, l.db
    """
    message = "Queue {queue} has {_parents} with results of {_kids}, for example {example}"
