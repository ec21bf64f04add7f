"""UQ005."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, SOURCE, Check


class ParkedJobWithoutOwner(Check):
    """A parked job waits for an owner that will not end.

    What it finds
    A key `dn:<id>`, which holds the latest job added while the owner of that deduplication id was active
    (`keepLastIfActive`), where there is no owner, or the owner has no record or stands in no structure of unfinished
    jobs.

    Why it matters
    The parked job is added when its owner ends. If the owner is gone, that moment never comes: the latest version of
    the work is lost silently.

    How it comes about
    The owner was deleted, evicted, or recovered from a dead worker and removed.

    What to do next
    Read the parked data from the key and add it as a job of its own; then delete the key.

    False alarms
    None known. An owner that waits for its next attempt, or that a stalled check has put back to `wait`, takes the
    parked job along when it ends, and is no finding.

    References
    BullMQ 5.72.0, deduplication with `keepLastIfActive`.
    """

    id = "UQ005"
    name = "parked-job-without-owner"
    title = "A parked job waits for an owner that will not end"
    severity = "warning"
    since = "0.1.0"
    versions = "BullMQ 5.72+"
    impact = "hold a job that will not appear by itself"
    heals = "no; from 6.3.10 on the next add may discard it"
    basis = "derived"
    dialects = ("bullmq",)
    needs = {
        "keys": (*QUEUE_PLACE, "key", "expired", "role"),
        "jobs": (*JOB_PLACE, "has_record"),
        "membership": (*JOB_PLACE, "structure"),
        "relations": (*SOURCE, "dialect", "kind", "target_id", "evidence", "db"),
    }
    sql = """
        WITH parked AS MATERIALIZED (
            SELECT dialect, namespace, queue, key, evidence, db,
                key[length(base_of(namespace, queue)) + length(':dn:') + 1:] AS source_id
            FROM keys
            WHERE role = 'dedup-next' AND expired IS NOT TRUE AND starts_with(key, base_of(namespace, queue) || ':dn:')
        ),
        owners AS (
            SELECT r.dialect, r.source_namespace AS namespace, r.source_queue AS queue, r.source_id,
                r.target_id AS owner,
                r.evidence, r.db
            FROM relations AS r
            WHERE r.kind = 'deduplication'
        ),
        unfinished AS (
            -- An owner whose attempt failed keeps its id and what is parked under it until its final attempt.
            SELECT DISTINCT m.dialect, m.namespace, m.queue, m.job_id, m.evidence, m.db
            FROM membership AS m
            SEMI JOIN owners AS o
                ON o.dialect = m.dialect AND o.namespace = m.namespace AND o.queue = m.queue AND o.owner = m.job_id
                    AND o.evidence = m.evidence AND o.db = m.db
            SEMI JOIN jobs AS j
                ON j.dialect = m.dialect AND j.namespace = m.namespace AND j.queue = m.queue AND j.job_id = m.job_id
                    AND j.evidence = m.evidence AND j.db = m.db AND j.has_record
            WHERE m.dialect = 'bullmq'
                AND m.structure IN ('wait', 'paused', 'active', 'delayed', 'prioritized', 'waiting-children')
        )
        SELECT dialect, namespace, queue, p.key, evidence, db, p.source_id AS deduplication_id, o.owner,
            CASE WHEN o.owner IS NULL THEN 'nobody owns that id'
                ELSE 'its owner ' || o.owner || ' will not end' END AS _why
        FROM parked AS p
        LEFT JOIN owners AS o USING (dialect, namespace, queue, source_id, evidence, db)
        LEFT JOIN unfinished AS u
            ON u.dialect = p.dialect AND u.namespace = p.namespace AND u.queue = p.queue AND u.job_id = o.owner
                AND u.evidence = p.evidence AND u.db = p.db
        WHERE u.job_id IS NULL
    """
    message = "A job of queue {queue} is parked under deduplication id {deduplication_id}, but {_why}"
