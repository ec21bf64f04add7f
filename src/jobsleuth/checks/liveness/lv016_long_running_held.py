"""LV016."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class LongRunningHeld(Check):
    """A job has been running for long, and its worker lives.

    What it finds
    An active job with a valid lock or lease that was started more than `long_running_ms` (1 h) before the snapshot.

    Why it matters
    It is not lost: a live worker renews its claim. But it may hang, since both libraries renew for the process, not for
    the handler.

    How it comes about
    Long work, or a handler that waits for ever.

    What to do next
    Look at the worker of `held_by`. A job that hangs has to be ended there; taking its lock away only runs it twice.

    False alarms
    It is information: long work is no fault.

    References
    taskforcesh/bullmq#652, hibiken/asynq#1089.
    """

    id = "LV016"
    name = "long-running-held"
    title = "A job has been running for long, and its worker lives"
    severity = "info"
    since = "0.1.0"
    versions = "Bull, BullMQ, Asynq 0.10+"
    impact = "run for long, and a live worker holds them"
    heals = "when the handler ends"
    basis = "observed"
    needs_time = True
    parameters = {"long_running_ms": 3_600_000}
    absence = False
    needs = {
        "jobs": (*JOB_PLACE, "state", "started_at", "key"),
        "workers": (*JOB_PLACE, "kind", "valid_until", "valid"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        WITH held AS MATERIALIZED (
            SELECT dialect, namespace, queue, job_id, evidence, db, max(valid_until) AS valid_until
            FROM workers
            WHERE kind IN ('lock', 'lease') AND valid IS NOT FALSE
            GROUP BY ALL
        )
        SELECT dialect, namespace, queue, job_id, j.key, evidence, db, j.started_at, h.valid_until,
            e.as_of_ms - epoch_ms(j.started_at) AS running_ms,
            j.started_at AS since_from, j.started_at AS since_to, 'when it was started' AS since_why,
            'observed' AS since_basis, duration_text(e.as_of_ms - epoch_ms(j.started_at)) AS _running
        FROM (
            SELECT dialect, namespace, queue, job_id, key, evidence, db, started_at
            FROM jobs
            WHERE state = 'active' AND started_at IS NOT NULL
        ) AS j
        JOIN held AS h USING (dialect, namespace, queue, job_id, evidence, db)
        JOIN evidence AS e USING (evidence)
        WHERE e.as_of_ms - epoch_ms(j.started_at) > $long_running_ms
    """
    message = "Job {job_id} of queue {queue} has been running for {_running}, and its worker lives"
