"""SM004."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class SilentConsumerHoldsEntries(Check):
    """A consumer holds entries and has not been heard of.

    What it finds
    A consumer with pending entries that asked for nothing for longer than `silent_after_ms` (five minutes) before the
    snapshot.

    Why it matters
    It is most likely dead. Its entries are delivered to nobody else until they are claimed.

    How it comes about
    A process that was killed, scaled away or deployed under another consumer name.

    What to do next
    See whether the process lives. If not: `XAUTOCLAIM` its entries to a live consumer; they may have been worked on, so
    check what the handler did. Delete the consumer only after that: `XGROUP DELCONSUMER` forgets its entries.

    False alarms
    A consumer that works on one entry for longer than the threshold and asks for nothing meanwhile.

    References
    https://redis.io/docs/latest/commands/xinfo-consumers/.
    """

    id = "SM004"
    name = "silent-consumer-holds-entries"
    title = "A consumer holds entries and has gone silent"
    severity = "error"
    since = "0.1.0"
    versions = "Redis 5.0+, Valkey"
    impact = "hold entries that nobody else will get"
    basis = "derived"
    heals = "no: only a claim moves entries to another consumer"
    needs_time = True
    absence = False
    dialects = ("streams",)
    parameters = {"silent_after_ms": 300_000}
    needs = {
        "workers": (*QUEUE_PLACE, "kind", "worker_id", "seen_at", "active_at", "holds", "key"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        SELECT w.dialect, w.namespace, w.queue, w.key, w.evidence, w.db, w.worker_id, w.holds, w.seen_at, w.active_at,
            e.as_of_ms - epoch_ms(w.seen_at) AS silent_ms, w.seen_at AS since_from, w.worker_id AS _same,
            CASE WHEN w.holds = 1 THEN '1 pending entry' ELSE format('{:,} pending entries', w.holds) END AS _entries,
            duration_text(e.as_of_ms - epoch_ms(w.seen_at)) AS _since
        FROM workers AS w
        JOIN evidence AS e ON e.evidence = w.evidence
        WHERE w.dialect = 'streams' AND w.kind = 'consumer' AND w.holds > 0
            AND e.as_of_ms - epoch_ms(w.seen_at) > $silent_after_ms
    """
    message = (
        "Consumer {worker_id} of group {queue} on {namespace} holds {_entries} and was last seen {_since} before the"
        " snapshot"
    )
