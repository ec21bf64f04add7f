"""CN003."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class IncompleteRecord(Check):
    """A record lacks fields that every real job has.

    What it finds
    BullMQ: a job hash without `timestamp`. Asynq: a task hash without `msg` (or with an empty one) or without `state`.
    `details.fields` names what is there.

    Why it matters
    It is the scar of a job whose record was deleted while somebody still worked with its id. It cannot be retried,
    since the payload is gone; it keeps a new job from taking the id; in a waiting list it runs as an empty job. Asynq
    servers of 0.18 panic on a task without message.

    How it comes about
    The fields tell. BullMQ: `processedOn`, `ats` – an id without record was fetched; only `delay` – promoted; only a
    stall counter – recovered from `active`; only `progress` or `data` – updated after removal. Asynq: only `state` –
    popped or run while the record was missing; only `result` – a result written after the end (only a warning: the
    work was done).

    What to do next
    Learn from logs what the job was, add it again if needed, then delete the fragment and its id.

    False alarms
    None known.

    References
    OptimalBits/bull#1416, OptimalBits/bull#2286, taskforcesh/bullmq#1375, hibiken/asynq#403, hibiken/asynq#1167.
    """

    id = "CN003"
    name = "incomplete-record"
    title = "A record lacks fields that every real job has"
    severity = "error"
    since = "0.1.0"
    versions = "Bull, BullMQ, Asynq 0.18+"
    impact = "have lost their payload and keep their id from being used again"
    heals = "no"
    absence = False
    needs = {
        "jobs": (
            *JOB_PLACE,
            "key",
            "has_record",
            "record_complete",
            "state",
            "name",
            "payload_bytes",
            "created_at",
            "started_at",
            "finished_at",
            "attempts",
            "attempts_started",
            "stalled_count",
            "delay_ms",
            "progress",
            "result",
            "error",
            "claimed_state",
            "pending_since",
            "decode_error",
        ),
    }
    sql = """
        WITH broken AS (
            SELECT * FROM jobs WHERE has_record AND record_complete = FALSE
        ),
        told AS (
            SELECT dialect, namespace, queue, job_id, key, evidence, db, state,
                list_filter([
                    CASE WHEN name IS NOT NULL THEN 'name' END,
                    CASE WHEN payload_bytes > 0 OR (payload_bytes = 0 AND dialect <> 'asynq') THEN 'payload' END,
                    CASE WHEN claimed_state IS NOT NULL THEN 'state' END,
                    CASE WHEN created_at IS NOT NULL THEN 'created_at' END,
                    CASE WHEN pending_since IS NOT NULL THEN 'pending_since' END,
                    CASE WHEN started_at IS NOT NULL THEN 'started_at' END,
                    CASE WHEN finished_at IS NOT NULL AND dialect <> 'asynq' THEN 'finished_at' END,
                    CASE WHEN attempts > 0 THEN 'attempts' END,
                    CASE WHEN attempts_started > 0 THEN 'attempts_started' END,
                    CASE WHEN stalled_count > 0 THEN 'stalled_count' END,
                    CASE WHEN delay_ms IS NOT NULL THEN 'delay_ms' END,
                    CASE WHEN progress IS NOT NULL THEN 'progress' END,
                    CASE WHEN result IS NOT NULL THEN 'result' END,
                    CASE WHEN error IS NOT NULL THEN 'error' END,
                    CASE WHEN decode_error IS NOT NULL THEN 'decode_error' END
                ], lambda f: f IS NOT NULL) AS fields
            FROM broken
        )
        SELECT *,
            CASE WHEN dialect = 'asynq' AND fields = ['result'] THEN 'warning' ELSE 'error' END AS severity,
            CASE WHEN len(fields) = 0 THEN 'nothing known' ELSE array_to_string(fields, ', ') END AS _fields
        FROM told
    """
    message = "The record of job {job_id} of queue {queue} ({state}) is a fragment: it holds only {_fields}"
