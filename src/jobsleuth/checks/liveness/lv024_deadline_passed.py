"""LV024."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class DeadlinePassed(Check):
    """A waiting task's deadline has passed.

    What it finds
    A task in `pending`, `scheduled` or `retry` whose deadline lies before the snapshot.

    Why it matters
    It fails as soon as it is taken, without its handler having run, and burns its retries until it is archived. The
    work will not be done.

    How it comes about
    The task waited too long: servers down, backlog, retries that go beyond the deadline.

    What to do next
    Enqueue the payload again with a new deadline if it still matters.

    False alarms
    None known.

    References
    hibiken/asynq#751.
    """

    id = "LV024"
    name = "deadline-passed"
    title = "A waiting task's deadline has passed"
    severity = "warning"
    since = "0.1.0"
    versions = "Asynq 0.10+"
    impact = "will fail before their handler starts, once for each retry"
    heals = "no: each attempt fails until the retries are used up"
    basis = "derived"
    dialects = ("asynq",)
    needs_time = True
    absence = False
    needs = {
        "jobs": (*JOB_PLACE, "state", "deadline", "key"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        SELECT j.dialect, j.namespace, j.queue, j.job_id, j.key, j.evidence, j.db, j.state, j.deadline,
            e.as_of_ms - epoch_ms(j.deadline) AS passed_ms,
            j.deadline AS since_from, j.deadline AS since_to, 'its deadline' AS since_why, 'observed' AS since_basis,
            duration_text(e.as_of_ms - epoch_ms(j.deadline)) AS _passed
        FROM (
            SELECT dialect, namespace, queue, job_id, key, evidence, db, state, deadline
            FROM jobs
            WHERE dialect = 'asynq' AND deadline IS NOT NULL AND state IN ('pending', 'scheduled', 'retry')
        ) AS j
        JOIN evidence AS e USING (evidence)
        WHERE epoch_ms(j.deadline) < e.as_of_ms
    """
    message = (
        "The deadline of task {job_id} of queue {queue} ({state}) passed {_passed} before the snapshot: it "
        "will fail unrun"
    )
