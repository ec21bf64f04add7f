"""SM003."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class DeliveredTooOften(Check):
    """An entry was delivered again and again and is still not acknowledged.

    What it finds
    A pending or handed-back entry that was delivered at least `deliveries` times (five).

    Why it matters
    It may be what kills its consumers: a poison message goes round for ever, for a group has no limit of attempts.

    How it comes about
    A payload that makes the handler fail or crash; consumers that claim entries sooner than the work takes.

    What to do next
    Read the payload (`jobsleuth job`). Move the entry to a place for failed ones and acknowledge it; have the
    application do that from some number of deliveries on.

    False alarms
    `XCLAIM` with `RETRYCOUNT` sets the count to any number.

    References
    https://redis.io/docs/latest/develop/data-types/streams/, section on the delivery counter.
    """

    id = "SM003"
    name = "delivered-too-often"
    title = "An entry was delivered again and again, never acknowledged"
    severity = "warning"
    since = "0.1.0"
    versions = "Redis 5.0+, Valkey"
    impact = "go round without being finished"
    heals = "no: groups have no limit of deliveries"
    absence = False
    dialects = ("streams",)
    parameters = {"deliveries": 5}
    needs = {
        "jobs": (*JOB_PLACE, "state", "started_at", "attempts", "worker_name", "key"),
    }
    sql = """
        SELECT dialect, namespace, queue, job_id, key, evidence, db, worker_name, attempts, started_at,
            count_text(attempts, 'time') AS _times
        FROM jobs
        WHERE dialect = 'streams' AND state IN ('pending', 'released') AND attempts >= $deliveries
    """
    message = "Entry {job_id} of {namespace} was delivered {_times} to group {queue} and is not acknowledged"
