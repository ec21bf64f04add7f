"""LV006."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class LeaseWithoutActive(Check):
    """A lease names a task that is not active.

    What it finds
    An id in Asynq's `lease` that is not in `active` of the same queue.

    Why it matters
    Once the lease has expired, the recoverer tries to move the task, is refused because it is not active, and tries
    again every minute for ever, with a "not found" warning each time.

    How it comes about
    An entry of `active` removed by hand, keys lost by Redis while servers ran, a worker killed for memory while others
    deleted keys.

    What to do next
    If the task is in another structure or done, remove the id from `lease` (`ZREM`). If it has a record that is
    nowhere else (see MB002), decide first whether it has to run.

    False alarms
    None known.

    References
    hibiken/asynq#764, hibiken/asynq#690, hibiken/asynq#274, hibiken/asynq#1053.
    """

    id = "LV006"
    name = "lease-without-active"
    title = "A lease names a task that is not active"
    severity = "error"
    since = "0.1.0"
    versions = "Asynq 0.22+"
    impact = "make every pass of the recovery fail"
    heals = "no: the recoverer is refused every minute"
    dialects = ("asynq",)
    needs = {
        "workers": (*JOB_PLACE, "kind", "valid_until", "key"),
        "membership": (*JOB_PLACE, "structure"),
    }
    sql = """
        SELECT dialect, namespace, queue, job_id, key, evidence, db, valid_until
        FROM workers AS w
        WHERE w.kind = 'lease' AND w.dialect = 'asynq'
            AND NOT EXISTS (
                SELECT 1 FROM membership AS m
                WHERE m.structure = 'active' AND m.job_id = w.job_id AND m.queue = w.queue
                    AND m.namespace = w.namespace AND m.dialect = w.dialect
                    AND m.evidence = w.evidence AND m.db = w.db
            )
    """
    message = "Task {job_id} of queue {queue} has a lease, but is not active: recovery fails on it every minute"
