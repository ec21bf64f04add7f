"""MB015."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class UnregisteredQueue(Check):
    """A queue has tasks, but is not registered.

    What it finds
    A queue with task structures or task records whose name is not in `asynq:queues`.

    Why it matters
    Every tool and every listing starts from that set: the queue, its backlog and its failures are seen by nobody,
    though servers that are configured for it go on.

    How it comes about
    The queue was removed while producers ran: from 0.25 on a client registers a queue once and never again. The set was
    deleted or edited.

    What to do next
    `SADD asynq:queues` with the name. Restart producers after removing a queue.

    False alarms
    Without any registry in the snapshot (a shard of a cluster) the finding is a warning and only possible.

    References
    hibiken/asynq#1036.
    """

    id = "MB015"
    name = "unregistered-queue"
    title = "A queue has tasks, but is not registered"
    severity = "error"
    since = "0.1.0"
    versions = "Asynq 0.12+"
    impact = "are invisible to every tool, though servers still process them"
    heals = "up to 0.24 the next enqueue registers it again; from 0.25 on not before the producer restarts"
    basis = "derived"
    dialects = ("asynq",)
    needs = {
        "keys": (*QUEUE_PLACE, "expired", "role"),
        "queues": (*QUEUE_PLACE, "counts", "registered"),
    }
    sql = """
        WITH peopled AS (
            SELECT dialect, namespace, queue, evidence, db, list_sort(list(DISTINCT role)) AS roles
            FROM keys
            WHERE dialect = 'asynq' AND expired IS NOT TRUE
                AND role IN ('pending', 'active', 'lease', 'scheduled', 'retry', 'archived', 'group',
                    'aggregation_set', 'job')
            GROUP BY dialect, namespace, queue, evidence, db
        )
        SELECT dialect, namespace, queue, evidence, db, coalesce(list_sum(map_values(q.counts)), 0)::BIGINT AS tasks,
            p.roles,
            CASE WHEN q.registered IS NULL THEN 'warning' ELSE 'error' END AS severity,
            CASE WHEN q.registered IS NULL THEN 'possible' ELSE 'certain' END AS certainty,
            count_text(coalesce(list_sum(map_values(q.counts)), 0), 'task') AS _tasks
        FROM peopled AS p
        JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
        WHERE q.registered IS NOT TRUE
            AND list_has_any(p.roles, ['pending', 'active', 'lease', 'scheduled', 'retry', 'archived'])
    """
    message = "Queue {queue} with {_tasks} is not registered in asynq:queues: no tool shows it"
