"""MB008."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class LeftoverPriorityIndex(Check):
    """An index of priorities is left over from older releases.

    What it finds
    The zset `priority` of Bull and BullMQ 1 to 3 in a queue that BullMQ 4 or later has used.

    Why it matters
    Nobody reads it, it only takes memory. It tells that the queue was upgraded while prioritized jobs waited; those
    stay in `wait`.

    How it comes about
    An upgrade from 3.x to 4.x.

    What to do next
    Delete the key when no release before 4 uses the queue any more.

    False alarms
    It is information. During a rolling upgrade the index is still in use.

    References
    BullMQ 4.0.0 changelog.
    """

    id = "MB008"
    name = "leftover-priority-index"
    title = "An index of priorities is left over from older releases"
    severity = "info"
    since = "0.1.0"
    versions = "BullMQ 4+"
    impact = "take memory and mean nothing to this release"
    heals = "no: nothing reads or deletes it"
    dialects = ("bullmq",)
    absence = False
    needs = {
        "keys": (*QUEUE_PLACE, "key", "expired", "elements", "role"),
        "queues": (*QUEUE_PLACE, "layout"),
    }
    sql = """
        SELECT dialect, namespace, queue, k.key, evidence, db, k.elements, count_text(k.elements, 'id') AS _ids
        FROM (
            SELECT dialect, namespace, queue, key, evidence, db, elements
            FROM keys
            WHERE role = 'priority' AND dialect = 'bullmq' AND expired IS NOT TRUE
        ) AS k
        JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
        WHERE major_of(q.layout) >= 4
    """
    message = "{key} with {_ids} is left over from BullMQ 3 or older"
