"""SM005."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class LeakedConsumers(Check):
    """A group keeps many consumers that hold nothing and are gone.

    What it finds
    At least `leaked_consumers` (ten) consumers of one group without pending entries that asked for nothing for longer
    than `leaked_after_ms` (a day).

    Why it matters
    They take memory and make every listing of the group longer; real consumers get lost among them.

    How it comes about
    Consumer names made afresh at every start, from host name, process id or chance; groups never forget a consumer.

    What to do next
    `XGROUP DELCONSUMER` those that hold nothing. Give consumers lasting names, or have them delete themselves when they
    stop.

    False alarms
    Consumers that are started rarely.

    References
    https://redis.io/docs/latest/commands/xgroup-delconsumer/.
    """

    id = "SM005"
    name = "leaked-consumers"
    title = "A group keeps many consumers that are gone"
    severity = "warning"
    since = "0.1.0"
    versions = "Redis 5.0+, Valkey"
    impact = "keep consumers that never come back"
    heals = "no: groups forget no consumer"
    needs_time = True
    moving = False
    dialects = ("streams",)
    parameters = {"leaked_consumers": 10, "leaked_after_ms": 86_400_000}
    needs = {
        "workers": (*QUEUE_PLACE, "kind", "worker_id", "seen_at", "holds", "key"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        SELECT w.dialect, w.namespace, w.queue, w.key, w.evidence, w.db, count(*) AS consumers,
            min(w.worker_id) AS example, max(w.seen_at) AS last_seen, count_text(count(*), 'consumer') AS _consumers
        FROM workers AS w
        JOIN evidence AS e ON e.evidence = w.evidence
        WHERE w.dialect = 'streams' AND w.kind = 'consumer' AND w.holds = 0
            AND e.as_of_ms - epoch_ms(w.seen_at) > $leaked_after_ms
        GROUP BY w.dialect, w.namespace, w.queue, w.key, w.evidence, w.db
        HAVING count(*) >= $leaked_consumers
    """
    message = "Group {queue} of {namespace} keeps {_consumers} that hold nothing and are gone, such as {example}"
