"""Bull and BullMQ (Node.js, and the ports that run the same Lua)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jobsleuth.dialects.base import Dialect, Options, RecordKey, Story
from jobsleuth.dialects.bullmq.claim import NAME, claim
from jobsleuth.dialects.bullmq.grammar import DECIDING, STRUCTURES
from jobsleuth.dialects.bullmq.tables import tables
from jobsleuth.keyspace import Claims, Keyspace


class BullMq:
    """See :class:`jobsleuth.dialects.base.Dialect`."""

    name = NAME
    title = "BullMQ"
    story = Story(
        structures={name: name for name in STRUCTURES if name not in ("marker", "repeat")},
        records={"job": RecordKey("record", b":"), "lock": RecordKey("lock", b":", b":lock")},
        moving=frozenset(STRUCTURES[:DECIDING]),
        markers=(b"0", b"0:"),
    )

    def claim(self, keyspace: Keyspace, free: npt.NDArray[np.bool_], options: Options) -> Claims:
        """Claims by key grammar, type and content; see :mod:`.bases` and :mod:`.owners`."""
        return claim(keyspace, free, options)

    def tables(
        self, keyspace: Keyspace, claims: Claims, options: Options
    ) -> Iterator[tuple[str, pa.Table | pa.RecordBatch]]:
        """All tables; see :mod:`.tables`."""
        return tables(keyspace, claims, options)


DIALECT: Dialect = BullMq()
