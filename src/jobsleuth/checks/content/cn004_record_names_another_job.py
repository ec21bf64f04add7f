"""CN004."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class RecordNamesAnotherJob(Check):
    """A record's message names another id or another queue than its key.

    What it finds
    An Asynq task whose message holds an id or a queue name that differs from those in its key.

    Why it matters
    Workers act on the names in the message, not on those of the key: finishing or retrying the task touches another
    task's keys, or none, and this one stays active.

    How it comes about
    Keys copied or renamed by hand, a queue "moved" by renaming its keys.

    What to do next
    Put the task back by enqueuing its payload under the right queue and id, then delete this record.

    False alarms
    None known.

    References
    hibiken/asynq v0.26.0, `internal/rdb/rdb.go`: every mover builds keys from the message.
    """

    id = "CN004"
    name = "record-names-another-job"
    title = "A record's message names another id or queue than its key"
    severity = "error"
    since = "0.1.0"
    versions = "Asynq 0.18+"
    impact = "will act on another job's keys, or stay active"
    heals = "no"
    moving = False
    dialects = ("asynq",)
    needs = {
        "jobs": (*JOB_PLACE, "key", "state", "record_id", "record_queue", "decode_error", "record_complete"),
    }
    sql = """
        SELECT dialect, namespace, queue, job_id, key, evidence, db, state, record_id, record_queue
        FROM jobs
        WHERE dialect = 'asynq' AND decode_error IS NULL AND record_complete
            AND (record_id IS DISTINCT FROM job_id OR record_queue IS DISTINCT FROM queue)
    """
    message = "The message of task {job_id} of queue {queue} says it is task {record_id} of queue {record_queue}"
