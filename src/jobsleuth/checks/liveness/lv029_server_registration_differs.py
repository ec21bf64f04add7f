"""LV029."""

from __future__ import annotations

from jobsleuth.checks.base import Check


class ServerRegistrationDiffers(Check):
    """A server's registration and its own key disagree.

    What it finds
    A server that `asynq:servers` lists as valid while its key is gone, or whose key lives while it is not listed.

    Why it matters
    Tools do not show such a server, so that its work seems to be nobody's.

    How it comes about
    A snapshot between the two commands of a heartbeat; clocks that differ (the list holds the server's clock, the key's
    expiry is Redis's); eviction under a `volatile-*` policy.

    What to do next
    Nothing, if it is one server. If all are concerned, look at clocks and at `maxmemory-policy`.

    False alarms
    It is information: a heartbeat writes the two one after the other.

    References
    hibiken/asynq#799.
    """

    id = "LV029"
    name = "server-registration-differs"
    title = "A server's registration and its own key disagree"
    severity = "info"
    since = "0.1.0"
    versions = "Asynq 0.12+"
    impact = "are registered in one place and not in the other"
    heals = "at the server's next heartbeat; a dead one is forgotten when somebody lists the servers"
    basis = "observed"
    dialects = ("asynq",)
    needs_time = True
    needs = {
        "workers": (
            "dialect",
            "namespace",
            "kind",
            "host",
            "pid",
            "valid_until",
            "details",
            "key",
            "evidence",
            "db",
        ),
        "evidence": (
            "evidence",
            "as_of_ms",
        ),
    }
    sql = """
        SELECT w.dialect, w.namespace, w.key, w.evidence, w.db, w.host, w.pid, w.valid_until,
            -- By then it has said so anew, or it is dead and LV028's.
            w.valid_until AS heals_at,
            CASE WHEN w.details['record'] = 'present' THEN 'has a live key, but is not listed'
                ELSE 'is listed as valid, but its key is gone' END AS _what
        FROM workers AS w
        JOIN evidence AS e USING (evidence)
        WHERE w.kind = 'server' AND w.dialect = 'asynq'
            AND ((w.details['record'] = 'present' AND w.details['listed_until_ms'] IS NULL)
                OR (w.details['record'] IN ('missing', 'expired') AND epoch_ms(w.valid_until) >= e.as_of_ms))
    """
    message = "Server {host}:{pid} {_what}"
