"""Asynq (Go): task hashes, the structures that hold task ids, leases, servers. Facts and their sources: NOTES.md."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jobsleuth.dialects.asynq.grammar import claim
from jobsleuth.dialects.asynq.states import IDS, STRUCTURES
from jobsleuth.dialects.asynq.tables import tables
from jobsleuth.dialects.base import Options, RecordKey, Story
from jobsleuth.keyspace import Claims, Keyspace


class Asynq:
    """The dialect of https://github.com/hibiken/asynq."""

    name = "asynq"
    title = "Asynq"
    story = Story(
        structures={name: name for name in IDS},
        records={"job": RecordKey("record", b":t:")},
        moving=frozenset(STRUCTURES[: STRUCTURES.index("lease")]),
    )

    def claim(self, keyspace: Keyspace, free: npt.NDArray[np.bool_], options: Options) -> Claims:
        """See :meth:`jobsleuth.dialects.base.Dialect.claim`."""
        return claim(keyspace, free, options)

    def tables(
        self, keyspace: Keyspace, claims: Claims, options: Options
    ) -> Iterator[tuple[str, pa.Table | pa.RecordBatch]]:
        """See :meth:`jobsleuth.dialects.base.Dialect.tables`."""
        return tables(keyspace, claims, options)


DIALECT = Asynq()
