"""The exact bytes of queues, namespaces and keys whose names are not UTF-8, beside their escaped text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute

from jobsleuth import safetext
from jobsleuth.case import TABLES
from jobsleuth.keyspace import Claims, Keyspace

pc: Any = pa.compute
_COLUMNS = {table.name: {column.name for column in table.columns} for table in TABLES}


class Exact:
    """Adds the columns `namespace_bytes`, `queue_bytes` and `key_bytes` where a table has them and a name needs them.

    Nearly no dump has such a name; then nothing is added, and the columns are null.
    """

    def __init__(self, keyspace: Keyspace, claims: Sequence[Claims]) -> None:
        queues = [queue for made in claims for queue in made.queues]
        self._names = {
            "namespace": _odd(q.namespace for q in queues),
            "queue": _odd(q.queue for q in queues),
            "key": {},
        }
        for batch in keyspace.keys.to_batches():
            _, exact = keyspace.to_text(pa.chunked_array([batch.column("key")]))
            if exact.null_count < len(exact):
                self._names["key"] |= _odd(exact.drop_null().to_pylist())

    def add(self, table: str, rows: pa.Table) -> pa.Table:
        """The rows with the columns that the table `table` has for exact names, as far as they are needed."""
        known = _COLUMNS[table]
        for name, odd in self._names.items():
            wanted = f"{name}_bytes"
            if not odd or wanted not in known or wanted in rows.column_names or name not in rows.column_names:
                continue
            text = rows.column(name).cast(pa.string())
            place = pc.index_in(text, value_set=pa.array(list(odd), pa.string()))
            rows = rows.append_column(wanted, pa.array(list(odd.values()), pa.binary()).take(place))
        return rows


def _odd(names: Any) -> dict[str, bytes]:
    """Text → bytes of the names that are not UTF-8."""
    found: dict[str, bytes] = {}
    for name in names:
        try:
            name.decode("utf-8")
        except UnicodeDecodeError:
            found[safetext.from_bytes(name)] = name
    return found
