"""MB001."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check
from jobsleuth.checks.membership.other_prefix import NEEDS, OTHER_PREFIX


class MemberWithoutRecord(Check):
    """An id stands in a queue structure, but its record is gone.

    What it finds
    An id in a structure that decides a job's state (a list, zset or set of waiting, active, delayed, finished … jobs)
    for which no record exists: no hash, or one whose expiry had passed at the snapshot. Wake-up markers are no jobs
    and do not count, nor ids whose record lies under another prefix (MB013).

    Why it matters
    The payload is lost; only the id is left. When a worker reaches the id, BullMQ runs an empty job that may end in
    `completed` with no data, and Asynq takes a task that it can neither run nor recover. A single such id can make
    listings and statistics of the queue fail.

    How it comes about
    Eviction under an `allkeys-*` memory policy, keys deleted by hand or by a clean-up script, a partial restore, or a
    script that stopped half-way. Neither library leaves this behind in one atomic snapshot by itself.

    What to do next
    Look the id up in the queue's events and in your own logs to learn what the job was. Check `maxmemory-policy`
    (`noeviction` is what both libraries ask for). If the work still matters, add it again from its source; then remove
    the id from the structure named in the finding.

    False alarms
    None known in a snapshot of one instant. In an export taken over seconds the job may have finished meanwhile: the
    finding is then only possible.

    References
    taskforcesh/bullmq#248, taskforcesh/bullmq#1046, OptimalBits/bull#320, hibiken/asynq#1053, hibiken/asynq#690.
    """

    id = "MB001"
    name = "member-without-record"
    title = "An id is in a queue structure but its record is gone"
    severity = "error"
    since = "0.1.0"
    versions = "all releases of Bull, BullMQ, Asynq 0.18+"
    impact = "hold an id without a payload: what they were to do is lost"
    heals = "no: a worker that reaches the id makes it a fragment of a record"
    needs = {
        "keys": NEEDS["keys"],
        "jobs": (*NEEDS["jobs"], "job_id_bytes"),
        "membership": (*JOB_PLACE, "job_id_bytes", "structure", "decides_state"),
    }
    sql = f"""
        WITH {OTHER_PREFIX},
        lost AS MATERIALIZED (
            SELECT dialect, namespace, queue, job_id, job_id_bytes, key, evidence, db, state
            FROM jobs
            -- What is pending in a stream's group without an entry is judged by SM001.
            WHERE has_record = FALSE AND dialect <> 'streams'
        ),
        named AS MATERIALIZED (
            SELECT m.dialect, m.namespace, m.queue, m.job_id, m.job_id_bytes, m.structure, m.evidence, m.db
            FROM membership AS m
            SEMI JOIN lost AS l USING (dialect, namespace, queue, job_id, evidence, db)
            WHERE m.decides_state
        )
        SELECT * EXCLUDE (only_in),
            CASE
                WHEN dialect = 'bullmq' AND only_in IN ('completed', 'failed')
                    THEN 'when the retention of jobs that end later drops the id, if they have one'
                WHEN dialect <> 'asynq' OR only_in IS NULL THEN NULL
                WHEN only_in = 'completed' THEN 'at the end of its retention: the janitor drops the id'
                WHEN only_in = 'archived' THEN 'when the archive is trimmed, by age or by number'
                WHEN only_in = 'active' THEN 'no: no release recovers a task without a message'
                WHEN only_in IN ('scheduled', 'retry')
                    THEN 'no: when it is due it becomes a pending task without a message'
                WHEN only_in = 'pending' THEN 'no: a server that takes it leaves an active task without a message'
                ELSE 'when its group is aggregated: the aggregator is given an empty task'
            END AS heals
        FROM (
            SELECT dialect, namespace, queue, job_id, l.key, evidence, db, l.state,
                string_agg(DISTINCT n.structure, ', ' ORDER BY n.structure) AS structures,
                CASE WHEN count(DISTINCT n.structure) = 1 THEN min(n.structure) END AS only_in
            FROM lost AS l
            ANTI JOIN elsewhere AS e USING (dialect, namespace, queue, job_id, evidence, db)
            JOIN named AS n USING (dialect, namespace, queue, job_id, evidence, db)
            WHERE n.job_id_bytes IS NOT DISTINCT FROM l.job_id_bytes
            GROUP BY ALL
        )
    """
    message = "Job {job_id} of queue {queue} is in {structures}, but has no record: its payload is lost"
