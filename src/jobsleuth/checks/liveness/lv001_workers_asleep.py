"""LV001."""

from __future__ import annotations

from jobsleuth.checks.base import Check
from jobsleuth.checks.liveness.ready_queues import NEEDS, PARAMETERS, READY_QUEUES


class WorkersAsleep(Check):
    """Jobs are ready, nothing runs, and the wake-up marker is missing.

    What it finds
    A queue of BullMQ 5 or later that is neither paused nor rate-limited, has jobs in `wait` or `prioritized` for at
    least `quiet_after_ms` (30 s), none in `active`, and no member `0` in `marker`, the entry that wakes idle workers.

    Why it matters
    A blocked worker is woken by the marker alone. Without it the work starts only when a worker polls by itself or
    somebody adds another job. It is an error once the oldest work has waited for `overdue_after_ms` (5 min) and nothing
    shows a living worker; otherwise a warning.

    How it comes about
    BullMQ 5.0 to 5.2 did not set the marker when a job was put back by a retry, a stall recovery, or a finished child.
    Else: a worker took the wake-up and died before it took the job; the key was evicted or deleted.

    What to do next
    Adding any job to the queue, or restarting a worker, wakes it. `details.last_worker_sign_at` tells when a worker was
    last seen; if that is long ago, the workers are the problem. Upgrade releases before 5.3.

    False alarms
    A missing marker by itself is normal: an idle worker pops it, and a healthy queue shows waiting jobs without it for
    a moment. That is why only work ready for longer than any worker's polling interval (10 s) counts. Consumers that
    fetch by hand at long intervals are indistinguishable from sleeping ones.

    References
    taskforcesh/bullmq#2374, taskforcesh/bullmq#2384, taskforcesh/bullmq#2406, taskforcesh/bullmq#2408,
    taskforcesh/bullmq#2466, taskforcesh/bullmq#648.
    """

    id = "LV001"
    name = "workers-asleep"
    title = "Jobs are ready, nothing runs, and the wake-up marker is missing"
    severity = "warning"
    since = "0.1.0"
    versions = "BullMQ 5+"
    impact = "have work that starts only when somebody adds a job or a worker polls"
    heals = "a connected worker polls again within 10 s; with none connected, no"
    basis = "inferred"
    dialects = ("bullmq",)
    needs_time = True
    parameters = PARAMETERS
    needs = NEEDS
    sql = f"""
        WITH {READY_QUEUES}
        SELECT dialect, namespace, queue, evidence, db, ready, ready_since, waited_ms, worker_seen, last_worker_sign_at,
            CASE WHEN waited_ms >= $overdue_after_ms AND NOT worker_seen THEN 'error' ELSE 'warning' END AS severity,
            since_from, since_why, count_text(ready, 'job') AS _jobs,
            duration_text(waited_ms) AS _waited,
            CASE WHEN worker_seen THEN 'though a worker was seen' ELSE 'and no worker was seen' END AS _worker
        FROM asleep
        WHERE dialect = 'bullmq' AND major >= 5 AND wake_ups = 0
    """
    message = (
        "Queue {queue} has {_jobs} ready for up to {_waited}, none active and no wake-up marker, {_worker}: "
        "its workers are asleep or gone"
    )
