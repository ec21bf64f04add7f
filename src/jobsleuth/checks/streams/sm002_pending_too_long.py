"""SM002."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class PendingTooLong(Check):
    """An entry was delivered long ago and is still not acknowledged.

    What it finds
    A pending entry whose latest delivery is longer ago than `pending_after_ms` (five minutes), or is dated outside 2000
    to 2100, as `XCLAIM … TIME` may do: `jobs.rest` has the number that is stored.

    Why it matters
    A group never delivers a pending entry again by itself: it waits until somebody claims it.

    How it comes about
    A consumer that died, that forgot `XACK`, or that works for long; no part of the application that claims what is
    left over.

    What to do next
    If the consumer in `details.worker_name` is dead, claim its entries (`XAUTOCLAIM`). If it lives, look whether it
    acknowledges at all.

    False alarms
    Work that takes longer than the threshold.

    References
    https://redis.io/docs/latest/commands/xpending/.
    """

    id = "SM002"
    name = "pending-too-long"
    title = "An entry was delivered long ago and never acknowledged"
    severity = "warning"
    since = "0.1.0"
    versions = "Redis 5.0+, Valkey"
    impact = "wait until somebody claims them"
    heals = "no: a group delivers nothing twice by itself; only a claim does"
    needs_time = True
    absence = False
    dialects = ("streams",)
    parameters = {"pending_after_ms": 300_000}
    needs = {
        "jobs": (*JOB_PLACE, "state", "has_record", "started_at", "attempts", "worker_name", "key"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        SELECT j.dialect, j.namespace, j.queue, j.job_id, j.key, j.evidence, j.db, j.worker_name, j.attempts,
            j.started_at, e.as_of_ms - epoch_ms(j.started_at) AS pending_ms,
            j.started_at AS since_from, j.started_at AS since_to, 'its latest delivery' AS since_why,
            'observed' AS since_basis,
            CASE
                WHEN j.started_at IS NULL THEN 'since a time outside 2000 to 2100'
                ELSE 'for ' || duration_text(e.as_of_ms - epoch_ms(j.started_at))
            END AS _since
        FROM jobs AS j
        JOIN evidence AS e ON e.evidence = j.evidence
        WHERE j.dialect = 'streams' AND j.state = 'pending' AND j.has_record
            AND (j.started_at IS NULL OR e.as_of_ms - epoch_ms(j.started_at) > $pending_after_ms)
    """
    message = "Entry {job_id} of {namespace} has been pending in group {queue} {_since}, held by {worker_name}"
