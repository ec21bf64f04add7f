"""ST003."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class DeferredFailureOnFinished(Check):
    """A finished job still carries a failure to come.

    What it finds
    A job in `completed` or `failed` whose record holds `defa`, the reason for which it must fail when a worker takes
    it.

    Why it matters
    Failing clears the field, so the job ended in another way than was planned for it: it may have completed although a
    child had failed it.

    How it comes about
    A worker of a release before 5.49.2 took it, which does not know the field; raw writes.

    What to do next
    Upgrade all workers of the queue; see whether the result may be used.

    False alarms
    It is information.

    References
    BullMQ 5.49.2 changelog.
    """

    id = "ST003"
    name = "deferred-failure-on-finished"
    title = "A finished job still carries a failure to come"
    severity = "info"
    since = "0.1.0"
    versions = "BullMQ 5.49.2+"
    impact = "carry a failure that was to come at their next start"
    heals = "no: it is cleared when a job fails"
    dialects = ("bullmq",)
    absence = False
    needs = {
        "jobs": (*JOB_PLACE, "state", "deferred_failure", "key"),
    }
    sql = """
        SELECT dialect, namespace, queue, job_id, key, evidence, db, state, deferred_failure
        FROM jobs
        WHERE dialect = 'bullmq' AND state IN ('completed', 'failed') AND deferred_failure IS NOT NULL
    """
    message = "Job {job_id} of queue {queue} is {state}, but was to fail at its next start: {deferred_failure}"
