"""PL002."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class UnparsablePayload(Check):
    """A payload cannot be parsed, where those of its neighbours can.

    What it finds
    A job whose payload is no JSON where at least two others of its queue are, and either it is the only one that is
    not, or at most one of ten is not, or it begins as JSON does (`{` or `[`) and most of the others can be parsed.

    Why it matters
    Its worker will most likely fail on it, and may do so again and again, or lose it.

    How it comes about
    A producer of another version or language, a payload that was cut, a value pushed by hand.

    What to do next
    Look at the payload (`jobsleuth job`; where the case keeps none, in the evidence: `jobsleuth cat`), and at what the
    worker does with one it cannot read.

    False alarms
    Queues that hold two kinds of payloads on purpose. With few payloads that may be chance, so it is possible only
    where fewer than nine can be parsed and the payload does not begin as JSON does.

    References
    RFC 8259.
    """

    id = "PL002"
    name = "unparsable-payload"
    title = "A payload is no JSON where those of its neighbours are"
    severity = "warning"
    since = "0.1.0"
    versions = "plain lists and described layouts"
    impact = "hold a payload that their worker cannot read, it seems"
    basis = "inferred"
    moving = False
    dialects = ("layouts", "lists")
    needs = {
        "jobs": (*JOB_PLACE, "state", "payload_format", "payload_begins_json", "payload_bytes", "key"),
    }
    sql = """
        WITH formats AS (
            SELECT dialect, namespace, queue, evidence, db, count(*) FILTER (payload_format = 'json') AS parsed,
                count(*) AS payloads
            FROM jobs
            WHERE dialect IN ('lists', 'layouts') AND payload_format IS NOT NULL
            GROUP BY ALL
        )
        SELECT dialect, namespace, queue, j.job_id, j.key, evidence, db, j.state, j.payload_bytes, f.parsed, f.payloads,
            CASE WHEN j.begun OR f.parsed >= 9 THEN 'certain' ELSE 'possible' END AS certainty
        FROM (
            SELECT dialect, namespace, queue, job_id, key, evidence, db, state, payload_bytes,
                coalesce(payload_begins_json, FALSE) AS begun
            FROM jobs
            WHERE dialect IN ('lists', 'layouts') AND payload_format IN ('opaque', 'empty')
        ) AS j
        JOIN formats AS f USING (dialect, namespace, queue, evidence, db)
        WHERE f.parsed >= 2
            AND (
                f.payloads - f.parsed = 1
                OR (f.payloads - f.parsed) * 10 <= f.payloads
                OR (j.begun AND f.parsed * 2 > f.payloads)
            )
    """
    message = (
        "The payload of job {job_id} of queue {queue} ({state}) is no JSON; {parsed} of {payloads} in the queue are"
    )
