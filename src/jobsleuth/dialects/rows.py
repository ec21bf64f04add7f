"""Columns of the case tables, for dialects whose rows are made from arrays of queue numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jobsleuth.keyspace import Claims, Keyspace, Rows
from jobsleuth.safetext import from_bytes

MS = pa.timestamp("ms", tz="UTC")
COUNTS = pa.map_(pa.string(), pa.int64())
DETAILS = pa.map_(pa.string(), pa.string())

YEAR_2000_MS, YEAR_2100_MS = 946_684_800_000, 4_102_444_800_000
"""Between them a number of milliseconds is taken for a time."""


class Places:
    """Dialect, namespace, queue and database of rows, by number of the queue in `claims.queues`."""

    def __init__(self, claims: Claims) -> None:
        self._dialect = claims.dialect
        self._namespaces = _Words([from_bytes(q.namespace) for q in claims.queues])
        self._names = _Words([from_bytes(q.queue) for q in claims.queues])
        self._db = np.array([q.db for q in claims.queues], np.int64)

    def columns(self, queue: npt.NDArray[Any]) -> dict[str, Any]:
        """The four columns, for one queue number a row."""
        return {
            "dialect": constant(self._dialect, len(queue)),
            "namespace": self._namespaces.of(queue),
            "queue": self._names.of(queue),
            "db": pa.array(self._db[queue]),
        }


class _Words:
    def __init__(self, words: list[str]) -> None:
        unique = sorted(set(words))
        place = {word: n for n, word in enumerate(unique)}
        self._words = pa.array(unique, pa.string())
        self._code = np.array([place[word] for word in words], np.int32)

    def of(self, queue: npt.NDArray[Any]) -> pa.DictionaryArray:
        return pa.DictionaryArray.from_arrays(pa.array(self._code[queue]), self._words)


def constant(value: str, rows: int) -> pa.DictionaryArray:
    """One word in every row."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([value]))


def coded(codes: npt.NDArray[Any], words: tuple[str, ...]) -> pa.DictionaryArray:
    """Words by their numbers."""
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(words))


def times(ms: npt.NDArray[Any]) -> pa.Array:
    """Unix milliseconds as timestamps, null where they are no time between 2000 and 2100."""
    known = (ms >= YEAR_2000_MS) & (ms < YEAR_2100_MS)
    return pa.array(np.where(known, ms, 0).astype(np.int64), mask=~known).cast(MS)


def take(column: pa.ChunkedArray, rows: Rows) -> pa.ChunkedArray:
    """Values of the rows, ascending, chunk by chunk: Arrow's own take first joins a chunked column, which copies it and
    fails where it has more than 2 GiB."""
    starts = np.cumsum([0, *(len(chunk) for chunk in column.chunks)])
    ends = np.searchsorted(rows, starts)
    pieces = zip(column.chunks, starts.tolist(), ends.tolist(), ends[1:].tolist(), strict=False)
    return pa.chunked_array(
        [chunk.take(pa.array(rows[low:high] - start)) for chunk, start, low, high in pieces if low < high], column.type
    )


def names(keyspace: Keyspace, rows: Rows) -> pa.Array:
    """Names of keys as text, in the order of `rows`."""
    unique, back = np.unique(rows, return_inverse=True)
    stored = take(keyspace.keys.column("key"), unique)
    return single(keyspace.to_text(stored)[0]).take(pa.array(back))


def text(keyspace: Keyspace, values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """(text, exact bytes where the text is not)."""
    shown, exact = keyspace.to_text(pa.chunked_array([values]))
    return single(shown), single(exact)


def single(values: pa.ChunkedArray) -> pa.Array:
    """One array of a chunked one."""
    return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()


def databases(keyspace: Keyspace) -> npt.NDArray[np.int64]:
    """Database number per key, not to be written to; where there is one only, it is stored once."""
    db = keyspace.keys.column("db")
    ends = pc.min_max(db).as_py()
    if ends["min"] == ends["max"] and len(db):
        return np.broadcast_to(np.int64(ends["min"]), len(db))
    return np.asarray(db.to_numpy(), np.int64)


def is_type(keyspace: Keyspace, name: str) -> npt.NDArray[np.bool_]:
    """Per key, whether it is of the Redis type; nothing is looked at where no key is."""
    found = []
    for chunk in keyspace.keys.column("type").chunks:
        words = chunk.dictionary.to_pylist()
        codes = chunk.indices.to_numpy(zero_copy_only=False)
        found.append(codes == words.index(name) if name in words else np.zeros(len(chunk), np.bool_))
    return np.concatenate(found) if found else np.zeros(0, np.bool_)
