"""LV021."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class PausedWithWork(Check):
    """A paused queue holds work.

    What it finds
    Asynq: a paused queue; a warning if tasks are pending, else information. BullMQ and Bull: a queue with ready jobs
    that was paused more than `paused_after_ms` (24 h) ago, as its events tell; where they do not reach back, one whose
    oldest ready job is as old as that.

    Why it matters
    Nothing is taken from the queue until somebody resumes it; a pause that was forgotten is the simplest reason for
    work that is not done.

    How it comes about
    Paused by an operator or by code for a deploy, and not resumed.

    What to do next
    Ask who paused it, then resume. `details.paused_at` tells since when, where the library or an event records it.

    False alarms
    A pause that is meant. For BullMQ a fresh pause is left alone for that reason. Where no event tells of the pause,
    the age of the oldest job is no proof of a long one.

    References
    OptimalBits/bull#903.
    """

    id = "LV021"
    name = "paused-with-work"
    title = "A paused queue holds work"
    severity = "warning"
    since = "0.1.0"
    versions = "all releases of Bull, BullMQ, Asynq"
    impact = "wait in a paused queue until somebody resumes it"
    heals = "no: only when somebody resumes the queue"
    basis = "observed"
    needs_time = True
    parameters = {"paused_after_ms": 86_400_000}
    absence = False
    needs = {
        "queues": (*QUEUE_PLACE, "paused", "paused_at", "counts", "oldest_waiting_at"),
        "events": (*QUEUE_PLACE, "at", "event"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        WITH told AS (
            SELECT dialect, namespace, queue, evidence, db, max("at") FILTER (event = 'paused') AS paused_at,
                max("at") FILTER (event = 'resumed') AS resumed_at
            FROM events
            WHERE dialect = 'bullmq' AND event IN ('paused', 'resumed')
            GROUP BY ALL
        ),
        held AS (
            SELECT dialect, namespace, queue, evidence, db,
                coalesce(q.paused_at, CASE WHEN t.resumed_at IS NULL OR t.paused_at > t.resumed_at THEN t.paused_at END)
                    AS paused_at,
                q.oldest_waiting_at, e.as_of_ms,
                coalesce(list_sum([
                    q.counts['waiting'], q.counts['paused'], q.counts['prioritized'], q.counts['pending']
                ]), 0)::BIGINT AS ready
            FROM queues AS q
            JOIN evidence AS e USING (evidence)
            LEFT JOIN told AS t USING (dialect, namespace, queue, evidence, db)
            WHERE q.paused
        )
        SELECT dialect, namespace, queue, evidence, db, ready, paused_at, oldest_waiting_at,
            CASE WHEN dialect = 'asynq' AND ready = 0 THEN 'info' ELSE 'warning' END AS severity,
            coalesce(paused_at, oldest_waiting_at) AS since_from, paused_at AS since_to,
            count_text(ready, 'job') AS _jobs,
            CASE
                WHEN paused_at IS NOT NULL THEN ', for ' || duration_text(greatest(0, as_of_ms - epoch_ms(paused_at)))
                WHEN oldest_waiting_at IS NOT NULL
                THEN ', the oldest from ' || duration_text(as_of_ms - epoch_ms(oldest_waiting_at))
                    || ' before the snapshot'
                ELSE ''
            END AS _since
        FROM held
        WHERE dialect = 'asynq'
            OR (ready > 0 AND as_of_ms - epoch_ms(coalesce(paused_at, oldest_waiting_at)) > $paused_after_ms)
    """
    message = "Queue {queue} is paused with {_jobs} ready{_since}"
