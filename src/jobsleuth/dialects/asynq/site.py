"""One reading of one piece of evidence: what all table makers of the dialect share."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jobsleuth.dialects.asynq.columns import NO_TIME, Bools, Ints, coded, constant, ints
from jobsleuth.dialects.asynq.keytable import KeyTable
from jobsleuth.dialects.asynq.states import STATES
from jobsleuth.dialects.base import Options
from jobsleuth.dialects.rows import take
from jobsleuth.keyspace import Claims, Keyspace
from jobsleuth.safetext import from_bytes

NAME = "asynq"


@dataclass
class QueueFacts:
    """What the passes over structures and records find out per queue (arrays by queue number).

    Attributes:
        counts: rows in `jobs` by queue and state.
        tail_pending_since: `pending_since` of the task that runs next, Unix ms.
        last_activity: newest time that speaks of work in the queue, Unix ms.
        last_sign: newest sign that a worker lived, Unix ms.
        shown: feature of a release → queues whose tasks show it.
    """

    counts: npt.NDArray[np.int64]
    tail_pending_since: Ints
    last_activity: Ints
    last_sign: Ints
    shown: dict[str, Bools] = field(default_factory=dict)

    @classmethod
    def of(cls, queues: int) -> QueueFacts:
        """Nothing known yet."""
        never = np.full(queues, NO_TIME, np.int64)
        return cls(np.zeros((queues, len(STATES)), np.int64), never, never.copy(), never.copy())

    def show(self, feature: str, queue: npt.NDArray[np.int32], where: Bools) -> None:
        """The queues of the rows in `where` show the feature."""
        self.shown.setdefault(feature, np.zeros(len(self.counts), bool))[queue[where]] = True


class Site:
    """Evidence, claims and options together with the names of queues as text."""

    def __init__(self, keyspace: Keyspace, claims: Claims, options: Options) -> None:
        self.keyspace = keyspace
        self.claims = claims
        self.options = options
        self.keys = KeyTable(keyspace)
        self.as_of_ms = keyspace.as_of.ms
        self.queue_names = [from_bytes(q.queue) for q in claims.queues]
        self._queue_words = pa.array(self.queue_names, pa.string())
        self.queue_number = {(q.db, q.queue): number for number, q in enumerate(claims.queues)}
        self._db = np.array([q.db for q in claims.queues], np.int64)
        self.facts = QueueFacts.of(len(claims.queues))
        # Per queue what stands before a task's id, as look-ups and cuts want it.
        self.task_prefixes = [(q.db, q.base + b":t:") for q in claims.queues]
        self.task_prefix_length = np.array([len(p) for _, p in self.task_prefixes], np.int64)
        self.job_rows = claims.rows_of("job")
        self.job_rows = self.job_rows[self.keys.live[self.job_rows]]
        self._job_of_row = np.full(len(self.keys.db), -1, np.int32)
        self._job_of_row[self.job_rows] = np.arange(len(self.job_rows), dtype=np.int32)

    def jobs_named(self, queue: npt.NDArray[np.int32], ids: pa.Array) -> npt.NDArray[np.int32]:
        """Per (queue number, task id) the index in `job_rows` of the task's record, -1 where there is none."""
        rows = self.keys.find(self.task_prefixes, queue, ids)
        found = self._job_of_row[rows]
        found[rows < 0] = -1
        return found

    def jobs_of(self, rows: Ints) -> npt.NDArray[np.int32]:
        """Index in `job_rows` of each key row."""
        return self._job_of_row[rows]

    def heads(self, queue: npt.NDArray[np.int32]) -> dict[str, pa.Array]:
        """The columns that begin most tables, for rows that belong to the queues."""
        return {
            "dialect": constant(NAME, len(queue)),
            "namespace": constant(NAME, len(queue)),
            "queue": coded(queue, self._queue_words),
            "db": pa.array(self._db[queue]),
        }

    def text(self, values: pa.Array | pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        """(text, exact bytes where the text is not exact); see :meth:`Keyspace.to_text`."""
        chunked = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values], pa.binary())
        return self.keyspace.to_text(chunked)

    def expiry(self, rows: Ints) -> Ints:
        """When each key expires, Unix ms; `NO_TIME`: never."""
        return ints(take(self.keys.expire_at, rows).fill_null(NO_TIME).combine_chunks(), NO_TIME)

    def valid(self, until_ms: int | None, *, inclusive: bool = False) -> bool | None:
        """Whether what runs out at that time had not at the snapshot; None where the snapshot's time is unknown."""
        if self.as_of_ms is None:
            return None
        if until_ms is None:
            return True
        return until_ms >= self.as_of_ms if inclusive else until_ms > self.as_of_ms
