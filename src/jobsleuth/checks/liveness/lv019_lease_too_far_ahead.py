"""LV019."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class LeaseTooFarAhead(Check):
    """Leases run further ahead than the library sets them.

    What it finds
    A lease that ends more than 30 s and `clock_skew_ms` (2 s) after the snapshot. One finding for each queue, with the
    largest difference.

    Why it matters
    Leases are written with the worker's clock, the snapshot's time is the server's. The difference is the best estimate
    of how far the clocks are apart, and recovery of these tasks comes later by as much.

    How it comes about
    The clock of a worker runs ahead.

    What to do next
    Correct the clocks; add the difference when you judge other times of this case.

    False alarms
    It is information. Deadlines of 0.10 to 0.21, which the same column shows, are left alone.

    References
    Asynq 0.26.0, `base.LeaseDuration`.
    """

    id = "LV019"
    name = "lease-too-far-ahead"
    title = "Leases run further ahead than the library sets them"
    severity = "info"
    since = "0.1.0"
    versions = "Asynq 0.22+"
    impact = "are held for longer than the library grants: a clock runs ahead"
    heals = "with the clock"
    basis = "derived"
    dialects = ("asynq",)
    needs_time = True
    parameters = {"clock_skew_ms": 2_000}
    absence = False
    needs = {
        "workers": (*QUEUE_PLACE, "kind", "valid_until", "key"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        SELECT w.dialect, w.namespace, w.queue, w.evidence, w.db, count(*) AS leases,
            max(epoch_ms(w.valid_until) - e.as_of_ms) - 30000 AS ahead_ms,
            duration_text(max(epoch_ms(w.valid_until) - e.as_of_ms) - 30000) AS _ahead,
            count_text(count(*), 'lease') AS _leases
        FROM workers AS w
        JOIN evidence AS e USING (evidence)
        WHERE w.kind = 'lease' AND w.dialect = 'asynq' AND ends_with(w.key, ':lease')
            AND epoch_ms(w.valid_until) - e.as_of_ms > 30000 + $clock_skew_ms
        GROUP BY w.dialect, w.namespace, w.queue, w.evidence, w.db
    """
    message = (
        "In queue {queue} a worker's clock is ahead: {_leases}, up to {_ahead} further ahead than the library sets them"
    )
