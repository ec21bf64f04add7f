"""CT007."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class CountersDisagree(Check):
    """A queue's counters contradict each other.

    What it finds
    More failed than processed tasks, in all or on a day; or more on the last 90 days together than in all; or a counter
    of a day that never expires.

    Why it matters
    Rates and totals of dashboards and alerts built on them are wrong.

    How it comes about
    Counters reset, restored or set by hand; the queue was removed and made again. After an upgrade to 0.20 the totals
    start at zero while days go back further: that is expected.

    What to do next
    Trust the days, or reset the totals.

    False alarms
    For 90 days after an upgrade from before 0.20.

    References
    Asynq 0.20.0 changelog.
    """

    id = "CT007"
    name = "counters-disagree"
    title = "A queue's counters contradict each other"
    severity = "warning"
    since = "0.1.0"
    versions = "Asynq 0.12+"
    impact = "have counters that cannot all be right: dashboards show wrong rates"
    heals = "no: counters only grow"
    basis = "derived"
    moving = False
    dialects = ("asynq",)
    needs = {
        "keys": (*QUEUE_PLACE, "key", "expire_at", "role"),
        "queues": (*QUEUE_PLACE, "counters"),
    }
    sql = """
        WITH flat AS (
            SELECT dialect, namespace, queue, evidence, db, unnest(map_entries(counters)) AS entry
            FROM queues
            WHERE dialect = 'asynq' AND counters IS NOT NULL
        ),
        sums AS (
            SELECT dialect, namespace, queue, evidence, db,
                max(entry.value) FILTER (entry.key = 'processed') AS processed,
                max(entry.value) FILTER (entry.key = 'failed') AS failed,
                coalesce(sum(entry.value) FILTER (starts_with(entry.key, 'processed:')), 0)::BIGINT AS processed_by_day,
                coalesce(sum(entry.value) FILTER (starts_with(entry.key, 'failed:')), 0)::BIGINT AS failed_by_day
            FROM flat
            GROUP BY ALL
        ),
        days AS (
            SELECT dialect, namespace, queue, evidence, db, min(split_part(entry.key, ':', 2)) AS "day"
            FROM (
                SELECT *, split_part(entry.key, ':', 2) AS "on" FROM flat WHERE contains(entry.key, ':')
            )
            GROUP BY dialect, namespace, queue, evidence, db, "on"
            HAVING coalesce(max(entry.value) FILTER (starts_with(entry.key, 'failed:')), 0)
                > coalesce(max(entry.value) FILTER (starts_with(entry.key, 'processed:')), 0)
        ),
        lasting AS (
            SELECT dialect, namespace, queue, evidence, db, min(key) AS key
            FROM keys
            WHERE dialect = 'asynq' AND role IN ('processed_day',
                'failed_day') AND expire_at IS NULL AND queue IS NOT NULL
            GROUP BY dialect, namespace, queue, evidence, db
        ),
        odd AS (
            SELECT dialect, namespace, queue, evidence, db, NULL AS key,
                failed || ' failed, but ' || coalesce(processed, 0) || ' processed in all' AS what
            FROM sums
            WHERE failed > coalesce(processed, 0)
            UNION ALL
            SELECT dialect, namespace, queue, evidence, db, NULL,
                processed_by_day || ' processed by days, but ' || processed || ' in all'
            FROM sums
            WHERE processed_by_day > processed
            UNION ALL
            SELECT dialect, namespace, queue, evidence, db, NULL, 'more failed than processed on ' || min("day")
            FROM days
            GROUP BY dialect, namespace, queue, evidence, db
            UNION ALL
            SELECT dialect, namespace, queue, evidence, db, key, 'a counter of a day that never expires'
            FROM lasting
        )
        SELECT *, regexp_replace(what, '[0-9]+', '#', 'g') AS _same
        FROM odd
    """
    message = "Counters of queue {queue} contradict each other: {what}"
