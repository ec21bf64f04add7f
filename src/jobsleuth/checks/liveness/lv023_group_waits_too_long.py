"""LV023."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class GroupWaitsTooLong(Check):
    """Tasks of a group wait for an aggregator that does not come.

    What it finds
    A group whose oldest task is more than `group_wait_ms` (1 h) old; an error beyond `lost_after_ms` (24 h).

    Why it matters
    Grace periods are minutes (one by default): no server with an aggregator serves this queue, and the work is not
    done.

    How it comes about
    A server without `GroupAggregator` in its configuration; no server for the queue.

    What to do next
    Give the servers of the queue an aggregator, or run the tasks one by one (`asynq task run`).

    False alarms
    Long grace periods or maximum delays: set `group_wait_ms` in the policy.

    References
    hibiken/asynq#529.
    """

    id = "LV023"
    name = "group-waits-too-long"
    title = "Tasks of a group wait for an aggregator that does not come"
    severity = "warning"
    since = "0.1.0"
    versions = "Asynq 0.23+"
    impact = "wait for an aggregator that does not come"
    heals = "when a server with a `GroupAggregator` serves the queue"
    basis = "derived"
    dialects = ("asynq",)
    needs_time = True
    parameters = {"group_wait_ms": 3_600_000, "lost_after_ms": 86_400_000}
    absence = False
    needs = {
        "membership": (*QUEUE_PLACE, "structure", "due_at", "group", "key"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        SELECT m.dialect, m.namespace, m.queue, min(m.key) AS key, m.evidence, m.db, m."group", count(*) AS tasks,
            min(m.due_at) AS oldest_at, m."group" AS _same, min(m.due_at) AS since_from,
            CASE WHEN max(e.as_of_ms) - epoch_ms(min(m.due_at)) > $lost_after_ms THEN 'error' ELSE 'warning' END
                AS severity,
            count_text(count(*), 'task') AS _tasks, duration_text(max(e.as_of_ms) - epoch_ms(min(m.due_at))) AS _age
        FROM (
            SELECT dialect, namespace, queue, key, evidence, db, "group", due_at
            FROM membership
            WHERE dialect = 'asynq' AND structure = 'group'
        ) AS m
        JOIN evidence AS e USING (evidence)
        GROUP BY m.dialect, m.namespace, m.queue, m.evidence, m.db, m."group"
        HAVING max(e.as_of_ms) - epoch_ms(min(m.due_at)) > $group_wait_ms
    """
    message = "Group {group} of queue {queue} has {_tasks}, the oldest for {_age}: nobody aggregates it"
