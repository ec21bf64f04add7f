"""Numbers, sizes and times as people read them. Every report uses these, so that one fact has one wording."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AGES = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))
_SIZES = ("bytes", "KB", "MB", "GB", "TB")


def moment(ms: int, *, iso: bool = False) -> str:
    """A Unix time in ms as UTC text, milliseconds only where they are not zero; `iso` (for machines) always has them.

    A time that no calendar holds (scores are free numbers) stays a number of milliseconds.
    """
    try:
        when = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return f"{ms} ms"
    exact = iso or ms % 1000 != 0
    text = when.replace(tzinfo=None).isoformat("T" if iso else " ", "milliseconds" if exact else "seconds")
    return f"{text}Z" if iso else text


def age(ms: int) -> str:
    """A span in ms as `6 min`, `2 h`, `41 d`; under a second as `12 ms`."""
    if ms < 0:
        return f"-{age(-ms)}"
    for unit, name in _AGES:
        if ms >= unit:
            return f"{ms // unit:,} {name}"
    return f"{ms} ms"


def size(count: int) -> str:
    """Bytes as `1.03 GB`; decimal units, three digits."""
    amount, unit = float(count), 0
    while amount >= 1000 and unit < len(_SIZES) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{count:,} bytes" if unit == 0 else f"{amount:.3g} {_SIZES[unit]}"


def number(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun: `1 job`, `12 jobs`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def series(items: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else ""


def percent(rate: float | None) -> str:
    """A rate as `6.7 %`; a dash for none."""
    return "–" if rate is None else f"{rate * 100:.3g} %"


def oddity(message: str, count: int | None) -> str:
    """A reader's note with its count, where that is more than one and the message does not tell it itself."""
    told = count is None or count < 2 or re.search(rf"(?<![0-9,.]){count:,}(?![0-9]|,[0-9])", message)
    return message if told else f"{message} ({count:,} in all)"
