"""LV030."""

from __future__ import annotations

from jobsleuth.checks.base import Check


class StaleSemaphoreToken(Check):
    """A semaphore's slot is held by a task that is over.

    What it finds
    Tokens of an `asynq:sema:` key whose time had passed at the snapshot, or whose task is not active in any queue. One
    finding for each semaphore.

    Why it matters
    Until its time is over such a token counts: fewer tasks run at once than the semaphore allows.

    How it comes about
    A handler that crashed, or did not give its token back.

    What to do next
    Nothing, mostly; remove the token (`ZREM`) if the semaphore is blocked.

    False alarms
    It is information: tokens whose time has passed are removed only when somebody asks for one.

    References
    Asynq `x/rate/semaphore.go`.
    """

    id = "LV030"
    name = "stale-semaphore-token"
    title = "A semaphore's slot is held by a task that is over"
    severity = "info"
    since = "0.1.0"
    versions = "Asynq's `x/rate`, since 2021-11"
    impact = "keep others out of a semaphore though they are over"
    heals = "when the next task asks for a slot after the token's time"
    basis = "derived"
    dialects = ("asynq",)
    needs_time = True
    needs = {
        "membership": ("structure",),
        "workers": (
            "dialect",
            "namespace",
            "kind",
            "worker_id",
            "job_id",
            "valid_until",
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
        SELECT t.dialect, t.namespace, t.key, t.evidence, t.db, t.worker_id AS scope, count(*) AS tokens,
            min(t.job_id) AS example, count_text(count(*), 'token') AS _tokens
        FROM (
            SELECT w.dialect, w.namespace, w.key, w.evidence, w.db, w.worker_id, w.job_id, w.valid_until, e.as_of_ms
            FROM workers AS w
            JOIN evidence AS e USING (evidence)
            WHERE w.kind = 'semaphore' AND w.dialect = 'asynq'
        ) AS t
        LEFT JOIN (
            SELECT DISTINCT job_id, evidence, db FROM membership WHERE structure = 'active' AND dialect = 'asynq'
        ) AS m USING (job_id, evidence, db)
        WHERE m.job_id IS NULL OR epoch_ms(t.valid_until) < t.as_of_ms
        GROUP BY t.dialect, t.namespace, t.key, t.evidence, t.db, t.worker_id
    """
    message = "Semaphore {scope} has {_tokens} of tasks that are over, such as {example}"
