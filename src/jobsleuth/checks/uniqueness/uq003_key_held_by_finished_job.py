"""UQ003."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, TARGET, Check


class KeyHeldByFinishedJob(Check):
    """A finished job still keeps new ones out.

    What it finds
    A deduplication key of BullMQ without an expiry that names a job in `completed` or `failed`; a uniqueness lock of
    Asynq whose holder is in `completed`.

    Why it matters
    The end of the job should have freed the key. New work with the same deduplication id, or the same type and payload,
    is refused although nothing runs: for BullMQ without an end, for Asynq until the lock's expiry.

    How it comes about
    A script that stopped half-way, keys restored or written by hand, a release that finishes jobs without knowing the
    key.

    What to do next
    Delete the key; then add what was refused.

    False alarms
    None known. A key with an expiry that outlives its job is how throttling works in BullMQ and is left alone.

    References
    taskforcesh/bullmq#4311; Asynq 0.19.0 `completeUnique` script.
    """

    id = "UQ003"
    name = "key-held-by-finished-job"
    title = "A finished job still keeps new ones out"
    severity = "error"
    since = "0.1.0"
    versions = "BullMQ 5.11+, Bull 4.15+, Asynq 0.19+"
    impact = "are kept out by a job that has finished"
    heals = "no, unless the key has an expiry: the library deletes it when the job ends, and that is over"
    needs_time = True
    absence = False
    needs = {
        "membership": (*JOB_PLACE, "structure"),
        "relations": (*TARGET, "dialect", "kind", "source_id", "valid_until", "key", "evidence", "db"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        WITH claims AS MATERIALIZED (
            SELECT r.dialect, r.target_namespace AS namespace, r.target_queue AS queue, r.target_id AS job_id,
                r.source_id,
                r.key, r.valid_until, r.evidence, r.db
            FROM relations AS r
            JOIN evidence AS e USING (evidence)
            WHERE r.target_id IS NOT NULL
                AND CASE WHEN r.kind = 'deduplication' THEN r.valid_until IS NULL
                    ELSE r.kind = 'uniqueness' AND coalesce(epoch_ms(r.valid_until) > e.as_of_ms, TRUE) END
        ),
        done AS (
            SELECT m.dialect, m.namespace, m.queue, m.job_id, m.evidence, m.db,
                string_agg(DISTINCT m.structure, ', ' ORDER BY m.structure) AS structure
            FROM membership AS m
            SEMI JOIN claims AS c USING (dialect, namespace, queue, job_id, evidence, db)
            WHERE m.structure = 'completed' OR (m.structure = 'failed' AND m.dialect = 'bullmq')
            GROUP BY ALL
        )
        SELECT dialect, namespace, queue, job_id, c.key, evidence, db, c.source_id AS unique_id, c.valid_until,
            d.structure,
            CASE WHEN c.valid_until IS NULL THEN 'no: nothing looks at the key again'
                ELSE 'when the key expires' END AS heals,
            c.valid_until AS heals_at, c.key AS _same
        FROM claims AS c
        JOIN done AS d USING (dialect, namespace, queue, job_id, evidence, db)
    """
    message = "Job {job_id} of queue {queue} is {structure}, but still holds {key}: new ones are refused"
