"""RL008."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, SOURCE, TARGET, Check


class BlockedByFailedChild(Check):
    """A parent is blocked by a child that failed.

    What it finds
    A parent in `waiting-children` whose `dependencies` still name a child that is in `failed`. One finding for each
    parent.

    Why it matters
    Without a policy for failures (`failParentOnFailure` and its kin) a failed child blocks its parent for ever. It is
    by design, but often a surprise: the whole flow stands still and nothing is in error but the child.

    How it comes about
    The child used up its attempts, and neither child nor flow says what is to happen then.

    What to do next
    Retry the child, not the parent: when it completes, the parent goes on. Or remove it, or let the parent forget it.
    For new flows choose a policy for failures.

    False alarms
    None, but it may be what you want: accept it in the baseline then.

    References
    taskforcesh/bullmq#3122, taskforcesh/bullmq#1333.
    """

    id = "RL008"
    name = "blocked-by-failed-child"
    title = "A parent is blocked by a child that failed"
    severity = "warning"
    since = "0.1.0"
    versions = "BullMQ 1.16+"
    impact = "wait for a child that failed: nothing happens until it is retried or removed"
    heals = "no: only a retry or the removal of the child releases the parent"
    dialects = ("bullmq",)
    absence = False
    needs = {
        "membership": (*JOB_PLACE, "structure", "due_at"),
        "relations": (*SOURCE, *TARGET, "dialect", "kind", "via", "evidence", "db"),
    }
    sql = """
        WITH parents AS MATERIALIZED (
            SELECT dialect, namespace, queue, job_id, evidence, db
            FROM membership
            WHERE structure = 'waiting-children' AND dialect = 'bullmq'
        ),
        links AS MATERIALIZED (
            SELECT DISTINCT r.dialect, r.source_namespace AS namespace, r.source_queue AS queue, r.source_id AS job_id,
                r.target_namespace, r.target_queue, r.target_id, r.evidence, r.db
            FROM relations AS r
            SEMI JOIN parents AS p
                ON p.dialect = r.dialect AND p.namespace = r.target_namespace AND p.queue = r.target_queue
                    AND p.job_id = r.target_id AND p.evidence = r.evidence AND p.db = r.db
            WHERE r.kind = 'parent' AND r.via = 'dependencies'
        ),
        failed AS (
            SELECT DISTINCT m.dialect, m.namespace, m.queue, m.job_id, m.due_at, m.evidence, m.db
            FROM membership AS m
            SEMI JOIN links AS l USING (dialect, namespace, queue, job_id, evidence, db)
            WHERE m.structure = 'failed'
        )
        SELECT l.dialect, l.target_namespace AS namespace, l.target_queue AS queue, l.target_id AS job_id, l.evidence,
            l.db,
            count(*) AS failed, count_text(count(*), 'failed child job') AS _kids,
            list_sort(list(l.queue || ':' || l.job_id))[:5] AS children,
            min(f.due_at) AS since_from, min(f.due_at) AS since_to,
            'when the first of these children failed' AS since_why, 'derived' AS since_basis,
            'safe' AS retry, 'a parent that waits for children has not started its own work' AS retry_why,
            array_to_string(list_sort(list(l.queue || ':' || l.job_id))[:5], ', ') AS _children
        FROM links AS l
        JOIN failed AS f USING (dialect, namespace, queue, job_id, evidence, db)
        GROUP BY l.dialect, l.target_namespace, l.target_queue, l.target_id, l.evidence, l.db
    """
    message = "Parent {job_id} of queue {queue} is blocked by {_kids}: {_children}"
