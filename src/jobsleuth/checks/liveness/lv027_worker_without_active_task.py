"""LV027."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class WorkerWithoutActiveTask(Check):
    """A server works on a task that is not active.

    What it finds
    A live worker entry, started more than `settle_ms` (10 s) before the snapshot, whose task is not in `active`.

    Why it matters
    Heartbeats lag by up to 5 s; beyond that the task was moved under the worker (recovered, deleted by hand), and its
    handler still runs.

    How it comes about
    The lease was lost while the handler ran on; raw commands.

    What to do next
    Expect the effect of two runs.

    False alarms
    It is information. A task that has just ended is still in the server's list until the next beat.

    References
    Asynq 0.26.0, `heartbeat.go`.
    """

    id = "LV027"
    name = "worker-without-active-task"
    title = "A server works on a task that is not active"
    severity = "info"
    since = "0.1.0"
    versions = "Asynq 0.10+"
    impact = "are worked on although they are not active any more"
    heals = "at the server's next heartbeat, or when the handler returns"
    basis = "observed"
    dialects = ("asynq",)
    needs_time = True
    parameters = {"settle_ms": 10_000}
    needs = {
        "membership": (*JOB_PLACE, "structure"),
        "workers": (*JOB_PLACE, "kind", "started_at", "valid", "key"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        WITH busy AS MATERIALIZED (
            SELECT w.dialect, w.namespace, w.queue, w.job_id, w.key, w.evidence, w.db, w.started_at
            FROM workers AS w
            JOIN evidence AS e USING (evidence)
            WHERE w.kind = 'worker' AND w.dialect = 'asynq' AND w.valid IS NOT FALSE AND w.queue IS NOT NULL
                AND e.as_of_ms - epoch_ms(w.started_at) > $settle_ms
        )
        SELECT b.*
        FROM busy AS b
        WHERE NOT EXISTS (
            SELECT 1 FROM membership AS m
            WHERE m.structure = 'active' AND m.job_id = b.job_id AND m.queue = b.queue AND m.namespace = b.namespace
                AND m.dialect = b.dialect AND m.evidence = b.evidence AND m.db = b.db
        )
    """
    message = "A server still works on task {job_id} of queue {queue}, which is not active"
