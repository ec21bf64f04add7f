"""Home-made layouts, as `jobsleuth.toml` or `--layout` describes them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jobsleuth.dialects.base import Dialect, Options
from jobsleuth.keyspace import Claims, Keyspace


class Layouts:
    """See :class:`jobsleuth.dialects.base.Dialect`. Nothing is claimed unless something is described."""

    name = "layouts"
    title = "described layouts"

    def claim(self, keyspace: Keyspace, free: npt.NDArray[np.bool_], options: Options) -> Claims:
        """Claims keys by the patterns of the descriptions, the first description first."""
        if not options.layouts:
            return Claims.empty(self.name, len(free))
        from jobsleuth.dialects.described.claim import claim

        return claim(self.name, keyspace, free, options.layouts)

    def tables(
        self, keyspace: Keyspace, claims: Claims, options: Options
    ) -> Iterator[tuple[str, pa.Table | pa.RecordBatch]]:
        """All tables.

        Raises:
            DialectError: most values of a time field are no times between 2000 and 2100 in the unit that is described.
        """
        if not claims.queues:
            return
        from jobsleuth.dialects.described.tables import Tables
        from jobsleuth.dialects.layouts.units import require_units

        tables = Tables(keyspace, claims, options)
        yield from tables.rows()
        require_units(options.layouts, tables.tallies)


DIALECT: Dialect = Layouts()
