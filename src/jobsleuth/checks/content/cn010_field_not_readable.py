"""CN010."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, Check


class FieldNotReadable(Check):
    """A field of a job's record cannot be read.

    What it finds
    `data` or `opts` that is no JSON, `opts` that is no object, a `timestamp` that is no number; in finished jobs a
    `returnvalue` or `stacktrace` that is no JSON. `details.fields` names them.

    Why it matters
    A worker that takes a job with unreadable data or options fails before the handler starts, and the job stays active
    until it counts as stalled, again and again: an error. Options of another kind have no effect, an unreadable time,
    result or trace only spoils what is shown: a warning.

    How it comes about
    A producer that writes records by itself, in another language say; a value cut or edited by hand; Bull's
    `preventParsingData`, which stores data as it is.

    What to do next
    `jobsleuth job CASE ID` shows the stored bytes. Correct the field, or take the job out and add it again.

    False alarms
    Data of Bull may be raw on purpose (`preventParsingData`): a warning there.

    References
    BullMQ 6.7.0 `Job.fromJSON`; taskforcesh/bullmq#1375.
    """

    id = "CN010"
    name = "field-not-readable"
    title = "A field of a job's record cannot be read"
    severity = "error"
    since = "0.1.0"
    versions = "Bull, BullMQ, all releases"
    impact = "fail before their handler starts, or show no result"
    heals = "no"
    moving = False
    dialects = ("bullmq",)
    needs = {
        "jobs": (
            *JOB_PLACE,
            "state",
            "has_record",
            "record_complete",
            "payload_format",
            "created_at",
            "max_attempts",
            "stacktrace",
            "result",
            "key",
            "rest",
        ),
        "queues": (*QUEUE_PLACE, "layout"),
    }
    sql = """
        WITH suspects AS (
            SELECT dialect, namespace, queue, job_id, key, evidence, db, state,
                payload_format = 'opaque' AS bad_data,
                max_attempts IS NULL AND octet_length(map_extract(rest, 'opts')[1]) > 0
                    AND coalesce(NOT json_valid(TRY(decode(map_extract(rest, 'opts')[1]))), TRUE) AS bad_opts,
                -- The library takes a list or a number for options without attempts.
                coalesce(max_attempts = 0, TRUE)
                    AND coalesce(TRY(json_type(decode(map_extract(rest, 'opts')[1]))) <> 'OBJECT', FALSE) AS odd_opts,
                created_at IS NULL AS bad_time,
                state = 'completed' AND result IS NOT NULL AND coalesce(NOT json_valid(TRY(decode(result))), TRUE)
                    AS bad_result,
                state IN ('failed', 'completed', 'delayed') AND coalesce(NOT json_valid(stacktrace), FALSE) AS bad_trace
            FROM jobs
            WHERE dialect = 'bullmq' AND has_record AND record_complete
        ),
        judged AS (
            SELECT dialect, namespace, queue, j.job_id, j.key, evidence, db, j.state, q.layout,
                j.bad_data, j.bad_opts,
                list_filter([
                    CASE WHEN j.bad_data THEN 'data' END, CASE WHEN j.bad_opts OR j.odd_opts THEN 'opts' END,
                    CASE WHEN j.bad_time THEN 'timestamp' END, CASE WHEN j.bad_result THEN 'returnvalue' END,
                    CASE WHEN j.bad_trace THEN 'stacktrace' END
                ], lambda f: f IS NOT NULL) AS fields
            FROM suspects AS j
            JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
            WHERE j.bad_data OR j.bad_opts OR j.odd_opts OR j.bad_time OR j.bad_result OR j.bad_trace
        )
        SELECT dialect, namespace, queue, job_id, key, evidence, db, state, fields,
            CASE WHEN bad_opts OR (bad_data AND NOT starts_with(layout,
                'bull ')) THEN 'error' ELSE 'warning' END AS severity,
            array_to_string(fields, ', ') AS _fields
        FROM judged
    """
    message = "The record of job {job_id} of queue {queue} ({state}) cannot be read in full: {_fields}"
