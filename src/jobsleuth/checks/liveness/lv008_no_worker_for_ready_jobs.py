"""LV008."""

from __future__ import annotations

from jobsleuth.checks.base import Check
from jobsleuth.checks.liveness.ready_queues import NEEDS, PARAMETERS, READY_QUEUES


class NoWorkerForReadyJobs(Check):
    """Jobs are ready, nothing runs, and nothing shows a worker.

    What it finds
    A queue that is neither paused nor rate-limited, has had jobs ready for at least `quiet_after_ms` (30 s), none
    active, and no sign of a worker: for Asynq no live server that serves the queue, for BullMQ no live `stalled-check`
    and no lock, start or finish within `worker_sign_ms` (60 s). Queues without a wake-up marker belong to LV001.

    Why it matters
    Nobody takes the work. A warning, since workers may be scaled to zero on purpose; an error once the oldest work has
    waited for `overdue_after_ms` (5 min).

    How it comes about
    Workers down, connected to another Redis, database, prefix or queue name than the producers; all paused locally;
    after a failover, workers that do not reconnect.

    What to do next
    Compare prefix, database, queue name (case counts) of producers and workers. `details.last_worker_sign_at` tells
    when the last worker was seen, `details.ready_since` what the oldest waiting job says.

    False alarms
    Asynq registers servers for ten seconds at a time, in keys that a cluster keeps on other shards: a dump of one shard
    cannot show them. Workers that skip stalled checks leave fewer signs.

    References
    taskforcesh/bullmq#648, taskforcesh/bullmq#2466, nestjs/bull#2584.
    """

    id = "LV008"
    name = "no-worker-for-ready-jobs"
    title = "Jobs are ready, nothing runs, and nothing shows a worker"
    severity = "warning"
    since = "0.1.0"
    versions = "all releases"
    impact = "have work that nobody takes"
    heals = "a worker of the queue takes the work as soon as one runs"
    basis = "inferred"
    needs_time = True
    parameters = PARAMETERS
    needs = NEEDS
    sql = f"""
        WITH {READY_QUEUES}
        SELECT dialect, namespace, queue, evidence, db, ready, ready_since, waited_ms, last_worker_sign_at,
            CASE WHEN waited_ms >= $overdue_after_ms THEN 'error' ELSE 'warning' END AS severity,
            since_from, since_why, count_text(ready, 'job') AS _jobs,
            duration_text(waited_ms) AS _waited
        FROM asleep
        WHERE NOT worker_seen AND NOT (dialect = 'bullmq' AND major >= 5 AND wake_ups = 0)
    """
    message = "Queue {queue} has {_jobs} ready for up to {_waited}, none active, and nothing shows a worker"
