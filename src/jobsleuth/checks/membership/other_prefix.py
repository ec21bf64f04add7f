"""The part that MB001 and MB013 share: records of ids that stand under another prefix."""

from __future__ import annotations

OTHER_PREFIX = """
    astray AS MATERIALIZED (
        SELECT namespace, queue, job_id, evidence, db, split_part(job_id, ':', -1) AS tail
        FROM jobs
        WHERE dialect = 'bullmq' AND has_record = FALSE
    ),
    claimed AS (
        -- A record that its own queue names belongs there: two queues of one name often have the same numbers.
        SELECT l.namespace, l.queue, l.job_id, l.evidence, l.db, min(j.key) AS record_key
        FROM (
            SELECT namespace, queue, job_id, key, evidence, db
            FROM jobs
            WHERE dialect = 'bullmq' AND has_record AND state IN ('unknown', 'stuck')
        ) AS j
        JOIN astray AS l
            ON l.queue = j.queue AND l.job_id = j.job_id AND l.evidence = j.evidence AND l.db = j.db
                AND l.namespace <> j.namespace
        GROUP BY ALL
    ),
    unclaimed AS (
        SELECT l.namespace, l.queue, l.job_id, l.evidence, l.db, min(k.key) AS record_key
        FROM (
            SELECT key, evidence, db, split_part(key, ':', -1) AS tail
            FROM keys
            WHERE dialect IS NULL AND type = 'hash' AND expired IS NOT TRUE
        ) AS k
        JOIN astray AS l USING (tail, evidence, db)
        WHERE k.key = l.queue || ':' || l.job_id OR ends_with(k.key, ':' || l.queue || ':' || l.job_id)
        GROUP BY ALL
    ),
    elsewhere AS (
        SELECT 'bullmq' AS dialect, namespace, queue, job_id, evidence, db,
            coalesce(c.record_key, u.record_key) AS record_key
        FROM claimed AS c
        FULL JOIN unclaimed AS u USING (namespace, queue, job_id, evidence, db)
    )
"""
"""CTEs that end in `elsewhere`: ids of BullMQ without a record, and the key of one that lies under another prefix."""

NEEDS = {
    "keys": ("evidence", "db", "key", "type", "expired", "dialect"),
    "jobs": ("dialect", "namespace", "queue", "job_id", "evidence", "db", "has_record", "state", "key"),
}
"""What the CTEs read."""
