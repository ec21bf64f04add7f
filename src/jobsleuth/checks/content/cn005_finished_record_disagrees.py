"""CN005."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, Check


class FinishedRecordDisagrees(Check):
    """A finished job's record does not fit its place.

    What it finds
    BullMQ and Bull: a job in `completed` or `failed` whose finish time differs from the score, or that has no result or
    no reason. Asynq: a task in `completed` whose score is not its completion time plus its retention, or that has none
    of the two.

    Why it matters
    The record was changed after the end, or the end was not written by the library: times and results cannot be
    trusted, retention acts on the score.

    How it comes about
    Raw commands, other software, a script that stopped half-way.

    What to do next
    Take the time from events or logs; keep what the record says as it is.

    False alarms
    None known: score and time are written together. Early BullMQ (1.50 still, 1.66 no longer) wrote no time for a job
    that it failed for stalling too often; such records are passed over.

    References
    BullMQ 6.7.0 `moveToFinished` script; Asynq 0.26.0 `markAsCompleteCmd`.
    """

    id = "CN005"
    name = "finished-record-disagrees"
    title = "A finished job's record does not fit its place"
    severity = "warning"
    since = "0.1.0"
    versions = "Bull, BullMQ, Asynq 0.19+"
    impact = "are finished, but their record tells another story"
    heals = "no: nothing rewrites a finished job"
    absence = False
    needs = {
        "jobs": (
            *JOB_PLACE,
            "state",
            "has_record",
            "record_complete",
            "finished_at",
            "retention_s",
            "error",
            "result",
            "decode_error",
            "key",
        ),
        "membership": (*JOB_PLACE, "structure", "kind", "due_at"),
        "queues": (*QUEUE_PLACE, "layout"),
    }
    sql = """
        WITH records AS NOT MATERIALIZED (
            SELECT dialect, namespace, queue, job_id, key, state, evidence, db, finished_at, retention_s,
                CASE WHEN dialect = 'asynq' THEN epoch_ms(finished_at) + retention_s * 1000
                    ELSE epoch_ms(finished_at) END AS expected_ms,
                CASE WHEN dialect = 'asynq' THEN
                        CASE WHEN finished_at IS NULL OR coalesce(retention_s, 0) = 0 THEN 'time' END
                    WHEN state = 'completed' AND result IS NULL THEN 'result'
                    WHEN state = 'failed' AND error IS NULL THEN 'reason' END AS lacks,
                finished_at IS NULL AND state = 'failed' AND dialect = 'bullmq'
                    AND error = 'job stalled more than allowable limit' AS given_up
            FROM jobs
            WHERE has_record AND record_complete IS NOT FALSE AND decode_error IS NULL AND key IS NOT NULL
                AND dialect IN ('asynq', 'bullmq')
                AND (state = 'completed' OR (state = 'failed' AND dialect = 'bullmq'))
        ),
        places AS NOT MATERIALIZED (
            SELECT dialect, namespace, queue, job_id, structure AS state, evidence, db, epoch_ms(due_at) AS score_ms
            FROM membership
            WHERE (structure = 'completed' OR (structure = 'failed' AND dialect = 'bullmq'))
                -- The sets of the oldest releases of Bull hold no times.
                AND kind IS DISTINCT FROM 'set'
        ),
        -- Sums of small parcels find where a time differs; only those parcels are joined.
        by_record AS (
            SELECT hash(dialect, namespace, queue, state, evidence, db, job_id) % 65536 AS parcel,
                sum(hash(job_id, coalesce(expected_ms, -1))) AS total
            FROM records
            GROUP BY parcel
        ),
        by_place AS (
            SELECT hash(dialect, namespace, queue, state, evidence, db, job_id) % 65536 AS parcel,
                sum(hash(job_id, coalesce(score_ms, -2))) AS total
            FROM places
            GROUP BY parcel
        ),
        differing AS MATERIALIZED (
            SELECT parcel FROM by_record AS r JOIN by_place AS p USING (parcel) WHERE r.total <> p.total
        ),
        -- Made by themselves, else everything would be joined before the parcels are picked.
        picked_records AS MATERIALIZED (
            FROM records
            SEMI JOIN differing ON hash(dialect, namespace, queue, state, evidence, db, job_id) % 65536 = parcel
        ),
        picked_places AS MATERIALIZED (
            FROM places
            SEMI JOIN differing ON hash(dialect, namespace, queue, state, evidence, db, job_id) % 65536 = parcel
        ),
        timed AS (
            SELECT r.*, p.score_ms
            FROM picked_records AS r
            JOIN picked_places AS p USING (dialect, namespace, queue, job_id, state, evidence, db)
            WHERE r.expected_ms IS DISTINCT FROM p.score_ms AND r.given_up IS NOT TRUE
        ),
        odd AS (
            SELECT dialect, namespace, queue, job_id, key, state, evidence, db, finished_at, retention_s,
                make_timestamptz(score_ms * 1000) AS score_at,
                CASE WHEN finished_at IS NULL THEN 'time' ELSE 'other' END AS lacks
            FROM timed
            UNION ALL
            SELECT dialect, namespace, queue, job_id, key, state, evidence, db, finished_at, retention_s, NULL, lacks
            FROM records
            WHERE lacks IS NOT NULL
        ),
        reasonless AS (
            -- Bull kept no reason before 1.0.
            SELECT dialect, namespace, queue, evidence, db, 'reason' AS lacks
            FROM queues
            WHERE dialect = 'bullmq' AND layout = 'bull 0.x-2.x'
        )
        SELECT dialect, namespace, queue, job_id, min(key) AS key, evidence, db, state, min(finished_at) AS finished_at,
            min(score_at) AS score_at, list_sort(list(DISTINCT lacks)) AS lacks,
            CASE
                WHEN list_contains(list(lacks), 'time') THEN 'holds no time of its end'
                WHEN list_contains(list(lacks), 'other') THEN 'holds another time than its place'
                ELSE 'holds no ' || min(lacks)
            END AS _what
        FROM odd
        ANTI JOIN reasonless AS o USING (dialect, namespace, queue, evidence, db, lacks)
        GROUP BY dialect, namespace, queue, job_id, evidence, db, state
    """
    message = "The record of job {job_id} of queue {queue} ({state}) {_what}"
