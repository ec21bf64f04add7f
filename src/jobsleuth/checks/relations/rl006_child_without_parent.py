"""RL006."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, SOURCE, TARGET, Check


class ChildWithoutParent(Check):
    """A job names a parent that does not exist.

    What it finds
    A job whose `parentKey` names a job without a record.

    Why it matters
    The flow was cut off: the child may still run, but nothing continues with its result. Where the parent exists under
    another prefix, the reference is misspelled and the parent waits for a child that will never report: an error.

    How it comes about
    The parent was removed (on completion, or when another child failed it) while children were left; it was evicted or
    deleted; a `parent` option given without the prefix of its queue.

    What to do next
    With "did you mean", correct `parentKey` and `parent` of the child. Else find out whether the flow was completed;
    remove children that have not run if not.

    False alarms
    When all children of the missing parent completed, it has most likely completed too and was removed: then it is
    information.

    References
    taskforcesh/bullmq#2229, taskforcesh/bullmq#811.
    """

    id = "RL006"
    name = "child-without-parent"
    title = "A job names a parent that does not exist"
    severity = "warning"
    since = "0.1.0"
    versions = "BullMQ 1.18+"
    impact = "have a parent that does not exist: nobody will use their result"
    heals = "no: a parent that is gone does not come back"
    dialects = ("bullmq",)
    needs = {
        "jobs": (*JOB_PLACE, "state", "has_record"),
        "relations": (*SOURCE, *TARGET, "dialect", "kind", "via", "key", "evidence", "db"),
    }
    sql = """
        WITH links AS MATERIALIZED (
            SELECT DISTINCT dialect, source_namespace, source_queue, source_id, target_namespace AS namespace,
                target_queue AS queue, target_id AS job_id, key, evidence, db
            FROM relations
            WHERE kind = 'parent' AND via = 'parentKey' AND dialect = 'bullmq'
        ),
        recorded AS MATERIALIZED (
            SELECT j.dialect, j.namespace, j.queue, j.job_id, j.evidence, j.db
            FROM jobs AS j
            SEMI JOIN links AS l USING (dialect, queue, job_id, evidence, db)
            WHERE j.has_record
        ),
        cut_off AS MATERIALIZED (
            SELECT l.*
            FROM links AS l
            ANTI JOIN recorded AS r USING (dialect, namespace, queue, job_id, evidence, db)
        ),
        children AS MATERIALIZED (
            SELECT c.*, j.state
            FROM cut_off AS c
            LEFT JOIN (SELECT dialect, namespace, queue, job_id, state, evidence, db FROM jobs) AS j
                ON j.dialect = c.dialect AND j.namespace = c.source_namespace AND j.queue = c.source_queue
                    AND j.job_id = c.source_id AND j.evidence = c.evidence AND j.db = c.db
        ),
        families AS (
            SELECT dialect, namespace, queue, job_id, evidence, db,
                bool_and(state IS NOT DISTINCT FROM 'completed') AS all_completed
            FROM children
            GROUP BY ALL
        ),
        elsewhere AS (
            SELECT dialect, queue, job_id, evidence, db, min(namespace) AS meant
            FROM recorded
            GROUP BY ALL
        )
        SELECT c.dialect, c.source_namespace AS namespace, c.source_queue AS queue, c.source_id AS job_id, c.key,
            c.evidence, c.db, c.state, c.namespace AS parent_namespace, c.queue AS parent_queue, c.job_id AS parent_id,
            e.meant,
            CASE WHEN e.meant IS NOT NULL THEN 'error' WHEN f.all_completed THEN 'info' ELSE 'warning' END AS severity,
            base_of(c.namespace, c.queue) || ':' || c.job_id AS _parent,
            CASE WHEN e.meant IS NULL THEN ''
                ELSE '; did you mean ' || base_of(e.meant, c.queue) || ':' || c.job_id || '?' END AS _meant
        FROM children AS c
        JOIN families AS f USING (dialect, namespace, queue, job_id, evidence, db)
        LEFT JOIN elsewhere AS e USING (dialect, queue, job_id, evidence, db)
    """
    message = "Job {job_id} of queue {queue} ({state}) names the parent {_parent}, which does not exist{_meant}"
