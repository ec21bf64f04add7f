"""LV014."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class RateLimited(Check):
    """Ready jobs wait for a rate limit.

    What it finds
    A queue with ready jobs and nothing active whose limiter counts at least its limit (or was set by hand), and still
    lives.

    Why it matters
    It explains idle workers beside waiting jobs.

    How it comes about
    The queue's or the worker's `limiter`, or `rateLimit()` by hand.

    What to do next
    Nothing; `details.left_ms` tells how long it lasts. Remove the limit (`removeRateLimitKey`) if it was set by
    mistake.

    False alarms
    It is information. The worker's own limit is stored nowhere: without a limit of the queue only one set by hand is
    seen.

    References
    BullMQ 6.7.0, `Queue.rateLimit`.
    """

    id = "LV014"
    name = "rate-limited"
    title = "Ready jobs wait for a rate limit"
    severity = "info"
    since = "0.1.0"
    versions = "Bull 3.1+, BullMQ, all releases"
    impact = "wait for a rate limit, as they were told to"
    heals = "when the limit's window ends"
    basis = "derived"
    dialects = ("bullmq",)
    needs_time = True
    absence = False
    needs = {
        "membership": (*QUEUE_PLACE, "structure"),
        "queues": (*QUEUE_PLACE, "limits"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        WITH limited AS (
            SELECT dialect, namespace, queue, evidence, db, limits['limiter'] AS count,
                limits['limiter_ttl_ms'] AS left_ms,
                limits['max'] AS most, limits['limiter'] >= 9007199254740991 AS by_hand
            FROM queues
            WHERE dialect = 'bullmq' AND limits['limiter_ttl_ms'] > 0
                AND (limits['limiter'] >= 9007199254740991 OR limits['limiter'] >= limits['max'])
        ),
        tally AS (
            SELECT m.dialect, m.namespace, m.queue, m.evidence, m.db,
                count(*) FILTER (m.structure IN ('wait', 'prioritized')) AS ready,
                count(*) FILTER (m.structure = 'active') AS active
            FROM membership AS m
            SEMI JOIN limited AS l USING (dialect, namespace, queue, evidence, db)
            WHERE m.structure IN ('wait', 'prioritized', 'active')
            GROUP BY ALL
        )
        SELECT dialect, namespace, queue, evidence, db, t.ready, l.left_ms, l.most AS "limit", l.by_hand,
            make_timestamptz((e.as_of_ms + l.left_ms) * 1000) AS heals_at,
            count_text(t.ready, 'job') AS _jobs, duration_text(l.left_ms) AS _left,
            CASE WHEN l.by_hand THEN 'that was set by hand' ELSE 'of ' || l.most || ' starts' END AS _which
        FROM tally AS t
        JOIN limited AS l USING (dialect, namespace, queue, evidence, db)
        JOIN evidence AS e USING (evidence)
        WHERE t.ready > 0 AND t.active = 0
    """
    message = "Queue {queue} has {_jobs} that wait for a rate limit {_which}, for another {_left}"
