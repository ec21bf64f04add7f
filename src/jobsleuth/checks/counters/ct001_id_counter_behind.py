"""CT001."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, Check


class IdCounterBehind(Check):
    """The id counter is below an id that exists.

    What it finds
    The counter `id` of a queue is missing or smaller than the largest job id that looks like one of its own numbers.

    Why it matters
    Adding a job does not test whether the id exists: the next adds overwrite the records of jobs that are there and
    file their ids a second time. Payloads are lost silently.

    How it comes about
    The counter was deleted, evicted, or restored from an older copy; the queue's keys were copied without it.

    What to do next
    Before anything is added: `SET` the counter to at least the largest id, which `details.largest` names.

    False alarms
    Bull and BullMQ up to 4.18 accept whole numbers as ids of the caller's own; there the finding is only possible and a
    warning.

    References
    BullMQ 6.7.0 `addStandardJob` script.
    """

    id = "CT001"
    name = "id-counter-behind"
    title = "The id counter is below an id that exists"
    severity = "error"
    since = "0.1.0"
    versions = "Bull, BullMQ, all releases"
    impact = "will overwrite jobs that exist when the next ones are added"
    heals = "no: each add takes the next number, whatever it overwrites"
    basis = "derived"
    moving = False
    dialects = ("bullmq",)
    absence = True
    needs = {
        "jobs": (*JOB_PLACE, "has_record", "record_complete"),
        "queues": (*QUEUE_PLACE, "layout", "counters"),
    }
    sql = """
        WITH numbered AS (
            SELECT dialect, namespace, queue, evidence, db, max(try_cast(job_id AS BIGINT)) AS largest
            FROM jobs
            WHERE dialect = 'bullmq' AND has_record AND record_complete AND regexp_full_match(job_id,
                '[1-9][0-9]{0,14}')
            GROUP BY dialect, namespace, queue, evidence, db
        )
        SELECT dialect, namespace, queue, evidence, db, q.counters['id'] AS counter, n.largest,
            CASE WHEN major_of(q.layout) >= 5 THEN 'error' ELSE 'warning' END AS severity,
            CASE WHEN major_of(q.layout) >= 5 THEN 'certain' ELSE 'possible' END AS certainty,
            coalesce('stands at ' || q.counters['id'], 'is missing') AS _counter
        FROM numbered AS n
        JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
        WHERE coalesce(q.counters['id'], 0) < n.largest
    """
    message = (
        "The id counter of queue {queue} {_counter}, but there is a job {largest}: new jobs will overwrite old ones"
    )
