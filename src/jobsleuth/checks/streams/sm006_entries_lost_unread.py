"""SM006."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class EntriesLostUnread(Check):
    """Entries were removed from the stream before the group had read them.

    What it finds
    A group that fell behind: entries after the last one it was given were trimmed or deleted. Since Redis 7.0 stream
    and group count, so the finding says how many; in a stream with entries deleted by command it is possible only, and
    a warning where all may have gone that way, for somebody may have wanted it: where the largest of those comes after
    the group's last one, or the stream does not begin after that. Where the server did not keep the group's count,
    but the stream begins after the group's last entry, it is possible only: a warning where an id in between was given
    to another group or deleted, an info where the stream was trimmed and nothing tells that there was an entry in
    between. Where entries were deleted, all of them up to the group's last one, nothing is said.

    A group at the stream's beginning that was never given anything may have missed all that is gone, or nothing: a
    server keeps the same bytes for one made at `0` before entries were trimmed and for one made at `0` afterwards, and
    has counted nothing for either. So it is possible, with the most that it can be; a warning, an info where entries
    were deleted by command. At the first read the server counts what is gone as read, in both: from then on nothing
    tells of it, and nothing is said. Where the group was made with `ENTRIESREAD`, its count decides, from the start.

    Why it matters
    The group will never be given those entries. If nobody else has them, their work is lost without a trace.

    How it comes about
    `XADD … MAXLEN` or `MINID` with less room than the slowest group needs; consumers that were down for long; `XDEL`.

    What to do next
    Find out from the producers what was written meanwhile. Let the stream keep more, or trim by the slowest group
    (since Redis 8.2 `XTRIM … ACKED`).

    False alarms
    Entries that somebody deleted on purpose, unread. A group that was put ahead with `XGROUP SETID` and no
    `ENTRIESREAD`. The info: a group that was created or set to `$` just before the entry with which its trimmed stream
    now begins missed nothing. The warning: a group that was set back to read again what is gone meanwhile, or created
    at `0` on a stream that had been trimmed before. A group that was created with an `ENTRIESREAD` that leaves out what
    was gone by then.

    References
    https://redis.io/docs/latest/commands/xinfo-groups/, section on lag; redis/redis#9127. Redis 7.0.15, t_stream.c:
    `streamEstimateDistanceFromFirstEverEntry`.
    """

    id = "SM006"
    name = "entries-lost-unread"
    title = "Entries were removed before the group had read them"
    severity = "error"
    since = "0.1.0"
    versions = "Redis 7.0+, Valkey; older files do not tell"
    impact = "miss entries that were removed before they were read"
    basis = "derived"
    heals = "no: what was removed is gone"
    dialects = ("streams",)
    needs = {
        "queues": (*QUEUE_PLACE, "counters"),
    }
    sql = """
        SELECT * EXCLUDE (removed, any_deleted),
            CASE
                WHEN lost IS NOT NULL AND NOT deleted THEN 'error'
                WHEN lost IS NOT NULL OR existed THEN 'warning'
                ELSE 'info'
            END AS severity,
            CASE WHEN lost IS NULL OR any_deleted THEN 'possible' ELSE 'certain' END AS certainty, namespace AS key,
            CASE
                WHEN lost IS NULL AND never AND removed = 1 THEN 'may have missed 1 entry'
                WHEN lost IS NULL AND never THEN format('may have missed up to {:,} entries', removed)
                WHEN lost IS NULL AND existed THEN 'missed some entries'
                WHEN lost IS NULL THEN 'may have missed some entries'
                WHEN lost = 1 THEN 'missed 1 entry'
                ELSE format('missed {:,} entries', lost)
            END AS _lost
        FROM (
            SELECT dialect, namespace, queue, evidence, db, counters['lost_unread'] AS lost,
                counters['entries_added'] AS entries_added, counters['entries_read'] AS entries_read,
                counters['lag'] AS lag, coalesce(counters['behind_first'], 0) = 1 AS behind,
                coalesce(counters['unread_existed'], 0) = 1 AS existed,
                coalesce(counters['deleted'], 0) = 1 AS any_deleted,
                coalesce(counters['unread_deleted'], 0) = 1 AS deleted,
                coalesce(counters['never_read'], 0) = 1 AND counters['entries_added'] IS NOT NULL AS never,
                counters['entries_added'] - counters['length'] AS removed
            FROM queues
            WHERE dialect = 'streams'
        )
        WHERE lost > 0 OR (lost IS NULL AND behind)
    """
    message = "Group {queue} of {namespace} {_lost}, removed from the stream unread"
