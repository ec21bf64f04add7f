"""SC009."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class PeriodicTaskOverdue(Check):
    """A periodic task's next run lies in the past.

    What it finds
    An entry of a scheduler whose key lives, with a next run more than `late_after_ms` (60 s) before the snapshot.

    Why it matters
    The scheduler still beats, but does not enqueue: the periodic work is not done.

    How it comes about
    The scheduler's process hangs or enqueueing blocks; its clock was changed.

    What to do next
    Look at the log of that scheduler (`details.scheduler` has host and process) and restart it.

    False alarms
    A clock of the scheduler that runs behind.

    References
    hibiken/asynq#371, hibiken/asynq#653.
    """

    id = "SC009"
    name = "periodic-task-overdue"
    title = "A periodic task's next run lies in the past"
    severity = "warning"
    since = "0.1.0"
    versions = "Asynq 0.13+"
    impact = "should have run and did not"
    heals = "when the scheduler's process goes on or is restarted"
    basis = "derived"
    dialects = ("asynq",)
    needs_time = True
    parameters = {"late_after_ms": 60_000}
    absence = False
    needs = {
        "schedules": (*QUEUE_PLACE, "schedule_id", "spec", "next_at", "details", "has_record", "key"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        SELECT s.dialect, s.namespace, s.queue, s.key, s.evidence, s.db, s.schedule_id, s.spec, s.next_at,
            s.details['type'] AS task_type, e.as_of_ms - epoch_ms(s.next_at) AS late_ms, s.schedule_id AS _same,
            duration_text(e.as_of_ms - epoch_ms(s.next_at)) AS _late
        FROM schedules AS s
        JOIN evidence AS e USING (evidence)
        WHERE s.dialect = 'asynq' AND s.has_record AND e.as_of_ms - epoch_ms(s.next_at) > $late_after_ms
    """
    message = "Periodic task {task_type} ({spec}) should have been enqueued {_late} before the snapshot"
