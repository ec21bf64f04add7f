"""SC004."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class UnlistedDefinition(Check):
    """A schedule is defined, but not listed.

    What it finds
    A hash that defines a schedule (`repeat:<id>`) whose id is not in `repeat`.

    Why it matters
    The schedule does not exist for the library, although somebody who looks at the keys sees it.

    How it comes about
    The member was removed by hand; the list was deleted or lost.

    What to do next
    If it should run, register it again; else delete the hash.

    False alarms
    It is information.

    References
    BullMQ 6.7.0 `addJobScheduler` script: member and hash are written together.
    """

    id = "SC004"
    name = "unlisted-definition"
    title = "A schedule is defined, but not listed"
    severity = "info"
    since = "0.1.0"
    versions = "BullMQ 5.10+"
    impact = "are defined and never run"
    heals = "no: nothing reads a definition that is not listed"
    dialects = ("bullmq",)
    needs = {
        "schedules": (*JOB_PLACE, "schedule_id", "spec", "next_at", "has_record", "key"),
    }
    sql = """
        SELECT dialect, namespace, queue, key, evidence, db, schedule_id, spec
        FROM schedules
        WHERE dialect = 'bullmq' AND has_record AND next_at IS NULL AND job_id IS NULL
    """
    message = "Schedule {schedule_id} of queue {queue} is defined, but not listed: it never runs"
