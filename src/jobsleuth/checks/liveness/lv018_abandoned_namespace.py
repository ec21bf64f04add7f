"""LV018."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class AbandonedNamespace(Check):
    """A queue was left behind under another prefix.

    What it finds
    A queue with unfinished jobs and no activity for `abandoned_after_ms` (24 h), while a queue of the same name under
    another prefix was active later.

    Why it matters
    A prefix was changed and the unfinished jobs stayed under the old one: nobody will run them.

    How it comes about
    A new prefix, often a hash tag for a cluster; an environment that was renamed.

    What to do next
    Move the jobs (add them again under the new prefix) or decide that they are not wanted, and obliterate the old
    queue.

    False alarms
    Two environments that share one Redis, of which one is at rest.

    References
    taskforcesh/bullmq#3370, langwatch/langwatch#6447.
    """

    id = "LV018"
    name = "abandoned-namespace"
    title = "A queue was left behind under another prefix"
    severity = "warning"
    since = "0.1.0"
    versions = "Bull, BullMQ, all releases"
    impact = "were left behind under a prefix that nobody uses any more"
    heals = "no: workers look at their own prefix only"
    basis = "inferred"
    dialects = ("bullmq",)
    needs_time = True
    parameters = {"abandoned_after_ms": 86_400_000}
    needs = {
        "queues": (*QUEUE_PLACE, "counts", "last_activity_at"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        WITH states AS MATERIALIZED (
            SELECT q.dialect, q.namespace, q.queue, q.evidence, q.db, q.last_activity_at, e.as_of_ms,
                coalesce(list_sum([
                    q.counts['waiting'], q.counts['delayed'], q.counts['prioritized'], q.counts['paused'],
                    q.counts['active'], q.counts['waiting-children']
                ]), 0)::BIGINT AS unfinished
            FROM queues AS q
            JOIN evidence AS e USING (evidence)
            WHERE q.dialect = 'bullmq'
        )
        SELECT o.dialect, o.namespace, o.queue, o.evidence, o.db, o.unfinished, o.last_activity_at,
            arg_max(n.namespace, (n.last_activity_at, n.namespace)) AS successor, o.last_activity_at AS since_from,
            count_text(o.unfinished, 'unfinished job') AS _jobs,
            coalesce('was last active ' || duration_text(min(o.as_of_ms) - epoch_ms(o.last_activity_at))
                || ' before the snapshot',
                'shows no activity') AS _when
        FROM states AS o
        JOIN states AS n
            ON n.queue = o.queue AND n.namespace <> o.namespace AND n.evidence = o.evidence AND n.db = o.db
        WHERE o.unfinished > 0
            AND coalesce(o.as_of_ms - epoch_ms(o.last_activity_at) > $abandoned_after_ms, TRUE)
            AND n.last_activity_at > coalesce(o.last_activity_at, TIMESTAMPTZ '1970-01-01 00:00:00+00')
        GROUP BY o.dialect, o.namespace, o.queue, o.evidence, o.db, o.unfinished, o.last_activity_at
    """
    message = "Queue {queue} under {namespace} has {_jobs} and {_when}; the one under {successor} was active later"
