"""UQ012."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class LockDiffersInRecord(Check):
    """A task's record and its message disagree on the uniqueness key.

    What it finds
    A task whose message names a uniqueness key while its hash field `unique_key` names another or none.

    Why it matters
    Deleting the task through the Inspector frees the lock that the hash names: the real one stays and keeps equal tasks
    out.

    How it comes about
    Adding a unique task to a group never writes the field; migrated tasks may lack it; else raw writes or a fork.

    What to do next
    After deleting such a task, delete its lock as well.

    False alarms
    Tasks of groups are only information, since the library itself leaves the field out.

    References
    Asynq 0.26.0, `addToGroupUniqueCmd`.
    """

    id = "UQ012"
    name = "lock-differs-in-record"
    title = "A task's record and its message disagree on the uniqueness key"
    severity = "warning"
    since = "0.1.0"
    versions = "Asynq 0.18+"
    impact = "do not free their lock when they are deleted"
    heals = "no"
    moving = False
    dialects = ("asynq",)
    needs = {
        "jobs": (*JOB_PLACE, "has_record", "deduplication_id", "group", "key", "rest"),
    }
    sql = """
        WITH tasks AS (
            SELECT dialect, namespace, queue, job_id, key, evidence, db, deduplication_id, "group",
                map_extract(rest, 'unique_key')[1] AS stored
            FROM jobs
            WHERE dialect = 'asynq' AND deduplication_id IS NOT NULL AND has_record AND key IS NOT NULL
        )
        SELECT dialect, namespace, queue, job_id, key, evidence, db, deduplication_id AS in_message,
            CASE WHEN "group" IS NOT NULL AND stored IS NULL THEN 'info' ELSE 'warning' END AS severity,
            CASE WHEN stored IS NULL THEN 'names none' ELSE 'names another' END AS _what
        FROM tasks
        WHERE stored IS DISTINCT FROM encode(deduplication_id)
    """
    message = "The message of task {job_id} of queue {queue} names a uniqueness key, its record {_what}"
