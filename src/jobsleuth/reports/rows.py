"""Arrow rows as plain values that every format can write: exact for machines, harmless for people."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobsleuth.case import TABLES
from jobsleuth.reports.words import moment

Row = dict[str, Any]
"""One row of a table: column → value; times in Unix ms."""
_AT_ONCE = 4096
_TIMES = frozenset(c.name for table in TABLES for c in table.columns if pa.types.is_timestamp(c.type))
_PER_MS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}


def records(table: pa.Table | pa.RecordBatchReader, moment: Callable[[int], Any]) -> Iterator[list[Any]]:
    """Rows as lists of str, int, float, bool, bytes, list, dict or None.

    Args:
        table: any Arrow rows, whole or piece by piece.
        moment: how a time in Unix ms is written. Times go through it rather than through `datetime`, which cannot hold
            what a hostile score can.
    """
    batches = table.to_batches(max_chunksize=_AT_ONCE) if isinstance(table, pa.Table) else table
    for batch in batches:
        yield from (list(row) for row in zip(*(_values(column, moment) for column in batch.columns), strict=True))


def jsonable(value: Any) -> Any:
    """A value of :func:`records` as JSON holds it: bytes as text where they are UTF-8, else ``{"b64": …}``."""
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(value).decode("ascii")}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list):
        return [jsonable(v) for v in value]
    if isinstance(value, dict):
        return {k: jsonable(v) for k, v in value.items()}
    return value


def with_moments(row: Row) -> Row:
    """A row of a case table for machines: its times, which are Unix ms, as ISO 8601 in UTC."""
    return {
        name: moment(value, iso=True) if name in _TIMES and isinstance(value, int) else value
        for name, value in row.items()
    }


def _values(array: Any, moment: Callable[[int], Any]) -> list[Any]:
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _values(array.dictionary_decode(), moment)
    if pa.types.is_timestamp(kind):
        times, over = _PER_MS[kind.unit]
        return [None if v is None else moment(v * times // over) for v in array.cast(pa.int64()).to_pylist()]
    if pa.types.is_map(kind):
        pairs = pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))
        as_lists = _values(array.cast(pairs), moment)
        return [None if v is None else {str(p["key"]): p["value"] for p in v} for v in as_lists]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        inner = iter(_values(pc.list_flatten(array), moment))
        lengths = pc.list_value_length(array).to_pylist()
        return [None if n is None else [next(inner) for _ in range(n)] for n in lengths]
    if pa.types.is_struct(kind):
        fields = [_values(pc.struct_field(array, [i]), moment) for i in range(kind.num_fields)]
        names = [kind.field(i).name for i in range(kind.num_fields)]
        rows = zip(*fields, strict=True) if fields else iter([()] * len(array))
        valid = array.is_valid().to_pylist()
        return [dict(zip(names, row, strict=True)) if ok else None for row, ok in zip(rows, valid, strict=True)]
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return list(array.to_pylist())
    if pa.types.is_decimal(kind) and kind.scale == 0:
        # What `sum` and `count` of big numbers give.
        return [None if v is None else int(v) for v in array.to_pylist()]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return list(array.to_pylist())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return list(array.to_pylist())
    if pa.types.is_interval(kind):
        return [None if v is None else _span(v.months, v.days, v.nanoseconds // 1000) for v in array.to_pylist()]
    return [None if v is None else str(v) for v in array.to_pylist()]


def _span(months: int, days: int, micros: int) -> str:
    """An interval as DuckDB writes it (`1 day 00:00:00.005`): what the difference of two times is."""
    counted = ((abs(months) // 12, months, "year"), (abs(months) % 12, months, "month"), (abs(days), days, "day"))
    parts = [f"{'-' if of < 0 else ''}{n} {unit}{'' if n == 1 else 's'}" for n, of, unit in counted if n]
    if micros or not parts:
        seconds, rest = divmod(abs(micros), 1_000_000)
        parts.append(
            f"{'-' if micros < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
            + (f".{rest:06}".rstrip("0") if rest else "")
        )
    return " ".join(parts)
