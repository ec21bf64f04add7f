"""Columns of the keys table, taken and shared."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from jobsleuth.dialects.rows import databases, take
from jobsleuth.keyspace import Keyspace


@pytest.mark.parametrize("rows", [[], [0], [4], [1, 2], [2, 3, 4, 8], [8, 9], list(range(10))])
def test_taken_values_are_those_of_the_rows(rows: list[int]) -> None:
    """Whatever chunks a column has, empty ones too, and whichever of them the rows are in."""
    whole = [b"%d" % n for n in range(10)]
    column = pa.chunked_array([whole[:2], [], whole[2:5], whole[5:9], whole[9:]], pa.binary())
    taken = take(column, np.array(rows, np.int64))
    assert taken.type == pa.binary() and taken.to_pylist() == [whole[row] for row in rows]


def test_what_arrow_would_join_is_taken_chunk_by_chunk() -> None:
    """Names of more than 2 GiB in all: the same memory many times, which joined would not fit 32 bits."""
    chunk = pa.array([b"x" * (1 << 20)] * 512, pa.binary())
    column = pa.chunked_array([chunk] * 5)
    with pytest.raises(pa.ArrowInvalid, match="overflow"):
        column.take(pa.array([0, 2559]))
    assert take(column, np.array([0, 2559])).to_pylist() == [b"x" * (1 << 20)] * 2


@pytest.mark.parametrize(("chunks", "shared"), [([[3, 3], [3]], True), ([[0, 0], [0, 1]], False), ([], False)])
def test_databases(chunks: list[list[int]], shared: bool) -> None:
    """Of keys that are all in one database its number is stored once."""
    keys = pa.table({"db": pa.chunked_array(chunks, pa.int64())})
    db = databases(cast("Keyspace", SimpleNamespace(keys=keys)))
    assert db.tolist() == [number for chunk in chunks for number in chunk]
    assert (db.strides == (0,)) is shared
    assert cast("Any", db).dtype == np.int64
