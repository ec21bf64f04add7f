"""LV013."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class LimiterWithoutExpiry(Check):
    """A rate limiter's counter never expires.

    What it finds
    The key `limiter` of a queue, or of one of its groups, without a time to live.

    Why it matters
    Older releases wait for its expiry, which never comes: the queue stands still. Newer ones then apply no limit at
    all.

    How it comes about
    `SET` or `PERSIST` by hand, a restore that dropped expiries.

    What to do next
    Delete the key.

    False alarms
    None known.

    References
    taskforcesh/bullmq#2644; BullMQ 6.7.0 `moveToActive` script.
    """

    id = "LV013"
    name = "limiter-without-expiry"
    title = "A rate limiter's counter never expires"
    severity = "warning"
    since = "0.1.0"
    versions = "Bull 3.1+, BullMQ, all releases"
    impact = "may stand still for ever, or run without a limit"
    heals = "no: the key stays until somebody deletes it"
    moving = False
    dialects = ("bullmq",)
    needs = {
        "keys": (*QUEUE_PLACE, "key", "type", "expire_at", "role"),
    }
    sql = """
        SELECT dialect, namespace, queue, key, evidence, db
        FROM keys
        WHERE dialect = 'bullmq' AND role = 'limiter' AND type = 'string' AND expire_at IS NULL
    """
    message = "The rate limiter {key} of queue {queue} never expires"
