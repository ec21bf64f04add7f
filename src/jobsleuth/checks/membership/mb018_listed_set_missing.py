"""MB018."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class ListedSetMissing(Check):
    """An aggregation set is listed, but not there.

    What it finds
    An entry of `aggregation_sets` whose key does not exist.

    Why it matters
    The tasks of that set are gone from every structure, their records may be left (MB002). The entry itself is
    harmless. Where a server of the queue lives it goes within a minute after its time (`valid_until`, which the
    aggregation had): `heals_at`. Without a server nothing bounds that, nor where the time was over and the entry still
    there: the recovery of whoever lives did not take it, or will in a moment.

    How it comes about
    Eviction under an `allkeys-*` policy, or the key was deleted by hand.

    What to do next
    See which records claim to be aggregating and are in no structure; add them again.

    False alarms
    None known.

    References
    Asynq 0.26.0, `deleteAggregationSetCmd` removes both at once, `reclaimStateAggregationSetsCmd` entries whose time is
    over; the recoverer runs it once a minute, and as it starts.
    """

    id = "MB018"
    name = "listed-set-missing"
    title = "An aggregation set is listed, but not there"
    severity = "warning"
    since = "0.1.0"
    versions = "Asynq 0.23+"
    impact = "are listed for aggregation and are not there"
    heals = (
        "when a recoverer of the queue looks after the set's time is over: the entry goes, its tasks do not come back"
    )
    basis = "observed"
    dialects = ("asynq",)
    parameters = {"recovery_ms": 60_000}
    needs = {
        "workers": (*QUEUE_PLACE, "kind", "worker_id", "valid_until", "valid", "details"),
        "queues": (*QUEUE_PLACE, "limits"),
    }
    sql = """
        SELECT w.dialect, w.namespace, w.queue, w.worker_id AS key, w.evidence, w.db, w.valid_until,
            CASE WHEN w.valid AND q.limits['servers'] > 0
                THEN w.valid_until + to_milliseconds($recovery_ms) END AS heals_at
        FROM workers AS w
        LEFT JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
        WHERE w.kind = 'aggregation_set' AND w.dialect = 'asynq' AND w.details['set'] = 'missing'
    """
    message = "The aggregation set {key} of queue {queue} is listed, but does not exist: its tasks are in no structure"
