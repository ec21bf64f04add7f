"""Lines that processors logged (``<id>:logs``): rows of `logs`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from jobsleuth.dialects.bullmq.grammar import SUB_KEYS
from jobsleuth.dialects.bullmq.keytable import numbers
from jobsleuth.dialects.bullmq.reading import Reading

_TAIL = next(len(sub.ending) for sub in SUB_KEYS if sub.role == "logs")


def logs(reading: Reading) -> Iterator[tuple[str, pa.Table]]:
    """One row a line, oldest first, whether or not the job is still there."""
    for batch in reading.keyspace.elements(reading.rows_of("logs")):
        row = numbers(batch.column("row"), np.int64)
        queue = reading.claims.queue[row]
        unique, back = np.unique(row, return_inverse=True)
        job_id, exact_id = reading.text(reading.remainders(unique, _TAIL))
        line, exact = reading.text(batch.column("member"))
        pick = pa.array(back)
        yield (
            "logs",
            pa.table(
                {
                    **reading.columns(queue),
                    "job_id": job_id.take(pick),
                    "job_id_bytes": exact_id.take(pick),
                    "position": batch.column("position"),
                    "line": line,
                    "line_bytes": exact,
                    "key": reading.key_text(row),
                }
            ),
        )
