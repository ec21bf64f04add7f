"""UQ005."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, SOURCE, Check


class ParkedJobWithoutOwner(Check):
    """A parked job waits for an owner that is not active.

    What it finds
    A key `dn:<id>`, which holds the latest job added while the owner of that deduplication id was active
    (`keepLastIfActive`), where the owner is not active or there is none.

    Why it matters
    The parked job is added when its owner ends. If the owner is gone, that moment never comes: the latest version of
    the work is lost silently.

    How it comes about
    The owner was deleted, evicted, or recovered from a dead worker and removed.

    What to do next
    Read the parked data from the key and add it as a job of its own; then delete the key.

    False alarms
    An owner that a stalled check has just put back to `wait` will take the parked job along when it ends.

    References
    BullMQ 5.72.0, deduplication with `keepLastIfActive`.
    """

    id = "UQ005"
    name = "parked-job-without-owner"
    title = "A parked job waits for an owner that is not active"
    severity = "warning"
    since = "0.1.0"
    versions = "BullMQ 5.72+"
    impact = "hold a job that will not appear by itself"
    heals = "no; from 6.3.10 on the next add may discard it"
    basis = "derived"
    dialects = ("bullmq",)
    needs = {
        "keys": (*QUEUE_PLACE, "key", "expired", "role"),
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
        active AS (
            SELECT DISTINCT dialect, namespace, queue, job_id, evidence, db
            FROM membership
            WHERE structure = 'active' AND dialect = 'bullmq'
        )
        SELECT dialect, namespace, queue, p.key, evidence, db, p.source_id AS deduplication_id, o.owner,
            CASE WHEN o.owner IS NULL THEN 'nobody owns that id'
                ELSE 'its owner ' || o.owner || ' is not active' END AS _why
        FROM parked AS p
        LEFT JOIN owners AS o USING (dialect, namespace, queue, source_id, evidence, db)
        LEFT JOIN active AS a
            ON a.dialect = p.dialect AND a.namespace = p.namespace AND a.queue = p.queue AND a.job_id = o.owner
                AND a.evidence = p.evidence AND a.db = p.db
        WHERE a.job_id IS NULL
    """
    message = "A job of queue {queue} is parked under deduplication id {deduplication_id}, but {_why}"
