"""Plain lists: LPUSH and BRPOP, LMOVE with processing lists, zsets of what is due, sets of what was seen.

Only where the names say so (:mod:`jobsleuth.dialects.described.plain`); others can be given in `jobsleuth.toml`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jobsleuth.dialects.base import Dialect, Options
from jobsleuth.keyspace import Claims, Keyspace


class Lists:
    """See :class:`jobsleuth.dialects.base.Dialect`."""

    name = "lists"
    title = "plain lists"

    def claim(self, keyspace: Keyspace, free: npt.NDArray[np.bool_], options: Options) -> Claims:
        """Claims keys whose names are those of queues, and no other list."""
        from jobsleuth.dialects.rows import is_type

        if not any((is_type(keyspace, type_) & free).any() for type_ in ("list", "zset", "set")):
            return Claims.empty(self.name, len(free))
        from jobsleuth.dialects.described.claim import claim
        from jobsleuth.dialects.described.plain import BUILT_IN

        return claim(self.name, keyspace, free, BUILT_IN if options.lists is None else options.lists)

    def tables(
        self, keyspace: Keyspace, claims: Claims, options: Options
    ) -> Iterator[tuple[str, pa.Table | pa.RecordBatch]]:
        """Jobs, membership, queues."""
        if not claims.queues:
            return iter(())
        from jobsleuth.dialects.described.tables import Tables

        return Tables(keyspace, claims, options).rows()


DIALECT: Dialect = Lists()
