"""MB014."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class RegisteredQueueWithoutData(Check):
    """A queue is registered, but nothing of it is there.

    What it finds
    A name in `asynq:queues` without any key of that queue.

    Why it matters
    A queue in use leaves counters for 90 days. Without them its data was lost, flushed or left in another database, or
    the queue was registered and never used.

    How it comes about
    Data loss or a flush of part of the keys; a stop of more than 90 days; a registration whose first task was never
    added.

    What to do next
    Ask whether tasks are missed. If not, remove the queue.

    False alarms
    A queue that was registered a moment before the snapshot has no task yet: the finding is only possible.

    References
    hibiken/asynq#650.
    """

    id = "MB014"
    name = "registered-queue-without-data"
    title = "A queue is registered, but nothing of it is there"
    severity = "warning"
    since = "0.1.0"
    versions = "Asynq 0.12+"
    impact = "are registered and have no data at all"
    heals = "no: the registration stays until the queue is removed"
    basis = "derived"
    dialects = ("asynq",)
    needs = {
        "keys": (*QUEUE_PLACE, "expired"),
        "queues": (*QUEUE_PLACE, "counts", "registered"),
    }
    sql = """
        SELECT q.dialect, q.namespace, q.queue, q.evidence, q.db, 'possible' AS certainty
        FROM queues AS q
        ANTI JOIN (
            SELECT DISTINCT dialect, namespace, queue, evidence,
                db FROM keys WHERE queue IS NOT NULL AND expired IS NOT TRUE
        ) AS k USING (dialect, namespace, queue, evidence, db)
        WHERE q.dialect = 'asynq' AND q.registered AND coalesce(list_sum(map_values(q.counts)), 0) = 0
    """
    message = "Queue {queue} is registered, but has no data: no tasks, no counters"
