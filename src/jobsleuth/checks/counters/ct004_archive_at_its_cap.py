"""CT004."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class ArchiveAtItsCap(Check):
    """A queue's archive is full.

    What it finds
    A zset `archived` with `cap` (9,999) ids: a warning. More than that cannot be left by the library: an error.

    Why it matters
    The archive shows the latest failures only; the older ones were discarded, with their payloads from 0.25 on, without
    them before (then their records are left, MB002).

    How it comes about
    Many tasks that fail for good, and nobody who clears them.

    What to do next
    Save what you need and delete archived tasks; find out why so many fail.

    False alarms
    None known. The cap is 10,000 in name and one less in fact.

    References
    hibiken/asynq#730, hibiken/asynq#803; pull request 1171 there.
    """

    id = "CT004"
    name = "archive-at-its-cap"
    title = "A queue's archive is full"
    severity = "warning"
    since = "0.1.0"
    versions = "Asynq 0.14+"
    impact = "were discarded: older failures than those shown are gone"
    heals = "no: each archived task displaces the oldest"
    basis = "derived"
    dialects = ("asynq",)
    parameters = {"cap": 9_999}
    absence = False
    needs = {
        "membership": (*QUEUE_PLACE, "structure", "key"),
    }
    sql = """
        SELECT dialect, namespace, queue, min(key) AS key, evidence, db, count(*) AS tasks,
            CASE WHEN count(*) > $cap THEN 'error' ELSE 'warning' END AS severity,
            format('{:,}', count(*)) AS _tasks,
            CASE WHEN count(*) > $cap THEN 'more than the library keeps' ELSE 'as many as the library keeps' END
                AS _what
        FROM membership
        WHERE dialect = 'asynq' AND structure = 'archived'
        GROUP BY dialect, namespace, queue, evidence, db
        HAVING count(*) >= $cap
    """
    message = "The archive of queue {queue} holds {_tasks} tasks, {_what}: older failures were discarded"
