"""SC012."""

from __future__ import annotations

from jobsleuth.checks.base import Check


class LeakedSchedulerHistory(Check):
    """Histories of periodic tasks that no scheduler has any more.

    What it finds
    Keys `asynq:scheduler_history:<entry>` whose entry is in no scheduler that lives; one finding for each database.

    Why it matters
    They hold up to 1,000 events each and never expire: every killed scheduler leaves as many as it had entries.

    How it comes about
    Schedulers that were killed, entries that were unregistered.

    What to do next
    Delete keys of entries that no scheduler has (`asynq cron list` names those it has).

    False alarms
    It is information. In a cluster the schedulers' keys may be in another shard's snapshot.

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
    }
    sql = """
        WITH histories AS (
            SELECT DISTINCT dialect, source_id AS schedule_id, key, evidence, db
            FROM relations
            WHERE kind = 'schedule' AND via = 'scheduler_history' AND dialect = 'asynq'
        ),
        living AS (
            SELECT DISTINCT dialect, schedule_id, evidence, db FROM schedules WHERE has_record
        )
        SELECT h.dialect, 'asynq' AS namespace, h.evidence, h.db, min(h.key) AS key, count(*) AS histories,
            count_text(count(*), 'key') AS _keys
        FROM histories AS h
        ANTI JOIN living AS l USING (dialect, schedule_id, evidence, db)
        GROUP BY h.dialect, h.evidence, h.db
    """
    message = "History of periodic tasks that no live scheduler has: {_keys}, for example {key}"
