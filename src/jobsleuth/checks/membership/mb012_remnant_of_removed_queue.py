"""MB012."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class RemnantOfRemovedQueue(Check):
    """Keys are left of queues that were removed.

    What it finds
    BullMQ and Bull: queues without `id` and `meta` of which other keys are left, and queues of which only the counter
    `id` is left (one finding for each prefix). Asynq: a queue that is not registered and has no pending, active,
    scheduled, retry or archived tasks, but completed ones, groups, counters, a pause or locks.

    Why it matters
    Mostly memory. In Asynq a queue that is created again inherits the pause and the counts, so it is a warning there.

    How it comes about
    `obliterate` leaves parents, their children's keys and limiters; short-lived queues leave their counter; Asynq's
    RemoveQueue leaves completed tasks, groups, locks and counters.

    What to do next
    Delete the keys if the queue will not be used again. In Asynq, look for `paused` before the name is used again.

    False alarms
    It is information for BullMQ. A counter alone is taken for a queue's only under the prefix `bull`. In a cluster the
    registry of Asynq may be in another shard's snapshot: without any registry this check says nothing.

    References
    OptimalBits/bull#2631, hibiken/asynq#508, hibiken/asynq#1088.
    """

    id = "MB012"
    name = "remnant-of-removed-queue"
    title = "Keys are left of queues that were removed"
    severity = "info"
    since = "0.1.0"
    versions = "all releases of Bull, BullMQ, Asynq"
    impact = "are what is left of a queue that was removed"
    heals = "no: but for counters with an expiry nothing removes them"
    basis = "derived"
    needs = {
        "keys": (*QUEUE_PLACE, "key", "type", "expired", "role"),
        "queues": (*QUEUE_PLACE, "registered"),
    }
    sql = """
        WITH roles AS MATERIALIZED (
            SELECT dialect, namespace, queue, evidence, db, list_sort(list(DISTINCT role)) AS roles, count(*) AS keys,
                min(key) AS key
            FROM keys
            WHERE queue IS NOT NULL AND dialect IN ('bullmq', 'asynq') AND expired IS NOT TRUE
            GROUP BY ALL
        ),
        asynq_left AS (
            SELECT dialect, namespace, queue, evidence, db, r.key, r.keys, array_to_string(r.roles, ', ') AS what,
                'warning' AS severity, 1 AS queues, queue AS example
            FROM roles AS r
            JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
            WHERE dialect = 'asynq' AND q.registered = FALSE
                AND NOT list_has_any(r.roles, ['pending', 'active', 'scheduled', 'retry', 'archived', 'lease'])
        ),
        bullmq_left AS (
            SELECT dialect, namespace, queue, evidence, db, key, keys, array_to_string(roles, ', ') AS what,
                'info' AS severity, 1 AS queues, queue AS example
            FROM roles
            WHERE dialect = 'bullmq' AND NOT list_has_any(roles, ['id', 'meta', 'meta-paused', 'wait', 'active',
                'delayed',
                'completed', 'failed', 'prioritized', 'paused', 'job'])
        ),
        counters AS (
            SELECT namespace, queue, key, evidence, db FROM roles WHERE dialect = 'bullmq' AND roles = ['id']
            UNION ALL
            -- One counter makes no queue that the dialect would claim; under the library's own prefix it was one.
            SELECT name.prefix, name.queue, key, evidence, db
            FROM (
                SELECT key, evidence, db,
                    regexp_extract(key, '^(bull|\\{bull\\}):(.+):id$', ['prefix', 'queue']) AS name
                FROM keys
                WHERE dialect IS NULL AND type = 'string' AND expired IS NOT TRUE AND ends_with(key, ':id')
            )
            WHERE name.prefix <> ''
        ),
        counters_left AS (
            SELECT 'bullmq' AS dialect, namespace, NULL AS queue, evidence, db, min(key) AS key, count(*) AS keys,
                'id' AS what, 'info' AS severity, count(*) AS queues, min(queue) AS example
            FROM counters
            GROUP BY namespace, evidence, db
        )
        SELECT *, 'left' AS _same, count_text(keys, 'key') || ' (' || what || ')' AS _keys,
            count_text(queues, 'queue') AS _queues
        FROM (
            SELECT * FROM asynq_left UNION ALL SELECT * FROM bullmq_left UNION ALL SELECT * FROM counters_left
        )
    """
    message = "Removed, it seems: {_queues} of {namespace}, such as {example}; left: {_keys}"
