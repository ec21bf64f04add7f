"""CN002."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class SchemaDrift(Check):
    """Messages hold fields that no known release writes.

    What it finds
    Fields of a message whose number is not in the schema jobsleuth knows, as `number:wire type`; one finding for each
    queue and set of fields, with the number of jobs and one of their ids. The bytes are kept in the case.

    Why it matters
    A newer release or a fork writes to this queue. Workers of an older release that rewrite such a message (a retry, a
    completion) drop the fields silently.

    How it comes about
    A rolling upgrade, a fork of the library, a producer in another language.

    What to do next
    Upgrade workers before producers, and let no older worker retry these jobs while the fields matter. If the release
    is newer than this jobsleuth, look for a newer jobsleuth.

    False alarms
    None; it is information.

    References
    hibiken/asynq v0.26.0, which added field 15.
    """

    id = "CN002"
    name = "schema-drift"
    title = "Messages hold fields that no known release writes"
    severity = "info"
    since = "0.1.0"
    versions = "Asynq 0.18+"
    impact = "may lose fields when an older worker rewrites them"
    heals = "no: it is no fault by itself"
    moving = False
    needs = {
        "jobs": (*JOB_PLACE, "unknown_fields"),
    }
    sql = """
        SELECT dialect, namespace, queue, evidence, db, fields, count(*) AS jobs, min(job_id) AS example,
            array_to_string(fields, ', ') AS _same, array_to_string(fields, ', ') AS _fields,
            count_text(count(*), 'job') AS _jobs
        FROM (
            SELECT dialect, namespace, queue, job_id, evidence, db,
                list_sort(list_distinct(unknown_fields)) AS fields
            FROM jobs
            WHERE len(unknown_fields) > 0
        )
        GROUP BY ALL
    """
    message = "Unknown message fields {_fields} in {_jobs} of queue {queue}, for example {example}"
