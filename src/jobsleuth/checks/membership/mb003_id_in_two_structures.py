"""MB003."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class IdInTwoStructures(Check):
    """One id stands in two structures that exclude each other.

    What it finds
    An id that is in two or more keys among those that decide a job's state, e.g. in `wait` and in `completed`, or in
    two groups of Asynq. Helper indexes (`stalled`, `priority`, `repeat`, `lease`) do not count.

    Why it matters
    The job has two futures: it can run again after it finished, run twice, or be deleted while it runs. The libraries
    report only one of the places, so a dashboard may show it as done while a worker is about to take it.

    How it comes about
    Raw commands on the keys, fragments of a backup restored over live data, two libraries on one queue, an id counter
    set back (BullMQ adds do not test whether an automatic id exists). Scripts of both libraries move ids atomically.

    What to do next
    Decide by the job's own record and events which place is right, then remove the id from the other one. Stop the
    workers of the queue first if one of the places is `wait`, `pending`, `delayed`, `retry` or `scheduled`.

    False alarms
    None known in a snapshot of one instant; an export taken over seconds shows jobs that move. Payloads of plain lists
    that hold no id are told apart by their bytes only: the same bytes in two lists may be two jobs, so this is possible
    then, and a warning.

    References
    OptimalBits/bull#1600, OptimalBits/bull#356, taskforcesh/bullmq#1062.
    """

    id = "MB003"
    name = "id-in-two-structures"
    title = "One id is in two structures that exclude each other"
    severity = "error"
    since = "0.1.0"
    versions = "all releases"
    impact = "may run again after they ended, or twice"
    heals = "no: each place goes its own way"
    absence = False
    needs = {
        "membership": (*JOB_PLACE, "job_id_bytes", "structure", "decides_state", "key"),
    }
    sql = """
        WITH twice AS MATERIALIZED (
            -- Numbers group faster than names; what shares a number by chance falls out below.
            SELECT number
            FROM (
                SELECT hash(evidence, db, dialect, namespace, queue, job_id) AS number
                FROM membership
                WHERE decides_state
            )
            GROUP BY number
            HAVING count(*) > 1
        )
        SELECT dialect, namespace, queue, job_id, evidence, db,
            string_agg(DISTINCT structure, ', ' ORDER BY structure) AS structures,
            string_agg(DISTINCT key, ', ' ORDER BY key) AS keys,
            CASE
                WHEN dialect IN ('lists', 'layouts')
                    AND job_id SIMILAR TO 'sha256:(redacted-)?[0-9a-f]{16}(#[0-9]+)?'
                    THEN 'possible'
                ELSE 'certain'
            END AS certainty,
            CASE WHEN certainty = 'possible' THEN 'warning' ELSE 'error' END AS severity
        FROM (
            SELECT *, hash(evidence, db, dialect, namespace, queue, job_id) AS number
            FROM membership
            WHERE decides_state
        ) AS m
        SEMI JOIN twice AS t USING (number)
        GROUP BY dialect, namespace, queue, job_id, job_id_bytes, evidence, db
        HAVING count(DISTINCT key) > 1
    """
    message = "Job {job_id} of queue {queue} is in several places at once: {keys}"
