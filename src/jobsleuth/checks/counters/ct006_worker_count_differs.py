"""CT006."""

from __future__ import annotations

from jobsleuth.checks.base import Check


class WorkerCountDiffers(Check):
    """A server counts other workers than it lists.

    What it finds
    A live server whose count of active workers differs from the number of entries in its own list; no list means none.
    Servers before 0.8 have no id by which list and server belong together.

    Why it matters
    Both are written by one script. A task that a server works on is missing from the list, so that it looks like
    nobody's (LV026).

    How it comes about
    The entry of one worker could not be encoded; the list was evicted under a `volatile-*` policy.

    What to do next
    Check `maxmemory-policy`. Look for tasks with text that is no UTF-8.

    False alarms
    None known.

    References
    Asynq 0.26.0, `writeServerStateCmd`.
    """

    id = "CT006"
    name = "worker-count-differs"
    title = "A server counts other workers than it lists"
    severity = "warning"
    since = "0.1.0"
    versions = "Asynq 0.8+"
    impact = "list other workers than they count: some work is not shown"
    heals = "at the server's next heartbeat"
    dialects = ("asynq",)
    needs = {
        "workers": (
            "dialect",
            "namespace",
            "kind",
            "worker_id",
            "host",
            "pid",
            "valid_until",
            "valid",
            "details",
            "key",
            "evidence",
            "db",
        ),
    }
    sql = """
        WITH servers AS (
            SELECT dialect, namespace, key, evidence, db, worker_id, host, pid, valid_until,
                try_cast(details['active_worker_count'] AS BIGINT) AS counted
            FROM workers
            WHERE kind = 'server' AND dialect = 'asynq' AND valid AND worker_id IS NOT NULL
        ),
        listed AS (
            SELECT worker_id, evidence, db, count(*) AS entries
            FROM workers
            WHERE kind = 'worker' AND dialect = 'asynq' AND valid IS NOT FALSE
            GROUP BY ALL
        )
        -- It says the same anew every 5 s, for 10 s at a time.
        SELECT s.*, coalesce(l.entries, 0) AS listed, s.valid_until AS heals_at
        FROM servers AS s
        LEFT JOIN listed AS l USING (worker_id, evidence, db)
        WHERE s.counted <> coalesce(l.entries, 0)
    """
    message = "Server {host}:{pid} counts {counted} busy workers and lists {listed}"
