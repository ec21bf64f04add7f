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
_PLACES = frozenset(map(str, range(1000)))
"""Members of arrays that can be named."""
ABSENT = (None, "", b"")
"""Values that say that there is no time and no number."""


class Tally:
    """How the records of one layout were read.

    Attributes:
        records: records with fields.
        shapeless: records that are no JSON object or array, which have none.
        present: column of `jobs` → records that have a field for it.
        usable: column → records that have a value for it.
        members: members that are jobs themselves.
        named: those of them that hold an id.
        read: values of each time; a time is a column, or the scores of one key: (number of the structure, its row).
        odd: those of them that the unit puts outside 2000 to 2100.
    """

    def __init__(self) -> None:
        self.records = 0
        self.shapeless = 0
        self.present: dict[str, int] = {}
        self.usable: dict[str, int] = {}
        self.members = 0
        self.named = 0
        self.read: dict[str | tuple[int, int], int] = {}
        self.odd: dict[str | tuple[int, int], int] = {}

    def note_time(self, time: str | tuple[int, int], fits: bool) -> None:
        """Counts a value of a time."""
        self.read[time] = self.read.get(time, 0) + 1
        self.odd[time] = self.odd.get(time, 0) + (not fits)

    def note_field(self, column: str, usable: bool) -> None:
        """Counts a record that has a field for the column."""
        self.present[column] = self.present.get(column, 0) + 1
        self.usable[column] = self.usable.get(column, 0) + usable


Record = Mapping[str, Any] | list[Any]
"""A record with fields: those of a hash, or a JSON object or array, whose fields are called 0, 1, …"""


def parsed(stored: bytes) -> Record | None:
    """The JSON object or array, None where it is none."""
    if stored.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        found = read_json(stored)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict | list) else None


def read_json(stored: bytes) -> Any:
    """The JSON value. What Python would take besides is none: `NaN` and `Infinity`, UTF-16, a mark at the beginning
    (RFC 8259, sections 6 and 8.1).

    Raises:
        ValueError: it is none.
        RecursionError: it is nested too deep to tell.
    """
    return json.loads(stored.decode(), parse_constant=_no_number)


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def own_id(record: Record | None, ids: tuple[str, ...]) -> str | None:
    """Id that a job holds: a text or a whole number, which is the same id as the text of its digits."""
    for name in ids if record is not None else ():
        value = at(record, name)
        if (isinstance(value, str) and value) or (isinstance(value, int) and not isinstance(value, bool)):
            return from_bytes(str(value).encode("utf-8", "surrogatepass"))
    return None


def digest(member: bytes) -> str:
    """Id of a job that holds none: the beginning of a digest of its bytes."""
    return f"sha256:{hashlib.sha256(member).hexdigest()[:16]}"


def at(record: Any, path: str) -> Any:
    """What stands in the JSON under the name, or under the names that its dots part, numbers for members of arrays;
    None for nothing."""
    if isinstance(record, Mapping) and path in record:
        return record[path]
    for name in path.split(".")[:_DEEPEST]:
        if isinstance(record, list) and name in _PLACES and int(name) < len(record):
            record = record[int(name)]
        elif isinstance(record, Mapping) and name in record:
            record = record[name]
        else:
            return None
    return record


def columns(layout: Layout, record: Record | None, tally: Tally) -> dict[str, Any]:
    """Columns of `jobs` from the record: texts, Unix ms, whole numbers; what does not fit is not there."""
    out: dict[str, Any] = {}
    if record is None:
        tally.shapeless += 1
        return out
    tally.records += 1
    for column, source in layout.fields.items():
        stored = [value for name in source.fields if (value := at(record, name)) is not None]
        if column not in TEXTS and column != "payload":
            stored = [value for value in stored if value not in ABSENT]
        if not stored:
            continue
        read = next((v for value in stored if (v := _value(column, value, source.unit)) is not None), None)
        tally.note_field(column, read is not None)
        if column in TIMES:
            tally.note_time(column, read is not None)
        if read is not None:
            out[column] = read
    return out


def _value(column: str, stored: Any, unit: str | None) -> Any:
    """What the column holds of a stored value, None where it cannot."""
    if column in TIMES:
        return moment(stored, unit)
    if column in NUMBERS:
        return _whole(stored)
    if column == "payload":
        return stored if isinstance(stored, bytes) else _text(stored).encode("utf-8", "surrogateescape")
    return _text(stored)


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
