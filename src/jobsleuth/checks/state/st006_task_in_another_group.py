"""ST006."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class TaskInAnotherGroup(Check):
    """A task is in another group than its record says.

    What it finds
    A task in a group, or in a set taken from one, whose hash field `group` names another. A hash and a message that
    disagree are a warning.

    Why it matters
    Calls by id look into the group that the record names and fail; the task is aggregated with the group it is in.

    How it comes about
    Raw commands, a restored fragment, a fork.

    What to do next
    Move the id to the group that the record names, or set the field.

    False alarms
    A task with a group that was scheduled has none in its hash: it will run alone, and is left out.

    References
    Asynq 0.26.0, `addToGroupCmd`.
    """

    id = "ST006"
    name = "task-in-another-group"
    title = "A task is in another group than its record says"
    severity = "error"
    since = "0.1.0"
    versions = "Asynq 0.23+"
    impact = "cannot be found by their id, and are aggregated with others than meant"
    heals = "when the group it is in is aggregated"
    dialects = ("asynq",)
    absence = False
    needs = {
        "jobs": (*JOB_PLACE, "has_record", "group", "key", "rest"),
        "membership": (*JOB_PLACE, "structure", "group"),
    }
    sql = """
        WITH grouped AS MATERIALIZED (
            SELECT dialect, namespace, queue, job_id, "group", evidence, db
            FROM membership
            WHERE dialect = 'asynq' AND structure IN ('group', 'aggregation_set')
        ),
        tasks AS (
            SELECT dialect, namespace, queue, job_id, key, "group" AS said, map_extract(rest,
                'msg.group_key')[1] AS in_message,
                evidence, db
            FROM jobs
            WHERE dialect = 'asynq' AND has_record AND "group" IS NOT NULL
        )
        SELECT dialect, namespace, queue, job_id, t.key, evidence, db, g."group" AS found_in, t.said,
            CASE WHEN g."group" IS DISTINCT FROM t.said AND g.job_id IS NOT NULL
                THEN 'error' ELSE 'warning' END AS severity,
            CASE WHEN g."group" IS DISTINCT FROM t.said AND g.job_id IS NOT NULL
                THEN 'is in group ' || g."group" || ', its record says ' || t.said
                ELSE 'belongs to group ' || t.said || ', its message says another' END AS _what
        FROM tasks AS t
        LEFT JOIN grouped AS g USING (dialect, namespace, queue, job_id, evidence, db)
        WHERE (g.job_id IS NOT NULL AND g."group" IS DISTINCT FROM t.said) OR t.in_message IS NOT NULL
    """
    message = "Task {job_id} of queue {queue} {_what}"
