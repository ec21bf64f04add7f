"""LV020."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class CompletedNotExpired(Check):
    """Completed tasks outlive their retention.

    What it finds
    Tasks in `completed` whose time of deletion lies more than `janitor_ms` (8 s) and `clock_skew_ms` (2 s) before the
    snapshot. One finding for each queue.

    Why it matters
    No server with a janitor serves the queue, or it does not keep up. The results are still there, and go as soon as a
    server starts.

    How it comes about
    All servers of the queue are down; a backlog larger than 100 tasks each interval.

    What to do next
    Read the results you need before you start a server.

    False alarms
    Since 0.25 the interval of the janitor can be configured: set `janitor_ms` in the policy.

    References
    Asynq 0.26.0, `janitor.go`.
    """

    id = "LV020"
    name = "completed-not-expired"
    title = "Completed tasks outlive their retention"
    severity = "warning"
    since = "0.1.0"
    versions = "Asynq 0.19+"
    impact = "are kept beyond their retention and are lost the moment a server starts"
    heals = "when a server of the queue runs: its janitor deletes them, 100 at a time"
    basis = "derived"
    dialects = ("asynq",)
    needs_time = True
    parameters = {"janitor_ms": 8_000, "clock_skew_ms": 2_000}
    absence = False
    needs = {
        "membership": (*JOB_PLACE, "structure", "due_at"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        SELECT m.dialect, m.namespace, m.queue, m.evidence, m.db, count(*) AS tasks, min(m.due_at) AS oldest_at,
            arg_min(m.job_id, (m.due_at, m.job_id)) AS example, min(m.due_at) AS since_from, min(m.due_at) AS since_to,
            count_text(count(*), 'completed task') AS _tasks,
            duration_text(max(e.as_of_ms) - epoch_ms(min(m.due_at))) AS _late
        FROM (
            SELECT dialect, namespace, queue, evidence, db, job_id, due_at
            FROM membership
            WHERE dialect = 'asynq' AND structure = 'completed'
        ) AS m
        JOIN evidence AS e USING (evidence)
        WHERE e.as_of_ms - epoch_ms(m.due_at) > $janitor_ms + $clock_skew_ms
        GROUP BY m.dialect, m.namespace, m.queue, m.evidence, m.db
    """
    message = "{_tasks} of queue {queue} should have been deleted, the oldest ({example}) {_late} before the snapshot"
