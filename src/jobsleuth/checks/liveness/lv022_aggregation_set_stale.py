"""LV022."""

from __future__ import annotations

from jobsleuth.checks.base import Check


class AggregationSetStale(Check):
    """An aggregation did not end in its time.

    What it finds
    A listed aggregation set whose time ended before the snapshot: a warning within `recovery_ms` (60 s), the interval
    of the recoverer, and an error beyond it.

    Why it matters
    The aggregator died with the tasks in hand. Beyond the interval nobody gives them back. Given back, they are either
    aggregated a second time (the first aggregate may exist already) or stay in a group that nobody looks at.

    How it comes about
    The server was killed between taking the set and deleting it; no server serves the queue.

    What to do next
    Look whether the aggregate was enqueued before you start a server: if so, delete the set and its tasks.

    False alarms
    Clocks: the time is written with the aggregator's clock.

    References
    Asynq 0.26.0, `recoverStaleAggregationSets`.
    """

    id = "LV022"
    name = "aggregation-set-stale"
    title = "An aggregation did not end in its time"
    severity = "error"
    since = "0.1.0"
    versions = "Asynq 0.23+"
    impact = "are in the hands of an aggregator that is gone"
    heals = "when a recoverer of the queue runs: it gives the set back to its group, which may then be unregistered"
    basis = "derived"
    dialects = ("asynq",)
    needs_time = True
    parameters = {"recovery_ms": 60_000, "clock_skew_ms": 2_000}
    absence = False
    needs = {
        "workers": (
            "dialect",
            "namespace",
            "queue",
            "kind",
            "worker_id",
            "valid_until",
            "details",
            "evidence",
            "db",
        ),
        "evidence": (
            "evidence",
            "as_of_ms",
        ),
    }
    sql = """
        SELECT w.dialect, w.namespace, w.queue, w.worker_id AS key, w.evidence, w.db, w.valid_until,
            e.as_of_ms - epoch_ms(w.valid_until) AS ended_before_ms,
            CASE WHEN e.as_of_ms - epoch_ms(w.valid_until) > $recovery_ms + $clock_skew_ms THEN 'error'
                ELSE 'warning' END
                AS severity,
            w.valid_until AS since_from, w.valid_until AS since_to,
            duration_text(e.as_of_ms - epoch_ms(w.valid_until)) AS _ended
        FROM workers AS w
        JOIN evidence AS e USING (evidence)
        WHERE w.kind = 'aggregation_set' AND w.dialect = 'asynq' AND w.details['set'] IS DISTINCT FROM 'missing'
            AND epoch_ms(w.valid_until) <= e.as_of_ms
    """
    message = "The aggregation of {key} of queue {queue} should have ended {_ended} before the snapshot"
