"""CT005."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class ArchiveOverItsAge(Check):
    """Archived tasks are older than the library keeps them.

    What it finds
    Tasks that were archived more than `archive_age_ms` (90 days) before the snapshot. One finding for each queue.

    Why it matters
    The next archiving deletes them. With some 8,000 of them that deletion itself fails on every attempt, and tasks stay
    half-archived (ST001).

    How it comes about
    Nothing was archived since: trimming happens only then.

    What to do next
    Save what you need; delete them in smaller numbers if there are thousands.

    False alarms
    It is information.

    References
    Asynq 0.26.0, `archiveCmd`.
    """

    id = "CT005"
    name = "archive-over-its-age"
    title = "Archived tasks are older than the library keeps them"
    severity = "info"
    since = "0.1.0"
    versions = "Asynq 0.14+"
    impact = "are deleted at the next task that is archived"
    heals = "at the next task that is archived"
    basis = "derived"
    dialects = ("asynq",)
    needs_time = True
    parameters = {"archive_age_ms": 7_776_000_000}
    absence = False
    needs = {
        "membership": (*QUEUE_PLACE, "structure", "due_at"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        SELECT m.dialect, m.namespace, m.queue, m.evidence, m.db, count(*) AS tasks, min(m.due_at) AS oldest_at,
            count_text(count(*), 'task') AS _tasks
        FROM (
            SELECT dialect, namespace, queue, evidence, db, due_at
            FROM membership
            WHERE dialect = 'asynq' AND structure = 'archived'
        ) AS m
        JOIN evidence AS e USING (evidence)
        WHERE e.as_of_ms - epoch_ms(m.due_at) > $archive_age_ms
        GROUP BY m.dialect, m.namespace, m.queue, m.evidence, m.db
    """
    message = "The next task archived in queue {queue} deletes {_tasks} that went there long ago"
