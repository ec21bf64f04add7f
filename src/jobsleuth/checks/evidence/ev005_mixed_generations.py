"""EV005."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class MixedGenerations(Check):
    """One queue holds keys of several generations of its library.

    What it finds
    Bull's pause flag or limiter index beside keys that only BullMQ writes; Asynq: whole messages of before 0.18 beside
    task records, deadlines beside leases, backup keys of an interrupted migration.

    Why it matters
    Each release looks at its own keys: jobs under the others' are not seen, pauses are not heeded, active tasks of an
    older Asynq are never recovered.

    How it comes about
    An upgrade that is not complete, or was not drained; two libraries on one queue.

    What to do next
    Let the older release finish its work, then remove its keys. Tasks whose deadline is left in Asynq's `deadlines`
    must be put back by hand. Tasks that stand in a backup only (structure `backup`) are gone from their queue: run that
    release's `migrate` to its end, or enqueue them again (`jobsleuth export --lost` lists them).

    False alarms
    During a rolling upgrade.

    References
    hibiken/asynq#643, hibiken/asynqmon#127; Asynq's `migrate` command.
    """

    id = "EV005"
    name = "mixed-generations"
    title = "One queue holds keys of several generations of its library"
    severity = "warning"
    since = "0.1.0"
    versions = "all releases of Bull, BullMQ, Asynq"
    impact = "are shared by releases that do not understand each other's keys"
    heals = "when the upgrade is complete and leftovers are removed"
    basis = "derived"
    moving = False
    needs = {
        "keys": (*QUEUE_PLACE, "type", "expired", "role"),
    }
    sql = """
        WITH roles AS (
            SELECT dialect, namespace, queue, evidence, db, list_sort(list(DISTINCT role)) AS roles
            FROM (
                SELECT dialect, namespace, queue, evidence, db,
                    CASE WHEN role = 'limiter' AND type = 'hash' THEN 'limiter:index' ELSE role END AS role
                FROM keys
                WHERE queue IS NOT NULL AND dialect IN ('bullmq', 'asynq') AND expired IS NOT TRUE
            )
            GROUP BY dialect, namespace, queue, evidence, db
        ),
        judged AS (
            SELECT *,
                CASE
                    WHEN dialect = 'bullmq' THEN list_intersect(roles, ['meta-paused', 'limiter:index'])
                    ELSE list_filter(roles, lambda r: r = 'deadlines' OR r = 'backup' OR starts_with(r, 'messages_'))
                END AS old,
                CASE
                    WHEN dialect = 'bullmq' THEN list_intersect(roles, ['events', 'marker', 'prioritized',
                        'waiting-children'])
                    ELSE list_intersect(roles, ['lease', 'pending', 'job', 'group', 'groups'])
                END AS new
            FROM roles
        )
        SELECT dialect, namespace, queue, evidence, db, list_sort(old) AS old, list_sort(new) AS new,
            array_to_string(list_sort(old), ', ') AS _old,
            CASE
                WHEN len(new) = 0 THEN ''
                ELSE ' beside newer ones (' || array_to_string(list_sort(new), ', ') || ')'
            END AS _beside
        FROM judged
        WHERE (len(old) > 0 AND len(new) > 0 AND NOT (old = ['deadlines'] AND NOT list_contains(new, 'lease')))
            OR list_contains(old, 'backup')
    """
    message = "Queue {queue} holds keys of older releases ({_old}){_beside}"
