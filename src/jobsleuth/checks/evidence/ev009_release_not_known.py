"""EV009."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class ReleaseNotKnown(Check):
    """A queue was written by a release newer or older than those checked.

    What it finds
    A queue whose recorded library version is newer than the newest one the checks were held against (BullMQ 6.7.0), or
    whose jobs are of a Bull older than 3.0: they have no name.

    Why it matters
    What the library writes is another: findings about it need a second look. Faults of new structures are not seen;
    Bull before 3.0 tells neither when a job started nor whether stalled checks run.

    How it comes about
    A newer release, or one that was never upgraded.

    What to do next
    Newer: look for a newer jobsleuth. Older: hold findings against the source of that release.

    False alarms
    None; it is information.

    References
    The dialect's notes say which releases were read.
    """

    id = "EV009"
    name = "release-not-known"
    title = "A queue was written by a release newer or older than those checked"
    severity = "info"
    since = "0.1.0"
    versions = "BullMQ newer than 6.7, Bull before 3.0"
    impact = "may follow rules that this jobsleuth does not know"
    heals = "no"
    moving = False
    dialects = ("bullmq",)
    needs = {
        "queues": (*QUEUE_PLACE, "layout", "library_version"),
    }
    sql = """
        SELECT dialect, namespace, queue, evidence, db, layout, library_version,
            CASE
                WHEN layout = 'bull 0.x-2.x' THEN 'holds jobs of Bull before 3.0, older'
                ELSE 'was last opened by ' || library_version || ', newer'
            END AS _what
        FROM queues
        WHERE dialect = 'bullmq' AND (version_of(library_version)[:2] > [6, 7] OR layout = 'bull 0.x-2.x')
    """
    message = "Queue {queue} {_what} than the releases that the checks were held against"
