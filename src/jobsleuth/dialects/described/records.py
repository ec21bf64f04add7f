"""One job's record: its fields as columns of `jobs`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from jobsleuth.dialects.description import ANY, ISO, NUMBERS, TEXTS, TIMES, UNITS, Layout
from jobsleuth.dialects.rows import YEAR_2000_MS, YEAR_2100_MS
from jobsleuth.safetext import from_bytes

_DEEPEST = 32


class Times:
    """How many values of each time were read, and how many of them the unit puts outside 2000 to 2100.

    A time is a column of `jobs`, or the scores of one key: (number of the structure, the key's row).
    """

    def __init__(self) -> None:
        self.read: dict[str | tuple[int, int], int] = {}
        self.odd: dict[str | tuple[int, int], int] = {}

    def note(self, time: str | tuple[int, int], fits: bool) -> None:
        """Counts a value."""
        self.read[time] = self.read.get(time, 0) + 1
        self.odd[time] = self.odd.get(time, 0) + (not fits)


def parsed(stored: bytes) -> dict[str, Any] | None:
    """The JSON object, None where it is none."""
    if stored.lstrip()[:1] != b"{":
        return None
    try:
        found = json.loads(stored)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def identity(member: bytes, record: Mapping[str, Any] | None, ids: tuple[str, ...]) -> str:
    """Id of a job that is stored inside a structure: its own, else the beginning of a digest of its bytes."""
    for name in ids if record is not None else ():
        value = at(record, name)
        if (isinstance(value, str) and value) or (isinstance(value, int) and not isinstance(value, bool)):
            return from_bytes(str(value).encode("utf-8", "surrogatepass"))
    return f"sha256:{hashlib.sha256(member).hexdigest()[:16]}"


def at(record: Any, path: str) -> Any:
    """What stands in the JSON under the name, or under the names that its dots part; None for nothing."""
    if isinstance(record, Mapping) and path in record:
        return record[path]
    for name in path.split(".")[:_DEEPEST]:
        if not isinstance(record, Mapping) or name not in record:
            return None
        record = record[name]
    return record


def columns(layout: Layout, record: Mapping[str, Any] | None, counted: Times) -> dict[str, Any]:
    """Columns of `jobs` from the record: texts, Unix ms, whole numbers; what does not fit is not there."""
    out: dict[str, Any] = {}
    if record is None:
        return out
    for column, source in layout.fields.items():
        value = next((v for name in source.fields if (v := at(record, name)) is not None), None)
        if value is None:
            continue
        if column in TEXTS:
            out[column] = _text(value)
        elif column in TIMES:
            when = moment(value, source.unit)
            counted.note(column, when is not None)
            out[column] = when
        elif column in NUMBERS:
            out[column] = _whole(value)
        elif column == "payload":
            out[column] = value if isinstance(value, bytes) else _text(value).encode("utf-8", "surrogateescape")
    return out


def moment(value: Any, unit: str | None) -> int | None:
    """Unix ms of a stored time, None where it is none between 2000 and 2100."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if unit == ANY:
        return next((ms for each in (*UNITS, ISO) if (ms := moment(value, each)) is not None), None)
    if unit == ISO:
        try:
            when = datetime.fromisoformat(str(value))
        except ValueError:
            return None
        return _within((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)
    try:
        return _within(float(value) * UNITS[unit or "ms"])
    except (TypeError, ValueError, OverflowError):
        return None


def _within(ms: float) -> int | None:
    return int(ms) if YEAR_2000_MS <= ms < YEAR_2100_MS else None


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return from_bytes(value)
    if isinstance(value, str):
        return from_bytes(value.encode("utf-8", "surrogatepass"))
    return json.dumps(value, ensure_ascii=False)


def _whole(value: Any) -> int | None:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if -(1 << 63) <= number < 1 << 63 else None
