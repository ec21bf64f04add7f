"""MB017."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class LeakedAggregationSet(Check):
    """An aggregation set is in nobody's hands.

    What it finds
    A set of tasks taken out of a group for aggregation that the queue's `aggregation_sets` does not list.

    Why it matters
    Neither an aggregator nor the recoverer looks at it: its tasks are lost, and no tool counts them.

    How it comes about
    The entry was removed by hand; keys restored in part.

    What to do next
    Add the ids to the group's zset and its name to `groups`; then delete the set.

    False alarms
    None known.

    References
    Asynq 0.26.0, `aggregationCheckCmd`.
    """

    id = "MB017"
    name = "leaked-aggregation-set"
    title = "An aggregation set is in nobody's hands"
    severity = "error"
    since = "0.1.0"
    versions = "Asynq 0.23+"
    impact = "are in a set that nobody will aggregate or give back"
    heals = "no: only listed sets are given back"
    basis = "derived"
    dialects = ("asynq",)
    needs = {
        "keys": (*QUEUE_PLACE, "key", "type", "expired", "elements", "role"),
        "workers": ("dialect", "kind", "worker_id", "evidence", "db"),
    }
    sql = """
        WITH sets AS (
            SELECT dialect, namespace, queue, key, evidence, db, elements
            FROM keys
            WHERE dialect = 'asynq' AND role = 'aggregation_set' AND type = 'zset' AND expired IS NOT TRUE
        ),
        listed AS (
            SELECT DISTINCT worker_id AS key, evidence,
                db FROM workers WHERE kind = 'aggregation_set' AND dialect = 'asynq'
        )
        SELECT s.*, count_text(s.elements, 'task') AS _tasks
        FROM sets AS s
        ANTI JOIN listed AS l USING (key, evidence, db)
    """
    message = "The aggregation set {key} of queue {queue} with {_tasks} is in nobody's hands"
