"""Entries of the queues' own event streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from jobsleuth.dialects.bullmq.keytable import numbers
from jobsleuth.dialects.bullmq.reading import Reading, text_map, times
from jobsleuth.dialects.bullmq.states import LATEST_MS
from jobsleuth.dialects.bullmq.tally import Tally
from jobsleuth.keyspace import Projected

pc: Any = pa.compute

_PROJECTION = (Projected("event", "event", "text"), Projected("job_id", "jobId", "bytes"))
_BY_WORKERS = ["active", "completed", "progress", "stalled", "drained", "retries-exhausted"]
"""Events that only a worker causes."""


def events(reading: Reading, tally: Tally) -> Iterator[tuple[str, pa.Table]]:
    """Rows of `events`, oldest first in each stream."""
    for batch in reading.keyspace.stream_entries(reading.rows_of("events", "parent-events"), _PROJECTION):
        row = numbers(batch.column("row"), np.int64)
        queue = reading.claims.queue[row]
        ms = numbers(batch.column("ms"), np.uint64)
        known = ms <= LATEST_MS
        at = times(np.where(known, ms, 0).astype(np.int64), known)
        tally.activity(queue, at)
        work = np.flatnonzero(numbers(pc.is_in(batch.column("event"), value_set=pa.array(_BY_WORKERS)), np.bool_))
        tally.activity(queue[work], at.take(pa.array(work)), worker=True)
        job_id, exact = reading.text(batch.column("job_id"))
        parts = (batch.column(name).cast(pa.string()) for name in ("ms", "seq"))
        yield (
            "events",
            pa.table(
                {
                    **reading.columns(queue),
                    "at": at,
                    "event": batch.column("event"),
                    "job_id": job_id,
                    "job_id_bytes": exact,
                    "stream_id": pc.binary_join_element_wise(*parts, "-"),
                    "fields": text_map(reading, batch.column("rest")),
                }
            ),
        )
