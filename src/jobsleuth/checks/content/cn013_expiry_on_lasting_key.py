"""CN013."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class ExpiryOnLastingKey(Check):
    """A key that must last has an expiry.

    What it finds
    A job's record or a queue's structure with a time to live. One finding for each queue and kind of key, for Asynq's
    task records one each.

    Why it matters
    At that moment Redis deletes the record or the whole structure, and the jobs in it are lost. For BullMQ, where some
    set an expiry on records on purpose, records are only a warning.

    How it comes about
    `EXPIRE` by hand or by a clean-up tool, `SET … EX` by other software, a restore with a time to live. Neither library
    sets one.

    What to do next
    `PERSIST` the key; find the writer.

    False alarms
    Expiries that an application sets on finished jobs on purpose.

    References
    Asynq 0.26.0 and BullMQ 6.7.0 scripts: only locks, limiters, deduplication keys, counters of days and registrations
    expire.
    """

    id = "CN013"
    name = "expiry-on-lasting-key"
    title = "A key that must last has an expiry"
    severity = "error"
    since = "0.1.0"
    versions = "all releases of Bull, BullMQ, Asynq"
    impact = "will vanish at a moment that nobody chose"
    heals = "no: at its expiry the key is gone"
    moving = False
    needs = {
        "keys": (*QUEUE_PLACE, "key", "expire_at", "expired", "role"),
    }
    sql = """
        WITH lasting AS (
            SELECT dialect, namespace, queue, key, evidence, db, role, expire_at,
                CASE WHEN dialect = 'asynq' AND role = 'job'
                    THEN key[length('asynq:{' || queue || '}:t:') + 1:] END AS job_id
            FROM keys
            WHERE expire_at IS NOT NULL AND expired IS NOT TRUE AND queue IS NOT NULL
                AND CASE WHEN dialect = 'asynq' THEN role IN ('job', 'pending', 'active', 'lease', 'deadlines',
                    'scheduled',
                        'retry', 'archived', 'completed', 'groups', 'group', 'aggregation_set', 'aggregation_sets')
                    ELSE dialect = 'bullmq' AND role IN ('job', 'wait', 'paused', 'active', 'delayed', 'prioritized',
                        'completed', 'failed', 'waiting-children', 'repeat', 'meta', 'id', 'scheduler') END
        )
        SELECT dialect, namespace, queue, job_id, min(key) AS key, evidence, db, role, count(*) AS keys,
            min(expire_at) AS expire_at, role AS _same,
            CASE WHEN dialect = 'bullmq' AND role = 'job' THEN 'warning' ELSE 'error' END AS severity,
            strftime(min(expire_at), '%Y-%m-%d %H:%M:%S') AS _when,
            CASE WHEN count(*) > 1 THEN ', and ' || (count(*) - 1) || ' more' ELSE '' END AS _more
        FROM lasting
        GROUP BY dialect, namespace, queue, job_id, evidence, db, role
    """
    message = "{key} ({role}) expires at {_when} UTC, though the library never lets it{_more}"
