"""SM001."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class PendingEntryRemoved(Check):
    """An entry is pending in a group, but the stream no longer has it.

    What it finds
    An id in a consumer group's list of pending entries whose entry was deleted or trimmed away.

    Why it matters
    The entry was delivered and never acknowledged. Whoever claims it gets an id without fields: what it was to do is
    lost, unless the consumer that got it still works on it.

    How it comes about
    `XADD … MAXLEN` or `MINID`, `XTRIM` or `XDEL` while entries are pending; neither looks at groups (since Redis 8.2
    `DELREF` and `ACKED` do).

    What to do next
    Ask the consumer named in `details.worker_name` whether it did the work. `XAUTOCLAIM` (since Redis 7.0) takes such
    ids out of the list; before, `XACK` each of them. Keep more entries than consumers can be behind.

    False alarms
    Work that was still going on at the snapshot: then it is only a warning, and its outcome is not known. Where the
    snapshot's time is unknown every finding is a warning.

    References
    https://redis.io/docs/latest/commands/xautoclaim/, redis/redis#7021.
    """

    id = "SM001"
    name = "pending-entry-removed"
    title = "An entry is pending, but the stream no longer has it"
    severity = "error"
    since = "0.1.0"
    versions = "Redis 5.0+, Valkey"
    impact = "were delivered, never acknowledged, and cannot be read again"
    heals = "no: nothing brings the entry back"
    dialects = ("streams",)
    parameters = {"silent_after_ms": 300_000}
    needs = {
        "jobs": (*JOB_PLACE, "state", "has_record", "started_at", "attempts", "worker_name", "key"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        SELECT j.dialect, j.namespace, j.queue, j.job_id, j.key, j.evidence, j.db, j.worker_name, j.attempts,
            j.started_at,
            CASE
                WHEN e.as_of_ms IS NULL OR e.as_of_ms - epoch_ms(j.started_at) < $silent_after_ms THEN 'warning'
                ELSE 'error'
            END AS severity,
            CASE WHEN j.worker_name IS NULL THEN 'nobody' ELSE 'consumer ' || j.worker_name END AS _holder
        FROM jobs AS j
        JOIN evidence AS e ON e.evidence = j.evidence
        WHERE j.dialect = 'streams' AND j.state IN ('pending', 'released') AND j.has_record = FALSE
    """
    message = "Entry {job_id} of {namespace} is pending in group {queue}, held by {_holder}, but it was removed"
