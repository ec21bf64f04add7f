"""Claims as the pipeline keeps them."""

from __future__ import annotations

import pytest

from jobsleuth.keyspace import Claims


def test_claims_of_nothing_read_as_before_and_take_no_room() -> None:
    """A dialect that owns none of ten million keys costs nothing, and says of each that it is not its own."""
    claims = Claims.empty("asynq", 10_000_000)
    claims.settle()
    assert claims.queue[9_999_999] == claims.role[0] == -1
    assert len(claims.queue) == len(claims.role) == 10_000_000
    assert not len(claims.rows_of("job"))
    assert claims.queue.strides == claims.role.strides == (0,)
    with pytest.raises(ValueError, match="read-only"):
        claims.role[3] = 1


def test_claims_of_something_are_left_as_they_are() -> None:
    """A key without a queue counts: a registry of servers has a role only."""
    claims = Claims.empty("asynq", 3)
    claims.role[1] = claims.role_code("servers")
    claims.settle()
    assert claims.rows_of("servers").tolist() == [1]
    claims.queue[2] = 0
    assert claims.queue.tolist() == [-1, -1, 0]
