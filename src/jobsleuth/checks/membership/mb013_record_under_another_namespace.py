"""MB013."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class RecordUnderAnotherNamespace(Check):
    """An id stands in one namespace, its record in another.

    What it finds
    An id that a structure names without a record there, while a record of the same queue name and id lies under another
    prefix.

    Why it matters
    Workers take the id and fail with "missing key for job"; the record is never used. Producers and workers do not
    agree on the prefix.

    How it comes about
    A prefix that is applied twice, or by one part of a framework only.

    What to do next
    Compare the prefix of the queue with that of its workers and flow producers. Then move the ids to the queue that has
    the records.

    False alarms
    Two queues of one name that use the same custom ids may both be right, if one of the ids lost its record for another
    reason.

    References
    nestjs/bull#2584.
    """

    id = "MB013"
    name = "record-under-another-namespace"
    title = "An id stands in one namespace, its record in another"
    severity = "error"
    since = "0.1.0"
    versions = "Bull, BullMQ, all releases"
    impact = "are filed under one prefix and stored under another: workers find no record"
    heals = "no: each prefix is a queue of its own"
    basis = "derived"
    dialects = ("bullmq",)
    needs = {
        "keys": ("evidence", "db", "key", "type", "expired", "dialect"),
        "jobs": (*JOB_PLACE, "has_record", "key"),
    }
    sql = """
        WITH lost AS MATERIALIZED (
            SELECT dialect, namespace, queue, job_id, evidence, db, split_part(job_id, ':', -1) AS tail
            FROM jobs
            WHERE dialect = 'bullmq' AND has_record = FALSE
        ),
        claimed AS (
            SELECT l.namespace, l.queue, l.job_id, l.evidence, l.db, min(j.key) AS found
            FROM (SELECT namespace, queue, job_id, key, evidence,
                db FROM jobs WHERE dialect = 'bullmq' AND has_record) AS j
            JOIN lost AS l
                ON l.queue = j.queue AND l.job_id = j.job_id AND l.evidence = j.evidence AND l.db = j.db
                    AND l.namespace <> j.namespace
            GROUP BY ALL
        ),
        unclaimed AS (
            SELECT l.namespace, l.queue, l.job_id, l.evidence, l.db, min(k.key) AS found
            FROM (
                SELECT key, evidence, db, split_part(key, ':', -1) AS tail
                FROM keys
                WHERE dialect IS NULL AND type = 'hash' AND expired IS NOT TRUE
            ) AS k
            JOIN lost AS l USING (tail, evidence, db)
            WHERE k.key = l.queue || ':' || l.job_id OR ends_with(k.key, ':' || l.queue || ':' || l.job_id)
            GROUP BY ALL
        )
        SELECT l.dialect, l.namespace, l.queue, l.job_id, l.evidence, l.db, base_of(l.namespace,
            l.queue) AS listed_under,
            coalesce(c.found, u.found) AS record_key
        FROM lost AS l
        LEFT JOIN claimed AS c USING (namespace, queue, job_id, evidence, db)
        LEFT JOIN unclaimed AS u USING (namespace, queue, job_id, evidence, db)
        WHERE coalesce(c.found, u.found) IS NOT NULL
    """
    message = "Job {job_id} is filed under {listed_under}, but its record is {record_key}: two prefixes for one queue"
