"""UQ002."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, SOURCE, TARGET, Check


class DeduplicationKeyWithoutJob(Check):
    """A deduplication key points to a job that does not exist.

    What it finds
    A `de:` key of BullMQ (Bull: debounce) that had not expired at the snapshot and names a job without a record.

    Why it matters
    Without an expiry, every add with that deduplication id is dropped silently, and the caller is given the id of the
    dead job: an error. BullMQ 6.3.10 and later repair the key at the next add, and a key with an expiry (throttling)
    goes by itself though adds are dropped until then: information.

    How it comes about
    The owner's record was evicted or deleted by hand, or lost in a database outage, while the key stayed.

    What to do next
    Delete the key, then add what was dropped: producers' logs show adds that were answered with the id in `job_id`.

    False alarms
    A key with an expiry that outlives its job is how throttling works.

    References
    taskforcesh/bullmq#4311, taskforcesh/bullmq#3253.
    """

    id = "UQ002"
    name = "deduplication-key-without-job"
    title = "A deduplication key points to a job that does not exist"
    severity = "error"
    since = "0.1.0"
    versions = "BullMQ 5.11+, Bull 4.15+"
    impact = "drop new jobs silently"
    heals = "no: before 6.3.10 nothing looks whether the owner lives"
    dialects = ("bullmq",)
    needs = {
        "relations": (*SOURCE, *TARGET, "dialect", "kind", "valid_until", "key", "evidence", "db"),
        "jobs": (*JOB_PLACE, "has_record"),
        "queues": (*QUEUE_PLACE, "library_version"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        WITH claims AS MATERIALIZED (
            SELECT r.dialect, r.source_namespace, r.source_queue, r.source_id, r.target_namespace AS namespace,
                r.target_queue AS queue, r.target_id AS job_id, r.valid_until, r.key, r.evidence, r.db
            FROM relations AS r
            JOIN evidence AS e ON e.evidence = r.evidence
            WHERE r.kind = 'deduplication' AND r.dialect = 'bullmq' AND r.target_id IS NOT NULL
                AND (epoch_ms(r.valid_until) > e.as_of_ms) IS NOT FALSE
        ),
        recorded AS MATERIALIZED (
            SELECT j.dialect, j.namespace, j.queue, j.job_id, j.evidence, j.db
            FROM jobs AS j
            SEMI JOIN claims AS c USING (dialect, namespace, queue, job_id, evidence, db)
            WHERE j.has_record
        ),
        dangling AS (
            SELECT c.*
            FROM claims AS c
            ANTI JOIN recorded AS r USING (dialect, namespace, queue, job_id, evidence, db)
        )
        SELECT d.dialect, d.source_namespace AS namespace, d.source_queue AS queue, d.job_id, d.key, d.evidence, d.db,
            d.source_id AS deduplication_id, d.valid_until, q.library_version, d.valid_until AS heals_at,
            CASE
                WHEN d.valid_until IS NOT NULL THEN 'when the key expires'
                WHEN version_of(q.library_version) >= [6, 3, 10] THEN 'at the next add with this id, from 6.3.10 on'
            END AS heals,
            CASE
                WHEN d.valid_until IS NOT NULL OR version_of(q.library_version) >= [6, 3, 10] THEN 'info'
                ELSE 'error'
            END AS severity,
            CASE
                WHEN d.valid_until IS NOT NULL THEN 'adds are dropped until it expires'
                WHEN version_of(q.library_version) >= [6, 3, 10] THEN 'the next add with this id takes it over'
                ELSE 'adds with this id are dropped'
            END AS _effect
        FROM dangling AS d
        LEFT JOIN queues AS q
            ON q.dialect = d.dialect AND q.namespace = d.source_namespace AND q.queue = d.source_queue
                AND q.evidence = d.evidence AND q.db = d.db
    """
    message = (
        "Deduplication id {deduplication_id} of queue {queue} belongs to job {job_id}, which does not exist: {_effect}"
    )
