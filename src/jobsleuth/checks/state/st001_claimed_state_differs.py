"""ST001."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class ClaimedStateDiffers(Check):
    """A task's record claims another state than the structure it is in.

    What it finds
    An Asynq task whose hash field `state` names another state than the structure that holds its id. A task that is in
    the claimed place and in another one besides is left to MB003.

    Why it matters
    Two truths: calls by id (look up, run, archive, delete) trust the field and fail with "not found"; listings, counts
    and the background movers trust the structure, so that is where the task's future lies. A claim of `active` with
    the id in `archived` or `completed` is the scar of a script that stopped half-way: the final error or result time
    was not written and the counters were not raised.

    How it comes about
    Asynq 0.25 or later on Redis before 6.2, or with some 8,000 archived tasks older than 90 days: archiving fails
    after its first writes. Asynq 0.19.0 to 0.23.0: completing a task fails the same way. Else: raw writes.

    What to do next
    Half-archived or half-completed: upgrade Redis to 6.2 or later (Asynq to 0.24 or later); take the outcome from the
    worker's log, since the record does not have it. Else set the field to the structure's state, or move the id.

    False alarms
    None known in a snapshot of one instant.

    References
    hibiken/asynq#1060, hibiken/asynq#1076.
    """

    id = "ST001"
    name = "claimed-state-differs"
    title = "A record claims another state than the structure it is in"
    severity = "error"
    since = "0.1.0"
    versions = "Asynq 0.18+"
    impact = "cannot be looked up, run or deleted by their id"
    heals = "no: the record is rewritten only when the task moves again"
    dialects = ("asynq",)
    absence = False
    needs = {
        "jobs": (*JOB_PLACE, "key", "has_record", "state", "claimed_state"),
        "membership": (*JOB_PLACE, "structure", "decides_state"),
    }
    sql = """
        WITH differing AS (
            SELECT dialect, namespace, queue, job_id, key, state, claimed_state, evidence, db
            FROM jobs
            WHERE dialect = 'asynq' AND has_record AND claimed_state <> state AND state <> 'unknown'
        )
        SELECT d.*,
            CASE
                WHEN d.claimed_state = 'active' AND d.state IN ('archived', 'completed')
                THEN ': it was half-' || d.state || ', its outcome was not written'
                ELSE ': calls by id will fail, the structure decides what happens'
            END AS _meaning
        FROM differing AS d
        WHERE NOT EXISTS (
            SELECT 1 FROM membership AS m
            WHERE m.decides_state AND m.job_id = d.job_id AND m.queue = d.queue AND m.namespace = d.namespace
                AND m.dialect = d.dialect AND m.evidence = d.evidence AND m.db = d.db
                AND CASE WHEN m.structure IN ('group', 'aggregation_set') THEN 'aggregating' ELSE m.structure END
                    = d.claimed_state
        )
    """
    message = "Task {job_id} of queue {queue} is in {state}, but its record says {claimed_state}{_meaning}"
