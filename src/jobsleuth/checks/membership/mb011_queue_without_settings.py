"""MB011."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class QueueWithoutSettings(Check):
    """A queue has jobs, but its settings are gone.

    What it finds
    A queue with jobs and without the hash `meta`, of which something else shows that it is BullMQ 5 or later (the key
    `marker`, fields of jobs): the release itself stands in `meta`.

    Why it matters
    A pause, a global concurrency or rate limit that was set is no longer in force; the event stream has no cap.

    How it comes about
    The key was deleted or evicted. `Queue.obliterate()` takes it, and leaves parents that wait for children: it does
    not look into `waiting-children`.

    What to do next
    Set pause and limits again if you use them.

    False alarms
    It is information. Up to 4.15.0 queues that only flows feed have none.

    References
    BullMQ 4.15.1 changelog; BullMQ 6.7.0, `obliterate-2.lua`.
    """

    id = "MB011"
    name = "queue-without-settings"
    title = "A queue has jobs, but its settings are gone"
    severity = "info"
    since = "0.1.0"
    versions = "BullMQ 4.15.1+"
    impact = "have lost their settings: pause flag, limits, event cap"
    heals = "when a Queue object of the library opens the queue"
    basis = "derived"
    dialects = ("bullmq",)
    needs = {
        "keys": (*QUEUE_PLACE, "expired", "role"),
        "queues": (*QUEUE_PLACE, "layout", "counts"),
    }
    sql = """
        WITH peopled AS (
            SELECT dialect, namespace, queue, evidence, db, list_sum(map_values(counts)) AS jobs
            FROM queues
            WHERE dialect = 'bullmq' AND major_of(layout) >= 5 AND cardinality(counts) > 0
        ),
        settled AS (
            SELECT DISTINCT dialect, namespace, queue, evidence,
                db FROM keys WHERE role = 'meta' AND expired IS NOT TRUE
        )
        SELECT p.* REPLACE (p.jobs::BIGINT AS jobs), count_text(p.jobs, 'job') AS _jobs
        FROM peopled AS p
        ANTI JOIN settled AS s USING (dialect, namespace, queue, evidence, db)
    """
    message = "Queue {queue} has {_jobs}, but no settings: a pause or limit that was set is gone"
