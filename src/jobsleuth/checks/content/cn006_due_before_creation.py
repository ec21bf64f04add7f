"""CN006."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class DueBeforeCreation(Check):
    """A delayed job is due before it was created.

    What it finds
    A job in `delayed` whose due time lies more than `clock_skew_ms` (2 s) before its creation.

    Why it matters
    The delay has no effect. Clocks of the machines may differ, or the caller set the creation time himself.

    How it comes about
    Skewed clocks between producers, or a producer that gives `timestamp`; raw writes.

    What to do next
    Compare the clocks of producers and workers.

    False alarms
    It is information. A creation time set by the caller means nothing.

    References
    BullMQ 6.7.0 `addDelayedJob` script.
    """

    id = "CN006"
    name = "due-before-creation"
    title = "A delayed job is due before it was created"
    severity = "info"
    since = "0.1.0"
    versions = "Bull, BullMQ, all releases"
    impact = "run at once although they were to be delayed"
    heals = "when it runs"
    basis = "derived"
    dialects = ("bullmq",)
    parameters = {"clock_skew_ms": 2_000}
    absence = False
    needs = {
        "jobs": (*JOB_PLACE, "state", "created_at", "scheduled_at", "key"),
    }
    sql = """
        SELECT dialect, namespace, queue, job_id, key, evidence, db, created_at, scheduled_at,
            epoch_ms(created_at) - epoch_ms(scheduled_at) AS before_ms,
            duration_text(epoch_ms(created_at) - epoch_ms(scheduled_at)) AS _before
        FROM jobs
        WHERE dialect = 'bullmq' AND state = 'delayed' AND epoch_ms(scheduled_at) > 25_000_000_000
            AND epoch_ms(created_at) - epoch_ms(scheduled_at) > $clock_skew_ms
    """
    message = "Delayed job {job_id} of queue {queue} was due {_before} before it was created"
