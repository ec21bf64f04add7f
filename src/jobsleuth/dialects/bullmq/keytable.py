"""The keys table as arrays: names by row, types as small numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jobsleuth.dialects.rows import databases, take
from jobsleuth.keyspace import Keyspace, Rows

SLICE_ROWS = 1 << 19
"""Keys handled at once: what a step holds besides its result stays small however many keys there are."""


class KeyTable:
    """Names, types and liveness of all keys.

    Attributes:
        names: key names as stored.
        db: database number per row.
        live: per row, whether the key had not expired at the snapshot.
    """

    def __init__(self, keyspace: Keyspace) -> None:
        keys = keyspace.keys
        self.names: pa.ChunkedArray = keys.column("key")
        self.db = databases(keyspace)
        self.live = keyspace.live
        self._types, self._codes = _encoded(keys.column("type"))
        self.expire_at: pa.ChunkedArray = keys.column("expire_at")
        self.elements: pa.ChunkedArray = keys.column("elements")

    def __len__(self) -> int:
        return len(self._codes)

    def is_type(self, name: str, rows: npt.NDArray[Any] | slice = slice(None)) -> npt.NDArray[np.bool_]:
        """Per row of `rows`, whether the key is of the Redis type."""
        if name not in self._types:
            return np.zeros(len(self._codes[rows]), np.bool_)
        return np.asarray(self._codes[rows] == self._types.index(name))

    def names_of(self, rows: Rows) -> pa.ChunkedArray:
        """Names of ascending rows."""
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
            return self.names.slice(int(rows[0]), len(rows))
        return take(self.names, rows)

    def expiry_of(self, rows: Rows) -> pa.ChunkedArray:
        """Expiry of ascending rows, Unix ms, null: never."""
        return take(self.expire_at, rows)

    def elements_of(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Elements of ascending rows, -1 where not known."""
        return numbers(take(self.elements, rows), np.int64, null=-1)


def numbers(column: pa.ChunkedArray | pa.Array, dtype: Any, null: int = 0) -> npt.NDArray[Any]:
    """The column as a numpy array, nulls as `null`."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    parts: list[npt.NDArray[Any]] = []
    for chunk in chunks:
        filled = chunk.fill_null(pa.scalar(null).cast(chunk.type)) if chunk.null_count else chunk
        parts.append(filled.to_numpy(zero_copy_only=False).astype(dtype, copy=False))
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def valid(column: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.bool_]:
    """Per value, whether it is not null."""
    return numbers(column.is_valid(), np.bool_)


def chunked(values: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """The values as one chunked array."""
    return values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])


def single(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The values as one array; only for what a batch holds."""
    if isinstance(values, pa.ChunkedArray):
        return (
            values.chunk(0)
            if values.num_chunks == 1
            else pa.concat_arrays(values.chunks or [pa.array([], values.type)])
        )
    return values


def _encoded(column: pa.ChunkedArray) -> tuple[list[str], npt.NDArray[np.int8]]:
    types: list[str] = []
    parts = []
    for chunk in column.chunks:
        encoded = chunk if isinstance(chunk, pa.DictionaryArray) else chunk.dictionary_encode()
        codes = []
        for name in encoded.dictionary.to_pylist():
            if name not in types:
                types.append(name)
            codes.append(types.index(name))
        parts.append(np.array(codes or [0], np.int8)[numbers(encoded.indices, np.int64)])
    return types, np.concatenate(parts) if parts else np.empty(0, np.int8)
