"""SC008."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class ScheduleStoredTwice(Check):
    """One schedule is stored twice, in an old and in a new form.

    What it finds
    A member of `repeat` in the text form of older releases beside one with a definition that has the same job name and
    the same pattern or interval.

    Why it matters
    Both make jobs: the work is done twice at each run, and removing one of them leaves the other.

    How it comes about
    An upgrade over 5.10 while the schedule was registered again, or a move from repeatables to job schedulers that did
    not remove the old ones.

    What to do next
    Remove the old entry (`removeRepeatableByKey` with its text), keep the one with a definition.

    False alarms
    Two schedules that differ only in their id, time zone or end date look alike.

    References
    taskforcesh/bullmq#2661.
    """

    id = "SC008"
    name = "schedule-stored-twice"
    title = "One schedule is stored twice, in an old and in a new form"
    severity = "warning"
    since = "0.1.0"
    versions = "BullMQ 5.10+"
    impact = "are stored twice and may run twice"
    heals = "no: each entry makes its own next jobs"
    basis = "derived"
    dialects = ("bullmq",)
    absence = False
    needs = {
        "schedules": (*QUEUE_PLACE, "schedule_id", "spec", "next_at", "details", "has_record"),
    }
    sql = """
        WITH old AS (
            SELECT dialect, namespace, queue, evidence, db, schedule_id, spec,
                regexp_extract(schedule_id, '^([\\s\\S]*?):[^:]*:\\d*:', 1) AS name
            FROM schedules
            WHERE dialect = 'bullmq' AND next_at IS NOT NULL AND NOT has_record
                AND regexp_matches(schedule_id, '^[\\s\\S]*?:[^:]*:\\d*:')
        ),
        new AS (
            SELECT dialect, namespace, queue, evidence, db, schedule_id, spec, details['name'] AS name
            FROM schedules
            WHERE dialect = 'bullmq' AND next_at IS NOT NULL AND has_record
        )
        SELECT dialect, namespace, queue, evidence, db, o.schedule_id AS old_entry, n.schedule_id AS new_entry, n.spec,
            o.schedule_id || ' ' || n.schedule_id AS _same
        FROM old AS o
        JOIN new AS n USING (dialect, namespace, queue, evidence, db, name, spec)
    """
    message = "Schedules {new_entry} and {old_entry} of queue {queue} are one schedule, stored twice"
