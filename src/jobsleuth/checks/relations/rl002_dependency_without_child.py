"""RL002."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, SOURCE, TARGET, Check


class DependencyWithoutChild(Check):
    """A parent waits for a child that does not exist.

    What it finds
    A member of a job's `dependencies` set for which there is no job record. One finding for each parent, with the
    number of such children and up to five of them.

    Why it matters
    A parent in `waiting-children` goes on when its last dependency ends, and this one never will. Everything above it
    in the flow waits too.

    How it comes about
    The child was deleted by hand or by eviction; a partial restore. Or it failed and was removed by a release that does
    not tell the parent: up to 1.63 when `removeOnFail` with a number trims failed jobs, up to 3.2 with
    `removeOnFail: true`, up to 1.67 at least when the queue is drained.

    What to do next
    Decide whether the child's work was done. Then take the child's key out of the set (`SREM`) and, if it was the last
    one, move the parent to `wait`; `Job.removeChildDependency` of newer releases does both.

    False alarms
    A parent that is not waiting (a processor adds its own children, or a child failed it) is only a warning.

    References
    taskforcesh/bullmq#1752, taskforcesh/bullmq#2644.
    """

    id = "RL002"
    name = "dependency-without-child"
    title = "A parent waits for a child that does not exist"
    severity = "error"
    since = "0.1.0"
    versions = "BullMQ 1.16+"
    impact = "will never run: a child they wait for does not exist"
    heals = "no: a child that does not exist cannot end"
    dialects = ("bullmq",)
    needs = {
        "jobs": (*JOB_PLACE, "has_record"),
        "membership": (*JOB_PLACE, "structure"),
        "relations": (*SOURCE, *TARGET, "dialect", "kind", "via", "key", "evidence", "db"),
    }
    sql = """
        WITH links AS MATERIALIZED (
            SELECT DISTINCT dialect, source_namespace, source_queue, source_id, target_namespace, target_queue,
                target_id,
                key, evidence, db
            FROM relations
            WHERE kind = 'parent' AND via = 'dependencies' AND dialect = 'bullmq'
        ),
        recorded AS MATERIALIZED (
            SELECT j.dialect, j.namespace, j.queue, j.job_id, j.evidence, j.db
            FROM jobs AS j
            SEMI JOIN links AS l
                ON l.dialect = j.dialect AND l.source_namespace = j.namespace AND l.source_queue = j.queue
                    AND l.source_id = j.job_id AND l.evidence = j.evidence AND l.db = j.db
            WHERE j.has_record
        ),
        broken AS MATERIALIZED (
            SELECT l.dialect, l.target_namespace AS namespace, l.target_queue AS queue, l.target_id AS job_id,
                min(l.key) AS key, l.evidence, l.db,
                count(*) AS missing,
                list_sort(list(l.source_queue || ':' || l.source_id))[:5] AS children
            FROM links AS l
            ANTI JOIN recorded AS r
                ON l.dialect = r.dialect AND l.source_namespace = r.namespace AND l.source_queue = r.queue
                    AND l.source_id = r.job_id AND l.evidence = r.evidence AND l.db = r.db
            GROUP BY ALL
        ),
        waiting AS (
            SELECT DISTINCT m.dialect, m.namespace, m.queue, m.job_id, m.evidence, m.db
            FROM membership AS m
            SEMI JOIN broken AS b USING (dialect, namespace, queue, job_id, evidence, db)
            WHERE m.structure = 'waiting-children'
        )
        SELECT b.*,
            CASE WHEN w.job_id IS NULL THEN 'warning' ELSE 'error' END AS severity,
            count_text(b.missing, 'child job') AS _kids,
            array_to_string(b.children, ', ') AS _children,
            CASE WHEN w.job_id IS NULL THEN 'lists' ELSE 'waits for' END AS _verb
        FROM broken AS b
        LEFT JOIN waiting AS w USING (dialect, namespace, queue, job_id, evidence, db)
    """
    message = "Parent {job_id} of queue {queue} {_verb} {_kids} without a record: {_children}"
