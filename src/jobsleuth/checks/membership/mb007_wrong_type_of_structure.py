"""MB007."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class WrongTypeOfStructure(Check):
    """A structure's key holds another Redis type.

    What it finds
    A key named like one of a queue's structures (`wait`, `completed`, `pending`, `lease`, …) whose type is another than
    the library writes there.

    Why it matters
    Every script that touches the key fails with WRONGTYPE: adding, fetching, or finishing stops for the whole queue.

    How it comes about
    BullMQ: a job whose id is a reserved word (`wait`, `id`, …) puts its record there, the library does not refuse it.
    Bull: releases that kept finished ids in a set and others that expect a zset. Else: other software under the queue's
    names.

    What to do next
    Save what the key holds, rename it out of the way (`RENAME`), and add its content again in the right form. Never use
    reserved words as job ids.

    False alarms
    Bull before 3.0 keeps finished ids in sets: where all jobs are of that time they are no finding.

    References
    OptimalBits/bull#909, OptimalBits/bull#320.
    """

    id = "MB007"
    name = "wrong-type-of-structure"
    title = "A structure's key holds another Redis type"
    severity = "error"
    since = "0.1.0"
    versions = "all releases of Bull, BullMQ, Asynq"
    impact = "stand where the library needs another type: every command on them fails"
    heals = "no: every command on the key fails until it is gone"
    absence = False
    needs = {
        "keys": (*QUEUE_PLACE, "key", "type", "expired", "role"),
        "queues": (*QUEUE_PLACE, "layout"),
    }
    sql = """
        WITH expected(dialect, word, type) AS (
            VALUES ('bullmq', 'wait', 'list'), ('bullmq', 'paused', 'list'), ('bullmq', 'active', 'list'),
                ('bullmq', 'delayed', 'zset'), ('bullmq', 'prioritized', 'zset'), ('bullmq', 'completed', 'zset'),
                ('bullmq', 'failed', 'zset'), ('bullmq', 'waiting-children', 'zset'), ('bullmq', 'stalled', 'set'),
                ('bullmq', 'id', 'string'), ('bullmq', 'meta', 'hash'), ('bullmq', 'events', 'stream'),
                ('bullmq', 'marker', 'zset'), ('bullmq', 'repeat', 'zset'), ('bullmq', 'limiter', 'string'),
                ('asynq', 'pending', 'list'), ('asynq', 'active', 'list'), ('asynq', 'lease', 'zset'),
                ('asynq', 'deadlines', 'zset'), ('asynq', 'scheduled', 'zset'), ('asynq', 'retry', 'zset'),
                ('asynq', 'archived', 'zset'), ('asynq', 'completed', 'zset'), ('asynq', 'groups', 'set'),
                ('asynq', 'aggregation_sets', 'zset')
        ),
        found AS (
            SELECT dialect, namespace, queue, key, evidence, db, type, role,
                split_part(key, ':', -1) AS word
            FROM keys
            WHERE dialect IS NOT NULL AND queue IS NOT NULL AND expired IS NOT TRUE
        )
        SELECT f.dialect, f.namespace, f.queue, f.key, f.evidence, f.db, f.type, e.type AS expected,
            CASE WHEN f.role = 'job' AND f.dialect = 'bullmq' THEN f.word END AS job_id,
            CASE WHEN f.role = 'job' THEN ': the record of a job with that id' ELSE '' END AS _what
        FROM found AS f
        JOIN expected AS e ON e.dialect = f.dialect AND e.word = f.word AND e.type <> f.type
        WHERE f.key = CASE WHEN f.dialect = 'asynq' THEN 'asynq:{' || f.queue || '}' ELSE base_of(f.namespace,
            f.queue) END
            || ':' || f.word
            AND NOT (f.type = 'set' AND f.word IN ('completed', 'failed') AND EXISTS (
                SELECT 1 FROM queues AS q
                WHERE q.layout = 'bull 0.x-2.x' AND q.dialect = f.dialect AND q.namespace = f.namespace
                    AND q.queue = f.queue AND q.evidence = f.evidence AND q.db = f.db
            ))
    """
    message = "{key} is a {type}, not a {expected}{_what}: every command on it fails"
