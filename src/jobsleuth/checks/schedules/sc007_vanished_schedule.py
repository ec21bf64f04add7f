"""SC007."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class VanishedSchedule(Check):
    """A schedule used to run and is no longer registered.

    What it finds
    At least `least_runs` (3) ended jobs of a schedule that `repeat` does not list and of which no job is pending.
    `details` holds the mean interval and the last run.

    Why it matters
    Nothing runs it any more. If nobody removed it on purpose, it was lost, and nobody was told.

    How it comes about
    Several processes that register their schedules at a deploy and remove what they do not know; a `repeat` key that
    was lost; or a schedule removed on purpose.

    What to do next
    Compare with what your code registers; register it again if it should be there.

    False alarms
    A schedule that was removed on purpose leaves the same traces: that is why the finding is only possible.

    References
    taskforcesh/bullmq#3381.
    """

    id = "SC007"
    name = "vanished-schedule"
    title = "A schedule used to run and is no longer registered"
    severity = "warning"
    since = "0.1.0"
    versions = "BullMQ 1.86+"
    impact = "used to run regularly and are no longer registered"
    heals = "no: only registering it again"
    basis = "inferred"
    dialects = ("bullmq",)
    parameters = {"least_runs": 3}
    needs = {
        "jobs": (*QUEUE_PLACE, "state", "has_record", "finished_at", "schedule_id"),
        "schedules": (*QUEUE_PLACE, "schedule_id", "next_at"),
    }
    sql = """
        WITH runs AS MATERIALIZED (
            SELECT dialect, namespace, queue, schedule_id, evidence, db,
                count(*) AS runs,
                count(*) FILTER (state NOT IN ('completed', 'failed')) AS pending,
                max(finished_at) AS last_run_at,
                (epoch_ms(max(finished_at)) - epoch_ms(min(finished_at))) // greatest(count(*) - 1, 1) AS every_ms
            FROM jobs
            WHERE dialect = 'bullmq' AND schedule_id IS NOT NULL AND has_record
            GROUP BY ALL
            HAVING count(*) >= $least_runs
        ),
        listed AS (
            SELECT DISTINCT dialect, namespace, queue, schedule_id, evidence, db
            FROM schedules
            WHERE next_at IS NOT NULL
        )
        SELECT r.* EXCLUDE (pending), 'possible' AS certainty, r.schedule_id AS _same,
            duration_text(r.every_ms) AS _every,
            strftime(r.last_run_at, '%Y-%m-%d %H:%M:%S') AS _last
        FROM runs AS r
        ANTI JOIN listed AS l USING (dialect, namespace, queue, schedule_id, evidence, db)
        WHERE r.pending = 0 AND r.last_run_at IS NOT NULL
    """
    message = (
        "Schedule {schedule_id} of queue {queue} ran about every {_every}, last at {_last} UTC, and is no "
        "longer registered"
    )
