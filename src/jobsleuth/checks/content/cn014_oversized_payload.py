"""CN014."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class OversizedPayload(Check):
    """Jobs carry large payloads.

    What it finds
    Jobs whose payload is larger than `payload_limit_bytes` (1 MiB). One finding for each queue, with the number, the
    bytes together and the largest.

    Why it matters
    Every move of such a job carries its data through Redis, replication and each worker's memory; large ones block the
    server and are the first victims of memory limits.

    How it comes about
    Files, images or whole result sets put into jobs.

    What to do next
    Store the data elsewhere and put a reference into the job; BullMQ can refuse larger jobs (`sizeLimit`).

    False alarms
    None, but the limit is a matter of taste: set it in the policy.

    References
    BullMQ 6.7.0, option `sizeLimit`.
    """

    id = "CN014"
    name = "oversized-payload"
    title = "Jobs carry large payloads"
    severity = "warning"
    since = "0.1.0"
    versions = "all releases of Bull, BullMQ, Asynq"
    impact = "carry more data than a queue is made for"
    heals = "no"
    moving = False
    parameters = {"payload_limit_bytes": 1_048_576}
    needs = {
        "jobs": (*JOB_PLACE, "payload_bytes"),
    }
    sql = """
        SELECT dialect, namespace, queue, evidence, db, count(*) AS jobs, sum(payload_bytes)::BIGINT AS nbytes,
            max(payload_bytes) AS largest, arg_max(job_id, (payload_bytes, job_id)) AS example,
            count_text(count(*), 'job') AS _jobs
        FROM jobs
        WHERE payload_bytes > $payload_limit_bytes
        GROUP BY dialect, namespace, queue, evidence, db
    """
    message = "Queue {queue} has {_jobs} with large payloads, the largest of {largest} bytes ({example})"
