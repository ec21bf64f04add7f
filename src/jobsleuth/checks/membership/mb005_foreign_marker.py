"""MB005."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, Check


class ForeignMarker(Check):
    """A wake-up entry that this release of the library does not write.

    What it finds
    Members of a BullMQ 5+ `marker` zset other than `0` and `1`; wake-up entries of BullMQ 2 to 4 (`0`, `0:…`) that
    lie in `wait`, `paused` or `active` of a queue that 5 or later has opened; and, in any release, at least
    `many_markers` (10) of them in one list. One finding for each key.

    Why it matters
    They are no jobs, though naive counts take them for some. A foreign member of `marker` means that somebody
    wrote to it by hand or with other software. List entries of 4.x tell that a producer of that release may still be
    writing to the queue.

    How it comes about
    An upgrade from 4.x (5.x and later drop such entries when they meet them), a rolling upgrade that is not over,
    tools that treat `marker` as a list of jobs.

    What to do next
    List entries: make sure that no 4.x producer or worker is left; nothing else. Foreign members of `marker`: find the
    writer; removing the member (`ZREM`) is safe.

    False alarms
    None known. Queues of 2.x to 4.x, where the list entries belong, are left alone as long as there are few.

    References
    taskforcesh/bullmq#2268, taskforcesh/bullmq#2286.
    """

    id = "MB005"
    name = "foreign-marker"
    title = "A wake-up entry that this release does not write"
    severity = "warning"
    since = "0.1.0"
    versions = "BullMQ 5+ for members of `marker`, 2.0 to 4.18 for entries of lists"
    impact = "are no jobs: counts that take them for jobs are wrong"
    heals = "BullMQ 5+ drops old list entries when it meets them; foreign members stay"
    dialects = ("bullmq",)
    parameters = {"many_markers": 10}
    absence = False
    needs = {
        "membership": (*JOB_PLACE, "structure", "kind", "key"),
        "queues": (*QUEUE_PLACE, "layout"),
    }
    sql = """
        SELECT dialect, namespace, queue, m.key, evidence, db,
            count(*) AS entries,
            min(m.job_id) AS example,
            CASE WHEN m.kind = 'zset' OR count(*) >= $many_markers THEN 'warning' ELSE 'info' END AS severity,
            count_text(count(*), 'marker') AS _entries,
            CASE WHEN m.kind = 'zset' THEN 'that the library does not write' ELSE 'of BullMQ 4 or earlier' END AS _what
        FROM membership AS m
        JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
        WHERE m.dialect = 'bullmq' AND m.structure = 'marker'
            AND (m.kind <> 'zset' OR m.job_id NOT IN ('0', '1'))
        GROUP BY dialect, namespace, queue, m.key, m.kind, q.layout, evidence, db
        HAVING m.kind = 'zset' OR major_of(q.layout) >= 5 OR count(*) >= $many_markers
    """
    message = "{key} holds {_entries} {_what}, such as {example}: a marker is no job"
