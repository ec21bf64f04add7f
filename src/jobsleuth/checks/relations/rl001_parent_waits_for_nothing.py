"""RL001."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, TARGET, Check


class ParentWaitsForNothing(Check):
    """A parent waits for children, but none is left to wait for.

    What it finds
    An id in `waiting-children` whose record exists and whose set `dependencies` is missing or empty.

    Why it matters
    Only the end of a child moves a parent on, and no child can end any more. The parent, and everything above it in the
    flow, waits for ever; the children's results are there and nobody uses them.

    How it comes about
    The set was evicted or deleted by hand, or a script that took out the last child failed half-way. The library
    releases the parent in the same script that empties the set.

    What to do next
    See in the parent's `processed` hash (`jobsleuth job CASE ID`) whether all children ended well. If so, add the
    parent's work again, or move its id from `waiting-children` to `wait` while no worker runs.

    False alarms
    None known: never seen in healthy queues under load.

    References
    taskforcesh/bullmq#1752; BullMQ 6.7.0 `moveParentToWait` scripts.
    """

    id = "RL001"
    name = "parent-waits-for-nothing"
    title = "A parent waits for children, but none is left to wait for"
    severity = "error"
    since = "0.1.0"
    versions = "BullMQ 1.18+"
    impact = "will never run: no child is left whose end would release them"
    heals = "no: only the end of a child releases a parent"
    basis = "observed"
    dialects = ("bullmq",)
    needs = {
        "jobs": (*JOB_PLACE, "has_record", "key"),
        "membership": (*JOB_PLACE, "structure"),
        "relations": (*TARGET, "dialect", "kind", "via", "evidence", "db"),
    }
    sql = """
        WITH parents AS MATERIALIZED (
            SELECT dialect, namespace, queue, job_id, evidence, db
            FROM membership
            WHERE dialect = 'bullmq' AND structure = 'waiting-children'
        ),
        recorded AS MATERIALIZED (
            SELECT j.dialect, j.namespace, j.queue, j.job_id, j.key, j.evidence, j.db
            FROM jobs AS j
            SEMI JOIN parents AS p USING (dialect, namespace, queue, job_id, evidence, db)
            WHERE j.has_record
        ),
        open AS (
            SELECT DISTINCT dialect, target_namespace AS namespace, target_queue AS queue, target_id AS job_id,
                evidence, db
            FROM relations
            WHERE kind = 'parent' AND via = 'dependencies'
        )
        SELECT r.*
        FROM recorded AS r
        ANTI JOIN open AS o USING (dialect, namespace, queue, job_id, evidence, db)
    """
    message = "Parent {job_id} of queue {queue} waits for children, but has none left to wait for: it will never run"
