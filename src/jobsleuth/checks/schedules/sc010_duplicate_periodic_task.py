"""SC010."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class DuplicatePeriodicTask(Check):
    """Several schedulers enqueue the same periodic task.

    What it finds
    Entries with the same spec, task type, payload and options in two or more schedulers that live.

    Why it matters
    Each of them enqueues the task: the work is done as often as there are schedulers.

    How it comes about
    The scheduler runs in every replica of a service.

    What to do next
    Run one scheduler, or make the task unique (`asynq.Unique`, `asynq.TaskID`).

    False alarms
    Tasks that are made unique are enqueued once all the same; entries with such an option are left out.

    References
    hibiken/asynq#371, hibiken/asynq#653.
    """

    id = "SC010"
    name = "duplicate-periodic-task"
    title = "Several schedulers enqueue the same periodic task"
    severity = "warning"
    since = "0.1.0"
    versions = "Asynq 0.13+"
    impact = "are enqueued once by each scheduler"
    heals = "no: each scheduler goes its own way"
    basis = "derived"
    dialects = ("asynq",)
    absence = False
    needs = {
        "schedules": (*QUEUE_PLACE, "spec", "details", "has_record", "key"),
    }
    sql = """
        WITH entries AS (
            SELECT dialect, namespace, queue, evidence, db, spec, details['type'] AS task_type, key,
                details['payload'] AS payload, coalesce(details['options'], '') AS options
            FROM schedules
            WHERE dialect = 'asynq' AND has_record AND details['type'] IS NOT NULL
        )
        SELECT dialect, namespace, queue, evidence, db, spec, task_type, count(DISTINCT key) AS schedulers,
            list_sort(list(DISTINCT key))[:5] AS keys, concat_ws(' ', spec, task_type, payload, options) AS _same
        FROM entries
        WHERE NOT regexp_matches(options, '"(Unique|TaskID)\\(')
        GROUP BY dialect, namespace, queue, evidence, db, spec, task_type, payload, options
        HAVING count(DISTINCT key) > 1
    """
    message = "Periodic task {task_type} ({spec}) is enqueued by {schedulers} schedulers"
