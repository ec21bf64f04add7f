"""SC012."""

from __future__ import annotations

from jobsleuth.checks.base import Check


class LeakedSchedulerHistory(Check):
    """Histories of periodic tasks that no scheduler has any more.

    What it finds
    Keys `asynq:scheduler_history:<entry>` whose entry is in no scheduler that lives and enqueued nothing in the last
    `settle_ms` (60 s); one finding for each database.

    Why it matters
    They hold up to 1,000 events each and never expire: every killed scheduler leaves as many as it had entries.

    How it comes about
    Schedulers that were killed, entries that were unregistered.

    What to do next
    Delete keys of entries that no scheduler has (`asynq cron list` names those it has).

    False alarms
    It is information. A scheduler that has just started is not registered before its first beat, hence `settle_ms`. In
    a cluster the schedulers' keys may be in another shard's snapshot.

    References
    hibiken/asynq#515, hibiken/asynq#819.
    """

    id = "SC012"
    name = "leaked-scheduler-history"
    title = "Histories of periodic tasks that no scheduler has any more"
    severity = "info"
    since = "0.1.0"
    versions = "Asynq 0.13+"
    impact = "take memory and never expire"
    heals = "no: only a graceful stop of the scheduler deletes its histories"
    basis = "derived"
    dialects = ("asynq",)
    needs_time = True
    parameters = {"settle_ms": 60_000}
    needs = {
        "schedules": (
            "dialect",
            "schedule_id",
            "has_record",
            "evidence",
            "db",
        ),
        "relations": (
            "dialect",
            "kind",
            "via",
            "source_id",
            "key",
            "evidence",
            "db",
        ),
        "events": (
            "dialect",
            "at",
            "fields",
            "evidence",
            "db",
        ),
        "evidence": (
            "evidence",
            "as_of_ms",
        ),
    }
    sql = """
        WITH histories AS (
            SELECT DISTINCT dialect, source_id AS schedule_id, key, evidence, db
            FROM relations
            WHERE kind = 'schedule' AND via = 'scheduler_history' AND dialect = 'asynq'
        ),
        living AS (
            SELECT DISTINCT dialect, schedule_id, evidence, db FROM schedules WHERE has_record
        ),
        told AS (
            SELECT fields['schedule_id'] AS schedule_id, evidence, db, max(v."at") AS told_at
            FROM events AS v
            WHERE dialect = 'asynq'
            GROUP BY ALL
        )
        SELECT h.dialect, 'asynq' AS namespace, h.evidence, h.db, min(h.key) AS key, count(*) AS histories,
            'histories' AS _same,
            count_text(count(*), 'key') AS _keys
        FROM histories AS h
        JOIN evidence AS e USING (evidence)
        LEFT JOIN told AS t USING (schedule_id, evidence, db)
        ANTI JOIN living AS l USING (dialect, schedule_id, evidence, db)
        WHERE coalesce(e.as_of_ms - epoch_ms(t.told_at) > $settle_ms, TRUE)
        GROUP BY h.dialect, h.evidence, h.db
    """
    message = "History of periodic tasks that no live scheduler has: {_keys}, for example {key}"
