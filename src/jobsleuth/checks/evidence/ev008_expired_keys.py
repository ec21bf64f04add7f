"""EV008."""

from __future__ import annotations

from jobsleuth.checks.base import Check


class ExpiredKeys(Check):
    """The snapshot holds keys that had expired.

    What it finds
    Keys whose expiry lies before the snapshot's time. One finding for each piece of evidence and role.

    Why it matters
    They are logically gone and are not counted as present. Expired locks and registrations tell who held what a moment
    ago.

    How it comes about
    Redis writes them as long as it has not met them; a master or replica that is busy leaves many.

    What to do next
    Nothing.

    False alarms
    It is information, and most snapshots show it: it runs only where the policy enables it.

    References
    Redis 7.0 `src/rdb.c`, `src/expire.c`.
    """

    id = "EV008"
    name = "expired-keys"
    title = "The snapshot holds keys that had expired"
    severity = "info"
    since = "0.1.0"
    versions = "all formats"
    impact = "lie in the file although they had expired"
    heals = "Redis deletes them when it meets them"
    opt_in = True
    moving = False
    needs = {
        "keys": (
            "evidence",
            "key",
            "expired",
            "role",
        ),
    }
    sql = """
        SELECT evidence, coalesce(role, 'of no queue') AS role, count(*) AS keys, min(key) AS example,
            coalesce(role, 'of no queue') AS _same, count_text(count(*), 'key') AS _keys
        FROM keys
        WHERE expired
        GROUP BY evidence, role
    """
    message = "{_keys} ({role}) had expired at the snapshot, for example {example}"
