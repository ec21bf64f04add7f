"""RL005."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, SOURCE, TARGET, Check


class ChildUnknownToParent(Check):
    """A child has a parent that waits, but the parent does not know it.

    What it finds
    A job that has not ended, whose `parentKey` names a parent in `waiting-children`, while none of that parent's four
    collections (dependencies, processed, failed, unsuccessful) names the child.

    Why it matters
    The parent does not wait for this child and may run before it has ended, without its result.

    How it comes about
    A failed child with `removeDependencyOnFailure` that was retried; until 6.3.11 any retried child; a flow that used
    an id twice; raw commands.

    What to do next
    If the parent must not run first, add the child's key to its `dependencies` set before the last listed child ends.

    False alarms
    A retried child that its parent was told to forget (`removeDependencyOnFailure`) is in order.

    References
    BullMQ 6.3.11 changelog; taskforcesh/bullmq#2644.
    """

    id = "RL005"
    name = "child-unknown-to-parent"
    title = "A child has a parent that waits, but the parent does not know it"
    severity = "warning"
    since = "0.1.0"
    versions = "BullMQ 1.57.2+"
    impact = "will end without their parent taking notice"
    heals = "no: a child is listed when it is added or retried, not later"
    dialects = ("bullmq",)
    needs = {
        "jobs": ("state", "has_record", "key"),
        "membership": (*JOB_PLACE, "structure"),
        "relations": (*SOURCE, *TARGET, "dialect", "kind", "via", "evidence", "db"),
    }
    sql = """
        WITH parents AS MATERIALIZED (
            SELECT dialect, namespace, queue, job_id, evidence, db
            FROM membership
            WHERE structure = 'waiting-children' AND dialect = 'bullmq'
        ),
        links AS MATERIALIZED (
            SELECT r.dialect, r.source_namespace, r.source_queue, r.source_id, r.target_namespace, r.target_queue,
                r.target_id, r.via, r.evidence, r.db
            FROM relations AS r
            SEMI JOIN parents AS p
                ON p.dialect = r.dialect AND p.namespace = r.target_namespace AND p.queue = r.target_queue
                    AND p.job_id = r.target_id AND p.evidence = r.evidence AND p.db = r.db
            WHERE r.kind = 'parent'
        ),
        waited_for AS (
            SELECT DISTINCT target_namespace, target_queue, target_id, evidence,
                db FROM links WHERE via = 'dependencies'
        ),
        unlisted AS MATERIALIZED (
            SELECT dialect, source_namespace AS namespace, source_queue AS queue, source_id AS job_id, evidence, db,
                target_queue AS parent_queue, target_id AS parent_id
            FROM links
            -- A parent that waits for nothing at all is RL001's.
            SEMI JOIN waited_for USING (target_namespace, target_queue, target_id, evidence, db)
            GROUP BY ALL
            HAVING bool_and(via = 'parentKey')
        )
        SELECT dialect, namespace, queue, job_id, j.key, evidence, db, j.state, u.parent_queue, u.parent_id
        FROM unlisted AS u
        JOIN (
            SELECT dialect, namespace, queue, job_id, key, evidence, db, state
            FROM jobs
            WHERE has_record AND state IN ('waiting', 'active', 'delayed', 'prioritized', 'waiting-children')
        ) AS j USING (dialect, namespace, queue, job_id, evidence, db)
    """
    message = (
        "Job {job_id} of queue {queue} is a child of {parent_id} in {parent_queue}, which waits, but not for this child"
    )
