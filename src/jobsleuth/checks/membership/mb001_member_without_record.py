"""MB001."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class MemberWithoutRecord(Check):
    """An id stands in a queue structure, but its record is gone.

    What it finds
    An id in a structure that decides a job's state (a list, zset or set of waiting, active, delayed, finished … jobs)
    for which no record exists: no hash, or one whose expiry had passed at the snapshot. Wake-up markers are no jobs
    and do not count.

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
        "jobs": (*JOB_PLACE, "job_id_bytes", "key", "has_record", "state"),
        "membership": (*JOB_PLACE, "job_id_bytes", "structure", "decides_state"),
    }
    sql = """
        WITH lost AS MATERIALIZED (
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
        SELECT dialect, namespace, queue, job_id, l.key, evidence, db, l.state,
            string_agg(DISTINCT n.structure, ', ' ORDER BY n.structure) AS structures
        FROM lost AS l
        JOIN named AS n USING (dialect, namespace, queue, job_id, evidence, db)
        WHERE n.job_id_bytes IS NOT DISTINCT FROM l.job_id_bytes
        GROUP BY ALL
    """
    message = "Job {job_id} of queue {queue} is in {structures}, but has no record: its payload is lost"
