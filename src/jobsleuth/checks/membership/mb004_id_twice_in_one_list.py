"""MB004."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class IdTwiceInOneList(Check):
    """One list holds the same id more than once.

    What it finds
    An id that occurs at least twice in one list that decides a job's state (`wait`, `paused`, `active`, `pending`).

    Why it matters
    The job runs once for each entry, at the same time or one after the other; the first finish may remove the record
    under the second run.

    How it comes about
    An id pushed by hand to make a job run, a restored fragment, an automatic id counter that was set back (BullMQ then
    overwrites the old record and files its id again). In `active`: the id was put back into the waiting list while it
    ran, and a free worker took it.

    What to do next
    If no worker runs, remove one of the entries (`LREM key 1 id`). If the id counter is behind, raise it above the
    largest id before anything is added.

    False alarms
    None known.

    References
    taskforcesh/bullmq#1062, hibiken/asynq#717.
    """

    id = "MB004"
    name = "id-twice-in-one-list"
    title = "One list holds the same id more than once"
    severity = "error"
    since = "0.1.0"
    versions = "all releases"
    impact = "will run once for each entry"
    heals = "no: each entry is run"
    absence = False
    needs = {
        "membership": (*JOB_PLACE, "job_id_bytes", "structure", "kind", "position", "decides_state", "key"),
    }
    sql = """
        WITH twice AS MATERIALIZED (
            -- Numbers group faster than names; what shares a number by chance falls out below.
            SELECT number
            FROM (
                SELECT hash(evidence, db, key, job_id) AS number FROM membership WHERE kind = 'list' AND decides_state
            )
            GROUP BY number
            HAVING count(*) > 1
        )
        SELECT dialect, namespace, queue, job_id, key, evidence, db, structure,
            count(*) AS times,
            list_sort(list(position))[:10] AS positions
        FROM (
            SELECT *, hash(evidence, db, key, job_id) AS number FROM membership WHERE kind = 'list' AND decides_state
        ) AS m
        SEMI JOIN twice AS t USING (number)
        GROUP BY dialect, namespace, queue, job_id, job_id_bytes, key, evidence, db, structure
        HAVING count(*) > 1
    """
    message = "Job {job_id} of queue {queue} is {times} times in {structure}: it runs as often"
