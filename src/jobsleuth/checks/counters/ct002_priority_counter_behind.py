"""CT002."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class PriorityCounterBehind(Check):
    """The tie-breaker of prioritized jobs is behind.

    What it finds
    The counter `pc` is missing or smaller than the largest tie-breaker in `prioritized`.

    Why it matters
    New jobs of a priority come before older ones of the same priority. Nothing is lost.

    How it comes about
    The counter was deleted or restored from an older copy.

    What to do next
    Nothing, or `SET` it above the largest.

    False alarms
    It is information.

    References
    BullMQ 4.0.0 `addPrioritizedJob` script.
    """

    id = "CT002"
    name = "priority-counter-behind"
    title = "The tie-breaker of prioritized jobs is behind"
    severity = "info"
    since = "0.1.0"
    versions = "BullMQ 4+"
    impact = "may run out of their turn among jobs of one priority"
    heals = "when the queue's prioritized jobs have run"
    basis = "derived"
    moving = False
    dialects = ("bullmq",)
    needs = {
        "membership": (*QUEUE_PLACE, "structure", "sequence"),
        "queues": (*QUEUE_PLACE, "counters"),
    }
    sql = """
        WITH ranked AS (
            SELECT dialect, namespace, queue, evidence, db, max("sequence") AS largest
            FROM membership
            WHERE dialect = 'bullmq' AND structure = 'prioritized'
            GROUP BY dialect, namespace, queue, evidence, db
        )
        SELECT dialect, namespace, queue, evidence, db, q.counters['pc'] AS counter, r.largest,
            coalesce('stands at ' || q.counters['pc'], 'is missing') AS _counter
        FROM ranked AS r
        JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
        WHERE coalesce(q.counters['pc'], 0) < r.largest
    """
    message = "The tie-breaker of prioritized jobs of queue {queue} {_counter}, but {largest} is in use"
