"""Redis Streams: every consumer group of a stream is a queue. Facts and their sources: NOTES.md."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jobsleuth.dialects.base import Dialect, Options
from jobsleuth.keyspace import Claims, Keyspace


class Streams:
    """See :class:`jobsleuth.dialects.base.Dialect`. The namespace of a queue is the stream's key, its name the group's.

    What it needs besides is loaded when a snapshot has streams.
    """

    name = "streams"
    title = "Redis Streams"

    def claim(self, keyspace: Keyspace, free: npt.NDArray[np.bool_], options: Options) -> Claims:
        """Claims streams with a consumer group that had not expired."""
        from jobsleuth.dialects.rows import is_type

        rows = np.flatnonzero(is_type(keyspace, "stream") & free & keyspace.live).astype(np.int64)
        if not len(rows):
            return Claims.empty(self.name, len(free))
        from jobsleuth.dialects.streams.claim import claim

        return claim(self.name, keyspace, rows)

    def tables(
        self, keyspace: Keyspace, claims: Claims, options: Options
    ) -> Iterator[tuple[str, pa.Table | pa.RecordBatch]]:
        """Jobs, membership, consumers, queues."""
        if not claims.queues:
            return iter(())
        from jobsleuth.dialects.streams.tables import tables

        return tables(keyspace, claims, options)


DIALECT: Dialect = Streams()
