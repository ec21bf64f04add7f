"""RL004."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, TARGET, Check


class ParentNotFailedWithChild(Check):
    """A parent still waits although a child has failed it.

    What it finds
    An id in `waiting-children` whose zset `unsuccessful` names a child: one that failed with `failParentOnFailure`.

    Why it matters
    From 5.49.2 on such a failure moves the parent to `wait` at once, so that it fails when a worker picks it up. This
    one was not moved and may wait for ever; nobody is told of the failure.

    How it comes about
    The script failed half-way, or raw commands. BullMQ 5.42.0 to 5.49.1 recorded the child and moved the parent in
    another way: there it may occur.

    What to do next
    See why the child failed (`jobsleuth job CASE ID`), then fail or retry the parent by hand.

    False alarms
    Queues that an older release last opened are left alone; where the release is not recorded the finding is only
    possible.

    References
    BullMQ 5.49.2 changelog, 6.7.0 `moveToFinished` script.
    """

    id = "RL004"
    name = "parent-not-failed-with-child"
    title = "A parent still waits although a child has failed it"
    severity = "error"
    since = "0.1.0"
    versions = "BullMQ 5.49.2+"
    impact = "wait although a child has failed them: they should have been released to fail"
    heals = "no: the release happens once, when the child fails"
    dialects = ("bullmq",)
    absence = False
    needs = {
        "membership": (*JOB_PLACE, "structure"),
        "queues": (*QUEUE_PLACE, "library_version"),
        "relations": (*TARGET, "dialect", "kind", "via", "source_queue", "source_id", "key", "evidence", "db"),
    }
    sql = """
        WITH blamed AS MATERIALIZED (
            SELECT dialect, target_namespace AS namespace, target_queue AS queue, target_id AS job_id, evidence, db,
                min(key) AS key, count(*) AS failed,
                list_sort(list(source_queue || ':' || source_id))[:5] AS children
            FROM relations
            WHERE kind = 'parent' AND via = 'unsuccessful' AND dialect = 'bullmq'
            GROUP BY ALL
        ),
        waiting AS (
            SELECT DISTINCT m.dialect, m.namespace, m.queue, m.job_id, m.evidence, m.db
            FROM membership AS m
            SEMI JOIN blamed AS b USING (dialect, namespace, queue, job_id, evidence, db)
            WHERE m.structure = 'waiting-children'
        )
        SELECT dialect, namespace, queue, b.job_id, b.key, evidence, db, b.failed, b.children,
            CASE WHEN version_of(q.library_version) IS NULL THEN 'possible' ELSE 'certain' END AS certainty,
            array_to_string(b.children, ', ') AS _children
        FROM blamed AS b
        SEMI JOIN waiting AS w USING (dialect, namespace, queue, job_id, evidence, db)
        JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
        WHERE (version_of(q.library_version) >= [5, 49, 2]) IS NOT FALSE
    """
    message = "Parent {job_id} of queue {queue} still waits although {_children} failed it"
