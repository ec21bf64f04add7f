"""SM007."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class GroupBeyondEnd(Check):
    """A group's last delivered id lies beyond the end of its stream.

    What it finds
    A group that says it was given an id larger than any the stream ever had.

    Why it matters
    New entries get ids after the stream's own last one. As long as those are not larger than the group's, the group is
    never given them.

    How it comes about
    `XGROUP SETID` with a wrong id; ids set by producers whose clock went back; a stream that was made afresh, or
    restored from an older copy, under groups that were further.

    What to do next
    Set the group to the stream's end or to where its work really stands: `XGROUP SETID`.

    False alarms
    None known.

    References
    https://redis.io/docs/latest/commands/xgroup-setid/.
    """

    id = "SM007"
    name = "group-beyond-end"
    title = "A group's last delivered id lies beyond the end of its stream"
    severity = "error"
    since = "0.1.0"
    versions = "Redis 5.0+, Valkey"
    impact = "are not given new entries until ids pass theirs"
    heals = "only when new ids grow past the group's"
    dialects = ("streams",)
    needs = {
        "queues": (*QUEUE_PLACE, "counters"),
    }
    sql = """
        SELECT dialect, namespace, queue, evidence, db, namespace AS key, counters['length'] AS length,
            counters['entries_added'] AS entries_added
        FROM queues
        WHERE dialect = 'streams' AND counters['beyond_end'] = 1
    """
    message = "Group {queue} of {namespace} stands beyond the stream's end: it is given no new entries"
