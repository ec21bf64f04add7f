"""LV005."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class LockWithoutExpiry(Check):
    """A job's lock never expires.

    What it finds
    A BullMQ or Bull lock key without a time to live.

    Why it matters
    A job counts as stalled only once its lock is gone. With this lock it can never be recovered when its worker dies:
    it stays active, and its slot under a global concurrency limit stays taken.

    How it comes about
    `PERSIST` or `SET` on the lock by hand or by other software; a restore that dropped expiries. The library always
    sets one.

    What to do next
    Find out whether the worker that holds the token in `details.worker_id` lives. If not, delete the lock; the next
    stalled checks put the job back.

    False alarms
    None known.

    References
    BullMQ 6.7.0 `moveToActive` and `extendLock` scripts: the lock is always set with PX.
    """

    id = "LV005"
    name = "lock-without-expiry"
    title = "A job's lock never expires"
    severity = "error"
    since = "0.1.0"
    versions = "Bull, BullMQ"
    impact = "can never be recovered when their worker dies"
    heals = "no: the key outlives every worker"
    moving = False
    dialects = ("bullmq",)
    needs = {
        "workers": (*JOB_PLACE, "kind", "worker_id", "valid_until", "key"),
    }
    sql = """
        SELECT dialect, namespace, queue, job_id, key, evidence, db, worker_id
        FROM workers
        WHERE kind = 'lock' AND dialect = 'bullmq' AND valid_until IS NULL
    """
    message = "The lock {key} of job {job_id} of queue {queue} never expires: the job cannot be recovered"
