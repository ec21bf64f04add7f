"""PL001."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, Check


class StrandedInProcessing(Check):
    """A job lies in a processing list for long, and nothing shows that somebody works on it.

    What it finds
    Jobs of plain lists and of described layouts without locks that were taken or made longer than
    `processing_after_ms` (five minutes) before the snapshot; an error for those that were taken longer than
    `stranded_after_ms` (an hour) before it. When a job was made does not tell since when it lies there: such jobs are
    warnings however old. Where jobs hold no time, one info for each key says how many there are.

    Why it matters
    `LMOVE` and `RPOPLPUSH` keep a job safe when its worker dies, but only if somebody puts it back.

    How it comes about
    A worker that died between taking the job and removing it; no part of the application that empties the processing
    lists of dead workers.

    What to do next
    Find out whether the worker lives (`details.worker_name`, or the key). If not, move its jobs back with `LMOVE`; they
    may have been worked on.

    False alarms
    Work that takes long; jobs that hold no time of their start and were made long before they were taken.

    References
    https://redis.io/docs/latest/commands/lmove/, section on the reliable queue.
    """

    id = "PL001"
    name = "stranded-in-processing"
    title = "A job lies in a processing list, and nothing shows who works on it"
    severity = "warning"
    since = "0.1.0"
    versions = "plain lists and described layouts"
    impact = "were taken by somebody and not finished"
    basis = "inferred"
    heals = "no: only the application itself puts them back"
    needs_time = True
    absence = False
    dialects = ("layouts", "lists")
    parameters = {"processing_after_ms": 300_000, "stranded_after_ms": 3_600_000}
    needs = {
        "jobs": (*JOB_PLACE, "state", "created_at", "started_at", "worker_name"),
        "membership": (*JOB_PLACE, "structure", "key"),
        "queues": (*QUEUE_PLACE, "counters"),
        "evidence": ("evidence", "as_of_ms"),
    }
    sql = """
        WITH open AS (
            SELECT dialect, namespace, queue, evidence, db
            FROM queues
            WHERE dialect IN ('lists', 'layouts') AND counters['locks'] IS NULL
        ),
        held AS (
            SELECT dialect, namespace, queue, job_id, evidence, db, min(key) AS key
            FROM membership
            WHERE structure = 'processing'
            GROUP BY ALL
        ),
        taken AS (
            SELECT j.*, m.key, e.as_of_ms - epoch_ms(coalesce(j.started_at, j.created_at)) AS age_ms,
                e.as_of_ms - epoch_ms(j.started_at) AS taken_ms
            FROM (
                SELECT dialect, namespace, queue, job_id, created_at, started_at, worker_name, evidence, db
                FROM jobs
                WHERE state IN ('processing', 'active')
            ) AS j
            SEMI JOIN open USING (dialect, namespace, queue, evidence, db)
            JOIN held AS m USING (dialect, namespace, queue, job_id, evidence, db)
            JOIN evidence AS e ON e.evidence = j.evidence
        )
        SELECT dialect, namespace, queue, job_id, key, evidence, db, worker_name, age_ms, NULL::BIGINT AS jobs,
            CASE WHEN taken_ms > $stranded_after_ms THEN 'error' ELSE 'warning' END AS severity,
            'possible' AS certainty, 'Job ' || job_id AS _what, ', ' || duration_text(age_ms) || ' old' AS _since
        FROM taken
        WHERE age_ms > $processing_after_ms
        UNION ALL
        SELECT dialect, namespace, queue, NULL AS job_id, key, evidence, db, min(worker_name) AS worker_name,
            NULL AS age_ms, count(*) AS jobs, 'info' AS severity, 'possible' AS certainty,
            count_text(count(*), 'job') AS _what, ', and nothing says since when' AS _since
        FROM taken
        WHERE age_ms IS NULL
        GROUP BY dialect, namespace, queue, key, evidence, db
    """
    message = "{_what} of queue {queue} in {key}{_since}"
