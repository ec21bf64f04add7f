"""MB018."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class ListedSetMissing(Check):
    """An aggregation set is listed, but not there.

    What it finds
    An entry of `aggregation_sets` whose key does not exist.

    Why it matters
    The tasks of that set are gone from every structure, their records may be left (MB002). The entry itself is
    harmless.

    How it comes about
    Eviction under an `allkeys-*` policy, or the key was deleted by hand.

    What to do next
    See which records claim to be aggregating and are in no structure; add them again.

    False alarms
    None known.

    References
    Asynq 0.26.0, `deleteAggregationSetCmd` removes both at once.
    """

    id = "MB018"
    name = "listed-set-missing"
    title = "An aggregation set is listed, but not there"
    severity = "warning"
    since = "0.1.0"
    versions = "Asynq 0.23+"
    impact = "are listed for aggregation and are not there"
    heals = "when the recoverer passes over it: the entry goes"
    basis = "observed"
    dialects = ("asynq",)
    needs = {
        "workers": (*QUEUE_PLACE, "kind", "worker_id", "valid_until", "details"),
    }
    sql = """
        SELECT dialect, namespace, queue, worker_id AS key, evidence, db, valid_until
        FROM workers
        WHERE kind = 'aggregation_set' AND dialect = 'asynq' AND details['set'] = 'missing'
    """
    message = "The aggregation set {key} of queue {queue} is listed, but does not exist: its tasks are in no structure"
