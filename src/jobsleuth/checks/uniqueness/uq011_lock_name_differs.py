"""UQ011."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class LockNameDiffers(Check):
    """A task's uniqueness key does not fit its payload.

    What it finds
    A task whose uniqueness key is not the one that the library makes of its type and payload (their MD5).

    Why it matters
    Equal tasks are not kept out, others are.

    How it comes about
    The payload was changed after the task was scheduled (`UpdateTaskPayload`, 0.26+, keeps the old key); a fork or a
    producer in another language; a task migrated from before 0.18.

    What to do next
    Know it when duplicates appear; delete and add the task again if uniqueness matters.

    False alarms
    Scheduled tasks of 0.26 and later are information, since the library does this itself.

    References
    Asynq 0.26.0, `UniqueKey` and `UpdateTaskPayload`.
    """

    id = "UQ011"
    name = "lock-name-differs"
    title = "A task's uniqueness key does not fit its payload"
    severity = "warning"
    since = "0.1.0"
    versions = "Asynq 0.18+"
    impact = "hold a lock that does not fit what they do"
    heals = "no"
    basis = "derived"
    moving = False
    dialects = ("asynq",)
    needs = {
        "jobs": (*JOB_PLACE, "state", "name", "payload", "payload_bytes", "deduplication_id", "decode_error"),
    }
    sql = """
        WITH unique_tasks AS (
            SELECT dialect, namespace, queue, job_id, evidence, db, state, deduplication_id AS key,
                'asynq:{' || queue || '}:unique:' || coalesce(name, '') || ':' AS head,
                payload, payload_bytes
            FROM jobs
            WHERE dialect = 'asynq' AND deduplication_id IS NOT NULL AND decode_error IS NULL AND key IS NOT NULL
        )
        SELECT dialect, namespace, queue, job_id, key, evidence, db, state,
            CASE WHEN state = 'scheduled' THEN 'info' ELSE 'warning' END AS severity
        FROM unique_tasks
        WHERE coalesce(octet_length(payload), 0) = coalesce(payload_bytes, 0)
            AND key <> head || md5(coalesce(payload, ''::BLOB))
            AND NOT (coalesce(payload_bytes, 0) = 0 AND key = head)
    """
    message = (
        "The uniqueness key of task {job_id} of queue {queue} ({state}) is not that of its type and payload: {key}"
    )
