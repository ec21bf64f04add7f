"""SC003."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class ScheduleWithoutDefinition(Check):
    """A schedule is listed, but its definition is gone.

    What it finds
    A member of `repeat` without its hash, in a queue of BullMQ 5.16 or later. Members in the text form of older
    releases are in order until 5.x; with 6.x at work they are an error.

    Why it matters
    Pattern, time zone, template and limit of the schedule are gone. Listing schedules with 6.x deletes the member
    silently; an entry in the old form makes it raise an error.

    How it comes about
    The hash was deleted or evicted; the schedule was made by 5.12 or older and the queue upgraded to 6.x without
    registering it again.

    What to do next
    Register the schedule again from your code; remove an old entry with the release that made it.

    False alarms
    Members of 5.10.1 to 5.12.12 have no hash although they are not in the old text form: queues last opened by those
    are left alone.

    References
    taskforcesh/bullmq#2661; BullMQ 6.7.0 `getJobSchedulers`.
    """

    id = "SC003"
    name = "schedule-without-definition"
    title = "A schedule is listed, but its definition is gone"
    severity = "warning"
    since = "0.1.0"
    versions = "BullMQ 5.16+"
    impact = "have lost their definition: the next run uses defaults, or the schedule disappears"
    heals = "no: 6.x deletes the entry when somebody lists the schedules"
    dialects = ("bullmq",)
    needs = {
        "queues": (*QUEUE_PLACE, "layout", "library_version"),
        "schedules": (*QUEUE_PLACE, "schedule_id", "next_at", "has_record", "key"),
    }
    sql = """
        SELECT s.dialect, s.namespace, s.queue, s.key, s.evidence, s.db, s.schedule_id, s.next_at,
            CASE WHEN regexp_matches(s.schedule_id,
                '^[\\s\\S]*?:[^:]*:\\d*:[^:]*:.') THEN 'error' ELSE 'warning' END AS severity,
            CASE WHEN regexp_matches(s.schedule_id, '^[\\s\\S]*?:[^:]*:\\d*:[^:]*:.')
                THEN 'is stored as older releases did, which BullMQ 6 refuses'
                ELSE 'has no definition any more' END AS _what
        FROM schedules AS s
        JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
        WHERE s.dialect = 'bullmq' AND s.next_at IS NOT NULL AND NOT s.has_record
            AND CASE WHEN regexp_matches(s.schedule_id, '^[\\s\\S]*?:[^:]*:\\d*:[^:]*:.') THEN major_of(q.layout) >= 6
                ELSE coalesce(version_of(q.library_version) >= [5, 16, 0], major_of(q.layout) >= 5) END
    """
    message = "Schedule {schedule_id} of queue {queue} {_what}"
