"""LV025."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class WorkerPastDeadline(Check):
    """A worker is still at a task whose time is over.

    What it finds
    A live worker entry whose deadline lies before the snapshot by more than `beat_ms` (5 s, the heartbeat) and
    `clock_skew_ms` (2 s).

    Why it matters
    The handler does not heed its context: it goes on after the library has given up and moved the task to retry, so
    that the next attempt may run beside it.

    How it comes about
    A handler that ignores its context; a server that hangs or is shutting down.

    What to do next
    Make the handler heed its context; look at the server of `held_by`.

    False alarms
    Clocks: the deadline is the worker's, the snapshot's time the server's.

    References
    hibiken/asynq#1089.
    """

    id = "LV025"
    name = "worker-past-deadline"
    title = "A worker is still at a task whose time is over"
    severity = "warning"
    since = "0.1.0"
    versions = "Asynq 0.15+"
    impact = "are still being worked on though their time is over"
    heals = "when the handler returns"
    basis = "observed"
    dialects = ("asynq",)
    needs_time = True
    parameters = {"beat_ms": 5_000, "clock_skew_ms": 2_000}
    absence = False
    needs = {
        "workers": (*JOB_PLACE, "kind", "started_at", "deadline", "valid", "key"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        SELECT w.dialect, w.namespace, w.queue, w.job_id, w.key, w.evidence, w.db, w.started_at, w.deadline,
            e.as_of_ms - epoch_ms(w.deadline) AS over_ms, w.deadline AS since_from, w.deadline AS since_to,
            'the deadline of the run' AS since_why, 'observed' AS since_basis,
            duration_text(e.as_of_ms - epoch_ms(w.deadline)) AS _over
        FROM workers AS w
        JOIN evidence AS e USING (evidence)
        WHERE w.kind = 'worker' AND w.dialect = 'asynq' AND w.valid IS NOT FALSE
            AND e.as_of_ms - epoch_ms(w.deadline) > $beat_ms + $clock_skew_ms
    """
    message = "A worker is still at task {job_id} of queue {queue}, {_over} after its time was over"
