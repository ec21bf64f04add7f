"""SC002."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class EndedSchedule(Check):
    """A schedule has ended on purpose and is still listed.

    What it finds
    A member of `repeat` whose limit of runs is reached, or whose end date lies before its next run or before the
    snapshot.

    Why it matters
    It explains why the schedule does not run any more. The library leaves such entries in place, so that they look like
    dead ones.

    How it comes about
    `limit` or `endDate` in the repeat options.

    What to do next
    Nothing, or remove the schedule to tidy up (`removeJobScheduler`).

    False alarms
    It is information. A limit that stands in the jobs alone, as that of repeatables does, is not looked for here.

    References
    taskforcesh/bullmq#2444.
    """

    id = "SC002"
    name = "ended-schedule"
    title = "A schedule has ended on purpose and is still listed"
    severity = "info"
    since = "0.1.0"
    versions = "Bull, BullMQ, all releases"
    impact = "have reached their limit or end date, as they were told to"
    heals = "no: it is no fault"
    basis = "derived"
    dialects = ("bullmq",)
    needs_time = True
    absence = False
    needs = {
        "schedules": (*QUEUE_PLACE, "schedule_id", "next_at", "details", "has_record", "key"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        WITH members AS (
            SELECT s.dialect, s.namespace, s.queue, s.key, s.evidence, s.db, s.schedule_id, s.next_at, e.as_of_ms,
                coalesce(
                    try_cast(s.details['endDate'] AS DOUBLE),
                    CASE WHEN NOT s.has_record
                        THEN try_cast(regexp_extract(s.schedule_id, '^.*?:[^:]*:(\\d+):', 1) AS DOUBLE) END
                ) AS end_ms,
                try_cast(s.details['limit'] AS BIGINT) AS most,
                try_cast(s.details['ic'] AS BIGINT) AS made
            FROM schedules AS s
            JOIN evidence AS e USING (evidence)
            WHERE s.dialect = 'bullmq' AND s.next_at IS NOT NULL
        )
        SELECT dialect, namespace, queue, key, evidence, db, schedule_id, next_at, most AS "limit", made,
            CASE WHEN made >= most THEN 'its limit of ' || count_text(most, 'run') || ' is reached'
                ELSE 'its end date has passed' END AS _why
        FROM members
        WHERE made >= most OR end_ms <= epoch_ms(next_at) OR end_ms <= as_of_ms
    """
    message = "Schedule {schedule_id} of queue {queue} has ended on purpose: {_why}"
