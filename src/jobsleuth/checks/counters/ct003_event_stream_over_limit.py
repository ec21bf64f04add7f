"""CT003."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class EventStreamOverLimit(Check):
    """A queue's event stream is far longer than its limit.

    What it finds
    An `events` stream with more than its limit (`opts.maxLenEvents`, else `default_cap`), a tenth and `slack_entries`
    more. Trimming is approximate, so some overshoot is normal.

    Why it matters
    Streams of this kind grow to gigabytes and are what fills the memory, while jobs are few.

    How it comes about
    Settings lost or written by a release that does not trim; a very large limit; a queue fed only by flows before
    4.15.1.

    What to do next
    Set `streams.events.maxLen` and open the queue once, or trim (`Queue.trimEvents`).

    False alarms
    Limits that are meant to be large are taken from the queue's settings.

    References
    taskforcesh/bullmq#1070.
    """

    id = "CT003"
    name = "event-stream-over-limit"
    title = "A queue's event stream is far longer than its limit"
    severity = "warning"
    since = "0.1.0"
    versions = "BullMQ, all releases"
    impact = "keep events far beyond their limit and take memory"
    heals = "when a release that trims writes the next event"
    moving = False
    dialects = ("bullmq",)
    parameters = {"default_cap": 10_000, "slack_entries": 1_000}
    needs = {
        "keys": (*QUEUE_PLACE, "key", "type", "expired", "nbytes", "elements", "role"),
        "queues": (*QUEUE_PLACE, "limits"),
        "events": ("at",),
    }
    sql = """
        SELECT dialect, namespace, queue, k.key, evidence, db, k.elements, k.nbytes,
            q.limits['max_len_events'] AS "limit",
            o.oldest_at, coalesce('instead of ' || q.limits['max_len_events'], 'and no limit') AS _limit,
            format('{:,}', k.elements) AS _entries, format('{:,}', k.nbytes) AS _bytes
        FROM (
            SELECT dialect, namespace, queue, key, evidence, db, elements::BIGINT AS elements, nbytes::BIGINT AS nbytes
            FROM keys
            WHERE dialect = 'bullmq' AND role = 'events' AND type = 'stream' AND expired IS NOT TRUE
        ) AS k
        JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
        LEFT JOIN (
            SELECT dialect, namespace, queue, evidence, db, min("at") AS oldest_at FROM events GROUP BY ALL
        ) AS o USING (dialect, namespace, queue, evidence, db)
        WHERE k.elements > coalesce(q.limits['max_len_events'], $default_cap) * 1.1 + $slack_entries
    """
    message = "The events of queue {queue} are {_entries} entries {_limit}, {_bytes} bytes in the snapshot"
