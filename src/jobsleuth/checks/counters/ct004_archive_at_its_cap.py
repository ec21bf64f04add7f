"""CT004."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class ArchiveAtItsCap(Check):
    """A queue's archive is full.

    What it finds
    A zset `archived` with `cap` (9,999) ids: a warning. More than that cannot be left by the library: an error.

    Why it matters
    The archive names the latest failures only. From 0.25 on older ones are deleted with their payloads; before, their
    records are left where nothing shows them (MB002), and `details.hidden` counts them.

    How it comes about
    Many tasks that fail for good, and nobody who clears them.

    What to do next
    Save what you need and delete archived tasks; find out why so many fail.

    False alarms
    Exactly so many tasks may have failed, and none more: then nothing was deleted yet. The cap is 10,000 in name and
    one less in fact.

    References
    hibiken/asynq#730, hibiken/asynq#803; pull request 1171 there.
    """

    id = "CT004"
    name = "archive-at-its-cap"
    title = "A queue's archive is full"
    severity = "warning"
    since = "0.1.0"
    versions = "Asynq 0.14+"
    impact = "keep no more failures: each new one pushes the oldest out"
    heals = "no: each archived task displaces the oldest"
    basis = "derived"
    dialects = ("asynq",)
    parameters = {"cap": 9_999}
    absence = False
    needs = {
        "membership": (*QUEUE_PLACE, "structure", "key"),
        "jobs": (*QUEUE_PLACE, "state", "claimed_state", "has_record"),
    }
    sql = """
        WITH archives AS (
            SELECT dialect, namespace, queue, min(key) AS key, evidence, db, count(*) AS tasks
            FROM membership
            WHERE dialect = 'asynq' AND structure = 'archived'
            GROUP BY dialect, namespace, queue, evidence, db
            HAVING count(*) >= $cap
        ),
        hidden AS (
            SELECT j.dialect, j.namespace, j.queue, j.evidence, j.db, count(*) AS hidden
            FROM (
                SELECT dialect, namespace, queue, evidence, db
                FROM jobs
                WHERE dialect = 'asynq' AND state = 'unknown' AND claimed_state = 'archived' AND has_record
            ) AS j
            GROUP BY ALL
        )
        SELECT dialect, namespace, queue, a.key, evidence, db, a.tasks, coalesce(h.hidden, 0) AS hidden,
            CASE WHEN a.tasks > $cap THEN 'error' ELSE 'warning' END AS severity,
            format('{:,}', a.tasks) AS _tasks,
            CASE
                WHEN a.tasks > $cap THEN 'more than the library keeps: something else put some there'
                WHEN h.hidden > 0 THEN 'as many as the library keeps; ' || count_text(h.hidden, 'older one')
                    || ' it no longer names, but did not delete'
                ELSE 'as many as the library keeps: older failures may have been deleted'
            END AS _what
        FROM archives AS a
        LEFT JOIN hidden AS h USING (dialect, namespace, queue, evidence, db)
    """
    message = "The archive of queue {queue} holds {_tasks} tasks, {_what}"
