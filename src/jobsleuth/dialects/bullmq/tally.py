"""What adds up per queue while the tables are made: counts, newest times, signs of an era."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from jobsleuth.dialects.bullmq.keytable import numbers, valid
from jobsleuth.dialects.bullmq.reading import Queues
from jobsleuth.dialects.bullmq.states import STATES

pc: Any = pa.compute

NEVER = np.iinfo(np.int64).min
ALWAYS = np.iinfo(np.int64).max

SIGNS = (
    "old marker",
    "old timed marker",
    "marker",
    "marker 1",
    "attemptsMade",
    "atm",
    "ats",
    "stalledCounter",
    "stc",
    "pb",
    "defa",
    "deid",
    "rjk",
    "parent",
    "iteration count",
    "child map",
    "failed children",
    "dedup",
    "parked",
    "unsuccessful",
    "delay stream",
    "prioritized",
    "priority",
    "pc",
    "meta-paused",
    "limiter index",
    "events",
    "paused list",
    "waiting-children",
    "group",
    "metrics",
    "named job",
    "nameless job",
)
"""What was seen in a queue that tells its era apart; see :mod:`.layout`."""


class Tally:
    """Sums per queue.

    Attributes:
        counts: rows in `jobs` by queue and index into :data:`.states.STATES`.
        oldest_ready: creation of the oldest job in `waiting` or `prioritized`, Unix ms, `ALWAYS` if none.
        last_activity: newest event, start or finish, Unix ms, `NEVER` if none.
        last_worker_sign: newest time at which a worker must have lived, Unix ms, `NEVER` if none.
    """

    def __init__(self, queues: int) -> None:
        self.counts = np.zeros((queues, len(STATES)), np.int64)
        self.oldest_ready = np.full(queues, ALWAYS, np.int64)
        self.last_activity = np.full(queues, NEVER, np.int64)
        self.last_worker_sign = np.full(queues, NEVER, np.int64)
        self._signs = np.zeros((queues, len(SIGNS)), np.bool_)

    def count(self, queue: Queues, state: npt.NDArray[np.int8]) -> None:
        """Counts rows of `jobs`."""
        np.add.at(self.counts, (queue, state), 1)

    def ready(self, queue: Queues, state: npt.NDArray[np.int8], created: Any) -> None:
        """Notes creation times of jobs that are ready to run."""
        able = np.isin(state, [STATES.index("waiting"), STATES.index("prioritized"), STATES.index("paused")])
        able &= valid(created)
        np.minimum.at(self.oldest_ready, queue[able], milliseconds(created)[able])

    def activity(self, queue: Queues, at: Any, worker: bool = False) -> None:
        """Notes times (timestamps, nulls skipped) of anything that happened, or that a worker did."""
        there = valid(at)
        values = milliseconds(at)[there]
        np.maximum.at(self.last_activity, queue[there], values)
        if worker:
            np.maximum.at(self.last_worker_sign, queue[there], values)

    def sign(self, name: str, queue: Queues) -> None:
        """Notes that the queues show the sign."""
        self._signs[queue, SIGNS.index(name)] = True

    def shows(self, queue: int, name: str) -> bool:
        """Whether the queue shows the sign."""
        return bool(self._signs[queue, SIGNS.index(name)])


def milliseconds(column: Any) -> npt.NDArray[np.int64]:
    """Timestamps (or int64) as Unix ms, nulls as 0."""
    return numbers(column.cast(pa.int64()), np.int64)
