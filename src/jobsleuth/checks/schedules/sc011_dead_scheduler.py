"""SC011."""

from __future__ import annotations

from jobsleuth.checks.base import Check


class DeadScheduler(Check):
    """A scheduler of periodic tasks has stopped without saying goodbye.

    What it finds
    A scheduler that is registered, but whose time of validity lay before the snapshot.

    Why it matters
    Unless another scheduler has the same entries, their tasks are not enqueued any more.

    How it comes about
    The process was killed, or lost its connection; a graceful stop removes the registration.

    What to do next
    Start the scheduler again; `details.live` tells how many others were alive.

    False alarms
    Before 0.25.1 a scheduler's registration was valid for no longer than the interval between its beats, and flickers:
    the finding is only possible when it ran out less than 20 s ago.

    References
    hibiken/asynq#510, hibiken/asynq#956.
    """

    id = "SC011"
    name = "dead-scheduler"
    title = "A scheduler of periodic tasks has stopped without saying goodbye"
    severity = "warning"
    since = "0.1.0"
    versions = "Asynq 0.13+"
    impact = "have stopped: their periodic tasks are not enqueued any more"
    heals = "no: its registration stays until somebody lists the schedulers"
    basis = "derived"
    dialects = ("asynq",)
    needs_time = True
    absence = False
    needs = {
        "workers": (
            "dialect",
            "namespace",
            "kind",
            "host",
            "pid",
            "valid_until",
            "valid",
            "key",
            "evidence",
            "db",
        ),
        "evidence": (
            "evidence",
            "as_of_ms",
        ),
    }
    sql = """
        WITH schedulers AS (
            SELECT dialect, namespace, key, evidence, db, host, pid, valid_until, valid
            FROM workers
            WHERE kind = 'scheduler' AND dialect = 'asynq'
        ),
        alive AS (
            SELECT evidence, db, count(*) FILTER (valid) AS live FROM schedulers GROUP BY ALL
        )
        SELECT s.dialect, s.namespace, s.key, s.evidence, s.db, s.host, s.pid, s.valid_until, a.live,
            CASE WHEN e.as_of_ms - epoch_ms(s.valid_until) < 20000 THEN 'possible' ELSE 'certain' END AS certainty,
            CASE WHEN a.live > 0 THEN 'info' ELSE 'warning' END AS severity,
            duration_text(e.as_of_ms - epoch_ms(s.valid_until)) AS _ago,
            CASE WHEN a.live > 0 THEN '; ' || count_text(a.live,
                'other') || ' lived' ELSE ', and no other lived' END AS _rest
        FROM schedulers AS s
        JOIN evidence AS e USING (evidence)
        JOIN alive AS a USING (evidence, db)
        WHERE s.valid = FALSE AND epoch_ms(s.valid_until) < e.as_of_ms
    """
    message = "The scheduler {host}:{pid} was last valid {_ago} before the snapshot{_rest}"
