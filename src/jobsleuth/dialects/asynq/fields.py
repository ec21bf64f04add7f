"""What is asked of a task's hash, column by column (fields of the hash: NOTES.md)."""

from __future__ import annotations

from jobsleuth.dialects.asynq.messages import task_fields
from jobsleuth.keyspace import Projected


def task_projection(payload_limit: int | None) -> tuple[Projected, ...]:
    """The projection of a task hash `asynq:{queue}:t:<id>`.

    `unique_key` of the hash is not asked for: whether hash and message agree on it matters, so it stays in `rest`.

    Args:
        payload_limit: bytes of each payload kept; None: all.
    """
    return (
        Projected("msg", "msg", "message", message=task_fields(payload_limit)),
        Projected("state", "state", "text"),
        Projected("pending_since", "pending_since", "int"),
        Projected("group", "group", "text"),
        Projected("result", "result", "bytes"),
        # 0.18 to 0.21 wrote these two; they tell the producer's age and stay in `rest`.
        Projected("has_timeout", "timeout", "present"),
    )


GROUP_ONLY: tuple[Projected, ...] = (Projected("group", "group", "bytes"),)
"""Just the group a task's own record names."""
