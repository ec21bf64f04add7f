"""MB016."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, SOURCE, Check


class UnregisteredGroup(Check):
    """A group has tasks, but no aggregator looks at it.

    What it finds
    A group whose zset holds tasks and whose name is not in the queue's set `groups`.

    Why it matters
    Aggregators look at registered groups only. The tasks wait for ever unless another task joins the same group; tools
    do not count them.

    How it comes about
    An aggregation that emptied the group and was then given back, because the aggregator died or could not enqueue the
    result; a task of a group that was retried or run by hand and forwarded back.

    What to do next
    `SADD` the group's name to `asynq:{queue}:groups`: the next check aggregates it.

    False alarms
    None known.

    References
    Asynq 0.26.0, `reclaimStateAggregationSetsCmd` and `forwardCmd`: neither registers the group.
    """

    id = "MB016"
    name = "unregistered-group"
    title = "A group has tasks, but no aggregator looks at it"
    severity = "error"
    since = "0.1.0"
    versions = "Asynq 0.23+"
    impact = "wait in a group that nobody looks at, for ever unless another task joins it"
    heals = "when another task joins the group, which registers it again"
    basis = "derived"
    dialects = ("asynq",)
    needs = {
        "membership": (*JOB_PLACE, "structure", "due_at", "group", "key"),
        "relations": (*SOURCE, "dialect", "kind", "evidence", "db"),
    }
    sql = """
        WITH waiting AS MATERIALIZED (
            SELECT dialect, namespace, queue, "group", evidence, db, min(key) AS key, count(*) AS tasks,
                min(due_at) AS oldest_at, min(job_id) AS example
            FROM membership
            WHERE dialect = 'asynq' AND structure = 'group'
            GROUP BY ALL
        ),
        registered AS (
            SELECT DISTINCT dialect, source_namespace AS namespace, source_queue AS queue, source_id AS "group",
                evidence, db
            FROM relations
            WHERE kind = 'group'
        )
        SELECT w.*, w."group" AS _same, w.oldest_at AS since_from, count_text(w.tasks, 'task') AS _tasks
        FROM waiting AS w
        ANTI JOIN registered AS r USING (dialect, namespace, queue, "group", evidence, db)
    """
    message = (
        "Group {group} of queue {queue} has {_tasks}, such as {example}, but is not registered: nobody aggregates it"
    )
