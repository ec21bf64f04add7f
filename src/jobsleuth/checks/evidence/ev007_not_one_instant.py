"""EV007."""

from __future__ import annotations

from jobsleuth.checks.base import Check


class NotOneInstant(Check):
    """The evidence was not taken at one instant.

    What it finds
    Evidence that was read key by key while the server went on (a SCAN export).

    Why it matters
    What looks like a contradiction between two keys may be a job that moved between the two readings: findings about
    structures are only possible.

    How it comes about
    An export instead of a snapshot.

    What to do next
    Take an RDB file (`BGSAVE`, or `redis-cli --rdb`): it is one instant.

    False alarms
    None; it is information.

    References
    The manifest of the case: `evidence[].atomic`.
    """

    id = "EV007"
    name = "not-one-instant"
    title = "The evidence was not taken at one instant"
    severity = "info"
    since = "0.1.0"
    versions = "all formats"
    impact = "were read over a span of time: jobs may have moved meanwhile"
    heals = "no"
    moving = False
    needs = {
        "evidence": (
            "evidence",
            "path",
            "as_of",
            "atomic",
        ),
    }
    sql = """
        SELECT e.evidence, e.path, e.as_of FROM evidence AS e WHERE e.atomic = FALSE
    """
    message = "The evidence {path} was read over a span of time, not at one instant"
