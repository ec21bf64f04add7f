"""What may stand in a manifest: somebody may have edited it, and no reader of a case should stumble over that later.

A kind raises :class:`Misshapen` for a value that is not of it. Members that it does not name are a newer writer's: they
are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from jobsleuth import safetext

Kind = Callable[[Any, str], None]
"""Takes a value and its place in the manifest, e.g. `evidence[0].bytes`."""
_LAST_MS = 1 << 50
"""No evidence is read as later, and what is later neither Python nor DuckDB can show."""
_LONGEST = 60


class Misshapen(ValueError):
    """A value is not what stands in its place; the text says where and what should."""

    def __init__(self, at: str, wanted: str) -> None:
        where = safetext.terminal(at, 2 * _LONGEST) or "all of it"
        super().__init__(f"{where} is of the wrong kind: {wanted} should stand there")


def text(value: Any, at: str) -> None:
    """Text that has an encoding."""
    if not isinstance(value, str) or not _encodes(value, "strict"):
        raise Misshapen(at, "text")


def name(value: Any, at: str) -> None:
    """Text, or the name of a file as the system gave it: bytes that are no UTF-8 as lone surrogates."""
    if not isinstance(value, str) or not _encodes(value, "surrogateescape"):
        raise Misshapen(at, "text")


def flag(value: Any, at: str) -> None:
    """Yes or no."""
    if not isinstance(value, bool):
        raise Misshapen(at, "true or false")


def whole(least: int, most: int) -> Kind:
    """A whole number from `least` to `most`."""

    def kind(value: Any, at: str) -> None:
        if type(value) is not int or not least <= value <= most:
            raise Misshapen(at, f"a whole number from {least} to {most}")

    return kind


def maybe(inner: Kind) -> Kind:
    """null, or that."""

    def kind(value: Any, at: str) -> None:
        if value is not None:
            inner(value, at)

    return kind


def each(inner: Kind) -> Kind:
    """A list of those."""

    def kind(value: Any, at: str) -> None:
        if not isinstance(value, list):
            raise Misshapen(at, "a list")
        for number, item in enumerate(value):
            inner(item, f"{at}[{number}]")

    return kind


def values(inner: Kind) -> Kind:
    """An object with any members, whose values are those."""

    def kind(value: Any, at: str) -> None:
        if not isinstance(value, dict):
            raise Misshapen(at, "an object")
        for member, item in value.items():
            name(member, f"a name in {at}")
            inner(item, _below(at, member))

    return kind


def members(kinds: dict[str, Kind], needed: Collection[str] = ()) -> Kind:
    """An object whose members are those, as far as it has them; `needed` ones it must have."""

    def kind(value: Any, at: str) -> None:
        if not isinstance(value, dict):
            raise Misshapen(at, "an object")
        for member in needed:
            if member not in value:
                raise Misshapen(at, f"an object with {member}")
        for member, item in value.items():
            if member in kinds:
                kinds[member](item, _below(at, member))

    return kind


def anything(value: Any, at: str) -> None:
    """Whatever JSON holds: nobody reads it."""


def _below(at: str, member: str) -> str:
    shown = safetext.terminal(member, _LONGEST)
    return f"{at}.{shown}" if at else shown


def _encodes(value: str, errors: str) -> bool:
    try:
        value.encode("utf-8", errors)
    except UnicodeEncodeError:
        return False
    return True


_COUNT = whole(0, (1 << 64) - 1)
_NUMBER = whole(0, (1 << 63) - 1)
_MOMENT = whole(-_LAST_MS, _LAST_MS)
_FACTS = values(maybe(lambda value, at: (text if isinstance(value, str) else _COUNT)(value, at)))
"""Text, numbers and nothing, by name."""

EVIDENCE = members(
    {
        "number": whole(0, (1 << 31) - 1),
        "path": name,
        "sha256": text,
        "bytes": _NUMBER,
        "format": text,
        "format_version": maybe(whole(0, (1 << 31) - 1)),
        "family": maybe(text),
        "magic": maybe(text),
        "redis_version": maybe(name),
        "aux": values(text),
        "as_of_ms": maybe(_MOMENT),
        "as_of_from_ms": maybe(_MOMENT),
        "as_of_source": text,
        "atomic": flag,
        "checksum": members({"status": text, "stored": maybe(text), "computed": maybe(text)}),
        "counts": values(anything),
        "databases": values(values(maybe(_COUNT))),
        "warnings": each(
            members(
                {"kind": text, "message": name, "offset": maybe(_NUMBER), "count": maybe(_NUMBER)}, ("kind", "message")
            )
        ),
        "functions": each(_FACTS),
        "modules": each(_FACTS),
        "fault": maybe(members({"kind": text, "message": name, "offset": maybe(_NUMBER)}, ("message",))),
        "parts": each(anything),  # compared, and told, by `verify`
        "inner": maybe(
            members({"compression": text, "sha256": text, "bytes": _NUMBER}, ("compression", "sha256", "bytes"))
        ),
        "streamed": flag,
    },
    ("number", "path", "sha256", "bytes", "format"),
)
"""One entry of `evidence`."""
MANIFEST = members(
    {
        "version": text,
        "options": members(
            {
                "accepted_findings": _NUMBER,
                "own_checks": values(text),
                "payload_limit": maybe(_NUMBER),
                "redacted_with": maybe(text),
            }
        ),
        "evidence": each(EVIDENCE),
        # What is said of each is compared, and told, by `verify`.
        "tables": values(anything),
        "files": values(anything),
        "limits": each(name),
    },
    ("version",),
)
"""The manifest itself, once it is known that this jobsleuth reads its version."""
