"""SM008."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class GroupOnEmptyStream(Check):
    """A group waits on a stream without entries, or on one that was made afresh under it.

    What it finds
    A group whose stream is empty; or one that counts more entries read than the stream counts added: then the stream
    was made afresh, and the group remembers the old one (a warning).

    Why it matters
    Consumers of an empty stream idle. If the application writes to a stream of another name, or somebody deleted the
    stream, nothing else shows it.

    How it comes about
    `XGROUP CREATE … MKSTREAM` on a mistyped name; a stream that was emptied by `XTRIM` or `XDEL`, or restored.

    What to do next
    Compare the stream's name with the one that producers write to. For a stream that was made afresh set the group to
    where it should stand: `XGROUP SETID`.

    False alarms
    A queue that is empty because all is done and removed: an info only.

    References
    https://redis.io/docs/latest/commands/xgroup-create/.
    """

    id = "SM008"
    name = "group-on-empty-stream"
    title = "A group waits on an empty stream, or on one made afresh"
    severity = "info"
    since = "0.1.0"
    versions = "Redis 5.0+, Valkey; streams made afresh: 7.0+"
    impact = "wait on a stream that has nothing for them"
    moving = False
    dialects = ("streams",)
    needs = {
        "queues": (*QUEUE_PLACE, "counters"),
    }
    sql = """
        SELECT *, namespace AS key, CASE WHEN afresh THEN 'warning' ELSE 'info' END AS severity,
            CASE
                WHEN afresh THEN 'counts ' || format('{:,}', entries_read)
                    || ' entries read, but its stream had only ' || format('{:,}', entries_added)
                    || ': it was made afresh'
                WHEN entries_added = 0 THEN 'waits on a stream that never had an entry'
                ELSE 'waits on an empty stream'
            END AS _how
        FROM (
            SELECT dialect, namespace, queue, evidence, db, counters['length'] AS length,
                counters['entries_added'] AS entries_added, counters['entries_read'] AS entries_read,
                counters['consumers'] AS consumers,
                coalesce(counters['entries_read'] > counters['entries_added'], FALSE) AS afresh
            FROM queues
            WHERE dialect = 'streams'
        )
        WHERE length = 0 OR afresh
    """
    message = "Group {queue} of {namespace} {_how}"
