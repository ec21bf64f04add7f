"""MB013."""

from __future__ import annotations

from jobsleuth.checks.base import Check
from jobsleuth.checks.membership.other_prefix import NEEDS, OTHER_PREFIX


class RecordUnderAnotherNamespace(Check):
    """An id stands in one namespace, its record in another.

    What it finds
    An id that a structure names without a record there, while a record of the same queue name and id lies under another
    prefix, where no structure names it. MB001 is silent about such ids.

    Why it matters
    Workers take the id and fail with "missing key for job"; the record is never used. Producers and workers do not
    agree on the prefix.

    How it comes about
    A prefix that is applied twice, or by one part of a framework only.

    What to do next
    Compare the prefix of the queue with that of its workers and flow producers. Then move the ids to the queue that has
    the records.

    False alarms
    Two queues of one name and the same ids, where both lost what belongs to the other: very unlikely.

    References
    nestjs/bull#2584.
    """

    id = "MB013"
    name = "record-under-another-namespace"
    title = "An id stands in one namespace, its record in another"
    severity = "error"
    since = "0.1.0"
    versions = "Bull, BullMQ, all releases"
    impact = "are filed under one prefix and stored under another: workers find no record"
    heals = "no: each prefix is a queue of its own"
    basis = "derived"
    dialects = ("bullmq",)
    needs = NEEDS
    sql = f"""
        WITH {OTHER_PREFIX}
        SELECT *, base_of(namespace, queue) AS listed_under
        FROM elsewhere
    """
    message = "Job {job_id} is filed under {listed_under}, but its record is {record_key}: two prefixes for one queue"
