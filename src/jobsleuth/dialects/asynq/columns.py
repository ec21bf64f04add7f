"""Arrow columns for the case tables, made without a loop over rows."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

MS = pa.timestamp("ms", tz="UTC")
NO_TIME = np.iinfo(np.int64).min
"""What stands in an int64 array of Unix milliseconds where there is no time."""

_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799
"""Years 1 to 9999: what every reader of the tables can show."""

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def constant(value: str | None, rows: int) -> pa.Array:
    """A dictionary column with one value throughout."""
    if value is None:
        return pa.nulls(rows, pa.dictionary(pa.int32(), pa.string()))
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([value]))


def coded(codes: npt.NDArray[np.integer], words: Sequence[str] | pa.Array) -> pa.Array:
    """A dictionary column from indexes into `words`, which keeps only the words in use where there are many."""
    known = pa.array(words, pa.string()) if not isinstance(words, pa.Array) else words
    if len(known) > len(codes):
        used, codes = np.unique(codes, return_inverse=True)
        known = known.take(pa.array(used))
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), known)


def times(ms: Ints) -> pa.Array:
    """Timestamps from Unix milliseconds, `NO_TIME` being null."""
    return pa.array(ms, mask=ms == NO_TIME).cast(MS)


def ms_of_seconds(seconds: npt.NDArray[np.floating] | Ints) -> Ints:
    """Unix milliseconds from Unix seconds; `NO_TIME` for what is no time between the years 1 and 9999."""
    with np.errstate(invalid="ignore"):
        fits = (seconds >= _FIRST_S) & (seconds <= _LAST_S)
    known = np.where(fits, seconds, 0)
    return np.where(fits, np.floor(known * 1000).astype(np.int64), NO_TIME)


def ints(column: pa.Array, null: int = 0) -> Ints:
    """An integer column as int64, nulls replaced."""
    out: Ints = column.fill_null(null).to_numpy(zero_copy_only=False).astype(np.int64)
    return out


def bools(column: pa.Array | pa.ChunkedArray) -> Bools:
    """A bool column, null being false."""
    filled = column.fill_null(False)
    if isinstance(filled, pa.ChunkedArray):
        return np.asarray(filled.to_numpy(), bool)
    return np.asarray(filled.to_numpy(zero_copy_only=False), bool)


def filled(column: pa.Array) -> Bools:
    """Where a string or binary column holds at least one byte."""
    return bools(pc.greater(pc.binary_length(column), 0))


def nulled(column: pa.Array, keep: Bools) -> pa.Array:
    """The column with null wherever `keep` is false."""
    if keep.all():
        return column
    return pc.if_else(pa.array(keep), column, pa.scalar(None, column.type))


def one(column: pa.ChunkedArray) -> pa.Array:
    """A chunked column as one array."""
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def with_entries(rest: pa.MapArray, extras: Sequence[tuple[Ints, pa.Array, pa.Array]]) -> pa.MapArray:
    """The map column with entries added behind each row's own.

    Args:
        rest: map<string, binary>.
        extras: (row of each entry, its name, its value), in the order they shall stand.
    """
    extras = [extra for extra in extras if len(extra[0])]
    if not extras:
        return rest
    offsets = rest.offsets.to_numpy().astype(np.int64)
    own = np.repeat(np.arange(len(rest)), np.diff(offsets))
    span = slice(int(offsets[0]), int(offsets[-1]))
    owner = np.concatenate([own, *(extra[0] for extra in extras)])
    order = np.argsort(owner, kind="stable")
    names = pa.concat_arrays([rest.keys[span], *(extra[1] for extra in extras)]).take(pa.array(order))
    values = pa.concat_arrays([rest.items[span], *(extra[2].cast(pa.binary()) for extra in extras)])
    starts = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(rest)))]).astype(np.int32)
    return pa.MapArray.from_arrays(pa.array(starts), names, values.take(pa.array(order)))


def named(name: str, where: Bools, values: pa.Array) -> tuple[Ints, pa.Array, pa.Array]:
    """Entries for :func:`with_entries`: the value of each row in `where`, all under one name, numbers as text."""
    rows = np.flatnonzero(where)
    chosen = values.take(pa.array(rows))
    if pa.types.is_integer(chosen.type):
        chosen = chosen.cast(pa.string())
    return rows, pa.array([name]).take(pa.array(np.zeros(len(rows), np.int32))), chosen


@functools.cache
def text_type() -> pa.DataType:
    """Type of the `details` and `fields` columns."""
    return pa.map_(pa.string(), pa.string())
