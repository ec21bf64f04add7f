"""UQ006."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class RetainedCustomIds(Check):
    """Finished jobs keep ids that were chosen by hand.

    What it finds
    Jobs in `completed` or `failed` whose id the caller chose: not the counter's, not a schedule's, not a flow's UUID.
    One finding for each queue and state.

    Why it matters
    Adding a job whose id exists does nothing and says nothing. Whoever uses ids of his own to make work unique has jobs
    vanish until the old ones are removed.

    How it comes about
    `jobId` together with `removeOnComplete` or `removeOnFail` that keep jobs.

    What to do next
    If jobs go missing, remove finished ones with such ids at once (`removeOnComplete: true`), or use deduplication
    instead of ids.

    False alarms
    Many use custom ids just so: it is information and runs only where the policy enables it.

    References
    OptimalBits/bull#1828.
    """

    id = "UQ006"
    name = "retained-custom-ids"
    title = "Finished jobs keep ids that were chosen by hand"
    severity = "info"
    since = "0.1.0"
    versions = "Bull, BullMQ, all releases"
    impact = "keep their ids from being used again"
    heals = "when retention removes them"
    basis = "derived"
    opt_in = True
    dialects = ("bullmq",)
    absence = False
    needs = {
        "jobs": (*JOB_PLACE, "state", "has_record"),
    }
    sql = """
        SELECT dialect, namespace, queue, evidence, db, state, count(*) AS jobs, min(job_id) AS example, state AS _same,
            count_text(count(*), state || ' job') AS _jobs
        FROM jobs
        WHERE dialect = 'bullmq' AND has_record AND state IN ('completed', 'failed')
            AND NOT regexp_full_match(job_id, '-?\\d+|repeat:[\\s\\S]*')
            AND NOT regexp_full_match(job_id, '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}')
        GROUP BY dialect, namespace, queue, evidence, db, state
    """
    message = (
        "Queue {queue} keeps {_jobs} with an id chosen by hand, for example {example}: adding it again does nothing"
    )
