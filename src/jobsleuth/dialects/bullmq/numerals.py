"""Numbers in job hashes as the library reads them: JavaScript's parseInt, which stops at the first odd character.

The core takes plain decimals; what is spelled otherwise it leaves in `rest`. Only such fields are read again here.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from jobsleuth.dialects.bullmq.keytable import numbers
from jobsleuth.dialects.bullmq.states import EARLIEST_MS, LATEST_MS

pc: Any = pa.compute

_COLUMNS = {
    "timestamp": "created_at",
    "delay": "delay_ms",
    "priority": "priority",
    "processedOn": "started_at",
    "finishedOn": "finished_at",
    "attemptsMade": "attempts_made",
    "atm": "attempts_ended",
    "ats": "attempts_started",
    "stc": "stalled_count",
    "stalledCounter": "stalled_counter",
}
"""Stored field → column of :func:`.fields.job_projection`."""
_OLD_AND_NEW = {"atm": "attempts_made", "stalledCounter": "stalled_count"}
"""Counter → column of the one that goes before it where a job has both."""
_NUMERAL = re.compile(r"\s*([+-]?)(?:0[xX]([0-9a-fA-F]+)|([0-9]+))")

Unreadable = dict[str, npt.NDArray[np.bool_]]
"""Column → per job, whether its field holds a text that begins with no number."""


def parse_int(text: bytes) -> int | None:
    """What JavaScript's parseInt makes of the text, exactly; None for NaN and beyond int64."""
    match = _NUMERAL.match(text.decode("utf-8", "replace"))
    if match is None:
        return None
    sign, hexadecimal, decimal = match.groups()
    digits = (hexadecimal or decimal).lstrip("0") or "0"
    # Longer ones are beyond int64 anyhow, and Python refuses to convert very long ones.
    if len(digits) > 20:
        return None
    value = int(digits, 16 if hexadecimal else 10)
    value = -value if sign == "-" else value
    return value if -(1 << 63) <= value < 1 << 63 else None


def _cut(text: bytes) -> int | None:
    """The number as the core reads it where it is not a plain decimal: with a fraction or an exponent, cut."""
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        return None


def settle_numbers(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Unreadable]:
    """The batch with oddly spelled numbers read as the library reads them, and where it reads none.

    An empty field is absent to the library where it asks for a number that may be missing. Of counters that two
    releases name differently the one that the library does not look at goes to `rest`.
    """
    owner, fields, texts = _left(batch)
    unreadable: Unreadable = {}
    for field, column in _COLUMNS.items():
        some = np.flatnonzero(fields == field)
        place = batch.schema.get_field_index(column)
        stored = batch.column(place)
        if field in _OLD_AND_NEW:
            winner = _OLD_AND_NEW[field]
            both = numbers(batch.column(winner).is_valid(), np.bool_) | unreadable.get(winner, np.False_)
            both &= numbers(stored.is_valid(), np.bool_)
            both[owner[some]] = False
            batch = _keep_too(batch, field, np.flatnonzero(both), stored)
        values = numbers(stored.cast(pa.int64()), np.int64).copy()
        known = numbers(stored.is_valid(), np.bool_)
        # A column that holds another number got it from the same field, stored a second time: the first one counts.
        at = owner[some]
        some = some[[not known[a] or _cut(texts[n]) == values[a] for a, n in zip(at, some.tolist(), strict=True)]]
        if not len(some):
            continue
        read = [parse_int(texts[n]) for n in some.tolist()]
        moment = pa.types.is_timestamp(stored.type)
        fits = [v is not None and (not moment or EARLIEST_MS <= v <= LATEST_MS) for v in read]
        values[owner[some]] = [v if fit and v is not None else 0 for v, fit in zip(read, fits, strict=True)]
        known[owner[some]] = fits
        new = pa.array(values, mask=~known).cast(stored.type)
        batch = batch.set_column(place, batch.schema.field(place), new)
        mask = np.zeros(batch.num_rows, np.bool_)
        mask[owner[some]] = [v is None and bool(texts[n]) for v, n in zip(read, some.tolist(), strict=True)]
        if mask.any():
            unreadable[column] = mask
    return batch, unreadable


def _left(batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.object_], list[bytes]]:
    """(job, field, text) of each number that is left in `rest`."""
    rest = batch.column("rest")
    offsets = numbers(rest.offsets, np.int64)
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    keys = rest.keys.slice(first, last - first)
    odd = np.flatnonzero(numbers(pc.is_in(keys, value_set=pa.array(list(_COLUMNS))), np.bool_))
    owner = np.searchsorted(offsets - first, odd, side="right") - 1
    pick = pa.array(odd)
    fields = np.array(keys.take(pick).to_pylist(), np.object_)
    return owner, fields, rest.items.slice(first, last - first).take(pick).to_pylist()


def _keep_too(batch: pa.RecordBatch, field: str, rows: npt.NDArray[np.int64], values: pa.Array) -> pa.RecordBatch:
    """The batch with the field's number in `rest` of the rows as well."""
    if not len(rows):
        return batch
    place = batch.schema.get_field_index("rest")
    rest = batch.column(place)
    offsets = numbers(rest.offsets, np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    keys, items = rest.keys.slice(first, last - first), rest.items.slice(first, last - first)
    texts = values.take(pa.array(rows)).cast(pa.string()).cast(items.type)
    names = pa.array([field] * len(rows)).cast(keys.type)
    pick = pa.array(
        np.insert(np.arange(len(keys)), offsets[rows + 1] - first, np.arange(len(keys), len(keys) + len(rows)))
    )
    more = np.zeros(len(offsets), np.int64)
    more[rows + 1] = 1
    new = pa.MapArray.from_arrays(
        pa.array((offsets - first + np.cumsum(more)).astype(np.int32)),
        pa.concat_arrays([keys, names]).take(pick),
        pa.concat_arrays([items, texts]).take(pick),
    )
    return batch.set_column(place, batch.schema.field(place), new.cast(rest.type))


def counter(batch: pa.RecordBatch, unreadable: Unreadable, *columns: str, missing: Any) -> pa.Array:
    """The first of the columns that is there, else `missing`; null where the library would read no number."""
    value = pc.coalesce(*(batch.column(name) for name in columns), missing)
    nothing = np.zeros(batch.num_rows, np.bool_)
    for name in reversed(columns):
        # A field that is there goes before the next, whether it can be read or not.
        nothing &= numbers(batch.column(name).is_null(), np.bool_)
        nothing |= unreadable.get(name, np.False_)
    return pc.if_else(pa.array(nothing), pa.scalar(None, pa.int64()), value) if nothing.any() else value
