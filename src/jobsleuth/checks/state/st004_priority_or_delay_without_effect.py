"""ST004."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, Check


class PriorityOrDelayWithoutEffect(Check):
    """Waiting jobs have a priority or a delay that has no effect.

    What it finds
    Jobs in `wait` whose record holds a priority or a delay. One finding for each queue.

    Why it matters
    It explains an order that surprises: these jobs run in the order of the list, before or after others than their
    priority says.

    How it comes about
    Promoting or retrying many at once puts them into `wait` as they are; `Job.retry` does so up to 6.3.10; a parent
    that is released because its last child was removed.

    What to do next
    Nothing; change the priority again (`Job.changePriority`) if the order matters.

    False alarms
    It is information.

    References
    taskforcesh/bullmq#2183; BullMQ 6.3.11 changelog.
    """

    id = "ST004"
    name = "priority-or-delay-without-effect"
    title = "Waiting jobs have a priority or a delay that has no effect"
    severity = "info"
    since = "0.1.0"
    versions = "BullMQ 4+"
    impact = "wait in line although their record gives them a priority or a delay"
    heals = "no: the order in the list is what counts"
    basis = "derived"
    dialects = ("bullmq",)
    absence = False
    needs = {
        "jobs": (*JOB_PLACE, "state", "priority", "delay_ms"),
        "queues": (*QUEUE_PLACE, "layout"),
    }
    sql = """
        SELECT dialect, namespace, queue, evidence, db, j.prioritized, j.delayed, j.example,
            count_text(j.prioritized, 'waiting job') || ' with a priority' AS _prioritized,
            j.delayed || ' with a delay' AS _delayed
        FROM (
            SELECT dialect, namespace, queue, evidence, db,
                count(*) FILTER (priority > 0) AS prioritized, count(*) FILTER (delay_ms > 0) AS delayed,
                min(job_id) AS example
            FROM jobs
            WHERE dialect = 'bullmq' AND state = 'waiting' AND (priority > 0 OR delay_ms > 0)
            GROUP BY dialect, namespace, queue, evidence, db
        ) AS j
        JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
        WHERE major_of(q.layout) >= 4
    """
    message = "Queue {queue} has {_prioritized} and {_delayed} that have no effect in its list, for example {example}"
