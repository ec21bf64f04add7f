"""EV009."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class ReleaseNotKnown(Check):
    """A queue was written by a release newer than those checked.

    What it finds
    A queue whose recorded library version is newer than the newest one the checks were held against (6.7.0).

    Why it matters
    What the library writes may have changed: findings about it need a second look, and faults of new structures are not
    seen.

    How it comes about
    A newer release.

    What to do next
    Look for a newer jobsleuth.

    False alarms
    None; it is information.

    References
    The dialect's notes say which releases were read.
    """

    id = "EV009"
    name = "release-not-known"
    title = "A queue was written by a release newer than those checked"
    severity = "info"
    since = "0.1.0"
    versions = "BullMQ newer than 6.7"
    impact = "may follow rules that this jobsleuth does not know"
    heals = "no"
    moving = False
    dialects = ("bullmq",)
    needs = {
        "queues": (*QUEUE_PLACE, "library_version"),
    }
    sql = """
        SELECT dialect, namespace, queue, evidence, db, library_version
        FROM queues
        WHERE dialect = 'bullmq' AND version_of(library_version)[:2] > [6, 7]
    """
    message = (
        "Queue {queue} was last opened by {library_version}, newer than the releases that the checks were held against"
    )
