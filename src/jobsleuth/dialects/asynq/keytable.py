"""The keys of the evidence with the little that both claim and tables ask of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jobsleuth.dialects.rows import databases, take
from jobsleuth.keyspace import Keyspace, Rows

_FEW = 256


class KeyTable:
    """Names, databases, types, sizes and expiry of keys, by ascending row numbers."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace
        keys = keyspace.keys
        self.live = keyspace.live
        self.name: pa.ChunkedArray = keys.column("key")
        self.db = databases(keyspace)
        self.expire_at: pa.ChunkedArray = keys.column("expire_at")
        self._elements: pa.ChunkedArray = keys.column("elements")
        kinds = keys.column("type").unify_dictionaries()
        self._kinds: list[str] = kinds.chunk(0).dictionary.to_pylist() if kinds.num_chunks else []
        codes = [chunk.indices.to_numpy().astype(np.int8) for chunk in kinds.chunks]
        self._kind: npt.NDArray[np.int8] = np.concatenate(codes) if codes else np.empty(0, np.int8)

    def names(self, rows: Rows) -> pa.ChunkedArray:
        """Key names of the rows."""
        return take(self.name, rows)

    def elements(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Elements of each key, 0 where the evidence does not say."""
        found: npt.NDArray[np.int64] = take(self._elements, rows).fill_null(0).to_numpy().astype(np.int64)
        return found

    def has_type(self, rows: Rows, *kinds: str) -> npt.NDArray[np.bool_]:
        """Whether each key has one of the types."""
        codes = [code for code, kind in enumerate(self._kinds) if kind in kinds]
        return np.isin(self._kind[rows], codes)

    def present(self, rows: Rows, *kinds: str) -> Rows:
        """Those of the rows whose keys had not expired at the snapshot and have one of the types."""
        return rows[self.live[rows] & self.has_type(rows, *kinds)]

    def find(self, prefixes: list[tuple[int, bytes]], code: npt.NDArray[np.int32], middle: pa.Array) -> Rows:
        """Rows of the keys that begin with ``prefixes[code]`` and end with `middle`, -1 where there is none.

        Only the prefixes in use are handed on: there may be a hundred thousand queues, and a call per batch.
        """
        if len(prefixes) > _FEW:
            used, places = np.unique(code, return_inverse=True)
            prefixes, code = [prefixes[i] for i in used.tolist()], places.astype(np.int32)
        return self._keyspace.lookup(prefixes, code, pa.chunked_array([middle], pa.binary()))

    def type_of(self, row: int) -> str:
        """Type of one key."""
        return self._kinds[int(self._kind[row])]
