"""UQ001."""

from __future__ import annotations

from jobsleuth.checks.base import Check


class UniqueLockWithoutExpiry(Check):
    """A uniqueness lock never expires.

    What it finds
    A `unique:` key of Asynq without a time to live.

    Why it matters
    While the key exists, every task with the same type and payload is refused as a duplicate. The library frees it
    when the task in `details.holder` is done, but if that task is lost or archived, the block is permanent.

    How it comes about
    `PERSIST` or `SET` by hand, other software, a restore that dropped expiries. The library always sets one.

    What to do next
    Look the holder up. If it is gone or finished, delete the key; else give the key an expiry.

    False alarms
    None known.

    References
    hibiken/asynq#275, hibiken/asynq#629.
    """

    id = "UQ001"
    name = "unique-lock-without-expiry"
    title = "A uniqueness lock never expires"
    severity = "error"
    since = "0.1.0"
    versions = "Asynq, all releases with unique tasks"
    impact = "keep equal tasks out for ever"
    heals = "only when the holder ends: the library then deletes the key"
    moving = False
    dialects = ("asynq",)
    needs = {
        "relations": (
            "dialect", "kind", "source_namespace", "source_queue", "target_id", "valid_until", "key", "evidence", "db",
        ),
    }  # fmt: skip
    sql = """
        SELECT dialect, source_namespace AS namespace, source_queue AS queue, target_id AS job_id, key, evidence, db,
            target_id AS holder
        FROM relations
        WHERE kind = 'uniqueness' AND dialect = 'asynq' AND valid_until IS NULL
    """
    message = "The uniqueness lock {key} held by task {job_id} never expires: equal tasks are refused for ever"
