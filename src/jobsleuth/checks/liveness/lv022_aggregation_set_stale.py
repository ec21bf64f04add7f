"""LV022."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, SOURCE, Check


class AggregationSetStale(Check):
    """An aggregation did not end in its time.

    What it finds
    A listed aggregation set whose time ended before the snapshot: a warning within `recovery_ms` (60 s), the interval
    of the recoverer, and an error beyond it.

    Why it matters
    The aggregator died with the tasks in hand. Beyond the interval nobody gives them back. Given back, they are
    aggregated a second time (the first aggregate may exist already); but a group is struck off when an aggregator takes
    all of it, and giving back does not list it again: then they wait until another task of the group is added.

    How it comes about
    The server was killed between taking the set and deleting it; no server serves the queue.

    What to do next
    Look whether the aggregate was enqueued before you start a server: if so, delete the set and its tasks.

    False alarms
    Clocks: the time is written with the aggregator's clock.

    References
    Asynq 0.26.0, `recoverStaleAggregationSets`; a server killed there and started again never ran the tasks.
    """

    id = "LV022"
    name = "aggregation-set-stale"
    title = "An aggregation did not end in its time"
    severity = "error"
    since = "0.1.0"
    versions = "Asynq 0.23+"
    impact = "are in the hands of an aggregator that is gone"
    heals = "when a recoverer of the queue runs: it gives the set back to its group, which is then aggregated again"
    basis = "derived"
    dialects = ("asynq",)
    needs_time = True
    parameters = {"recovery_ms": 60_000, "clock_skew_ms": 2_000}
    absence = False
    needs = {
        "workers": (*QUEUE_PLACE, "kind", "worker_id", "valid_until", "details"),
        "queues": (*QUEUE_PLACE, "limits"),
        "relations": (*SOURCE, "dialect", "kind", "evidence", "db"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        WITH registered AS (
            SELECT DISTINCT dialect, source_namespace AS namespace, source_queue AS queue, source_id AS "group",
                evidence, db
            FROM relations
            WHERE kind = 'group' AND dialect = 'asynq'
        ),
        sets AS (
            SELECT w.*,
                regexp_replace(w.worker_id[length('asynq:{' || w.queue || '}:g:') + 1:], ':[^:]*$', '') AS "group"
            FROM workers AS w
            WHERE w.kind = 'aggregation_set' AND w.dialect = 'asynq' AND w.details['set'] IS DISTINCT FROM 'missing'
        )
        SELECT w.dialect, w.namespace, w.queue, w.worker_id AS key, w.evidence, w.db, w.valid_until,
            e.as_of_ms - epoch_ms(w.valid_until) AS ended_before_ms,
            CASE WHEN e.as_of_ms - epoch_ms(w.valid_until) > $recovery_ms + $clock_skew_ms THEN 'error'
                ELSE 'warning' END
                AS severity,
            w.valid_until AS since_from, w.valid_until AS since_to,
            CASE WHEN r."group" IS NULL THEN 'no: its tasks are given back to a group that is not listed, '
                || 'and wait until another task of the group is added' END AS heals,
            -- The recoverer of a server that lives looks once a minute.
            CASE WHEN r."group" IS NOT NULL AND q.limits['servers'] > 0
                AND e.as_of_ms - epoch_ms(w.valid_until) <= $recovery_ms + $clock_skew_ms
                THEN w.valid_until + to_milliseconds($recovery_ms) END AS heals_at,
            duration_text(e.as_of_ms - epoch_ms(w.valid_until)) AS _ended
        FROM sets AS w
        JOIN evidence AS e USING (evidence)
        LEFT JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
        LEFT JOIN registered AS r USING (dialect, namespace, queue, "group", evidence, db)
        WHERE epoch_ms(w.valid_until) <= e.as_of_ms
    """
    message = "The aggregation of {key} of queue {queue} should have ended {_ended} before the snapshot"
