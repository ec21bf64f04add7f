"""LV028."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class DeadServer(Check):
    """A server stopped without saying goodbye.

    What it finds
    A registered server whose last heartbeat had run out at the snapshot. A warning while a task that it was working on
    is still active.

    Why it matters
    A graceful stop removes the registration: this one was killed, crashed, or lost Redis. Each such entry is one
    unclean end since somebody last listed the servers.

    How it comes about
    Out of memory, a deploy that kills, a host that died, a network partition.

    What to do next
    Look at the host's log at the time in `details.valid_until`.

    False alarms
    It is information where no active task is known to be its.

    References
    Asynq 0.26.0, `heartbeat.go`.
    """

    id = "LV028"
    name = "dead-server"
    title = "A server stopped without saying goodbye"
    severity = "info"
    since = "0.1.0"
    versions = "Asynq 0.8+"
    impact = "ended without a graceful stop"
    heals = "the registration goes when somebody lists the servers"
    basis = "derived"
    dialects = ("asynq",)
    needs_time = True
    absence = False
    needs = {
        "membership": ("dialect", "queue", "structure", "job_id", "evidence", "db"),
        "workers": (*JOB_PLACE, "kind", "worker_id", "host", "pid", "valid_until", "valid", "key"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        WITH dead AS MATERIALIZED (
            SELECT w.dialect, w.namespace, w.key, w.evidence, w.db, w.worker_id, w.host, w.pid, w.valid_until,
                e.as_of_ms
            FROM workers AS w
            JOIN evidence AS e USING (evidence)
            WHERE w.kind = 'server' AND w.dialect = 'asynq' AND w.valid = FALSE AND epoch_ms(w.valid_until) < e.as_of_ms
        ),
        left_behind AS (
            SELECT w.worker_id, w.evidence, w.db, count(DISTINCT w.job_id) AS tasks, min(w.job_id) AS example
            FROM workers AS w
            SEMI JOIN dead AS d USING (worker_id, evidence, db)
            SEMI JOIN membership AS m
                ON m.structure = 'active' AND m.job_id = w.job_id AND m.queue = w.queue AND m.dialect = w.dialect
                    AND m.evidence = w.evidence AND m.db = w.db
            WHERE w.kind = 'worker' AND w.dialect = 'asynq'
            GROUP BY ALL
        )
        SELECT d.dialect, d.namespace, d.key, d.evidence, d.db, d.host, d.pid, d.valid_until, coalesce(l.tasks,
            0) AS tasks,
            CASE WHEN l.tasks > 0 THEN 'warning' ELSE 'info' END AS severity, d.valid_until AS since_to,
            duration_text(d.as_of_ms - epoch_ms(d.valid_until)) AS _ago,
            CASE WHEN l.tasks > 0 THEN ' and left ' || count_text(l.tasks, 'active task') || ', such as ' || l.example
                ELSE '' END AS _left
        FROM dead AS d
        LEFT JOIN left_behind AS l USING (worker_id, evidence, db)
    """
    message = "Server {host}:{pid} was last valid {_ago} before the snapshot{_left}"
