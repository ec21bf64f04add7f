"""RL003."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, SOURCE, TARGET, Check


class DependencyOnCompletedChild(Check):
    """A parent waits for a child that has already completed.

    What it finds
    A member of a job's `dependencies` set whose job is in `completed`. One finding for each parent.

    Why it matters
    The completion takes the child out of the set, once. It will not come again, so the parent waits for ever.

    How it comes about
    Two flows with one child id, of which the second was added when the child had completed (old releases); a set
    written by hand or restored from an older copy.

    What to do next
    Take the child out of the set (`SREM`); if it was the last one, move the parent from `waiting-children` to `wait`.
    The child's result is in its own record.

    False alarms
    None known.

    References
    BullMQ 6.7.0 `updateParentDepsIfNeeded` and flow scripts.
    """

    id = "RL003"
    name = "dependency-on-completed-child"
    title = "A parent waits for a child that has already completed"
    severity = "error"
    since = "0.1.0"
    versions = "BullMQ 1.16+"
    impact = "will never run: the child they wait for has already completed"
    heals = "no: a child that has completed does not end again"
    dialects = ("bullmq",)
    absence = False
    needs = {
        "membership": (*JOB_PLACE, "structure"),
        "relations": (*SOURCE, *TARGET, "dialect", "kind", "via", "key", "evidence", "db"),
    }
    sql = """
        WITH links AS MATERIALIZED (
            SELECT DISTINCT dialect, source_namespace AS namespace, source_queue AS queue, source_id AS job_id,
                target_namespace, target_queue, target_id, key, evidence, db
            FROM relations
            WHERE kind = 'parent' AND via = 'dependencies' AND dialect = 'bullmq'
        ),
        done AS MATERIALIZED (
            SELECT m.dialect, m.namespace, m.queue, m.job_id, m.evidence, m.db
            FROM membership AS m
            SEMI JOIN links AS l USING (dialect, namespace, queue, job_id, evidence, db)
            WHERE m.structure = 'completed'
        )
        SELECT l.dialect, l.target_namespace AS namespace, l.target_queue AS queue, l.target_id AS job_id,
            min(l.key) AS key, l.evidence, l.db,
            count(*) AS completed, count_text(count(*), 'child job') AS _kids,
            list_sort(list(l.queue || ':' || l.job_id))[:5] AS children,
            array_to_string(list_sort(list(l.queue || ':' || l.job_id))[:5], ', ') AS _children
        FROM links AS l
        SEMI JOIN done AS d USING (dialect, namespace, queue, job_id, evidence, db)
        GROUP BY l.dialect, l.target_namespace, l.target_queue, l.target_id, l.evidence, l.db
    """
    message = "Parent {job_id} of queue {queue} waits for {_kids} already completed: {_children}"
