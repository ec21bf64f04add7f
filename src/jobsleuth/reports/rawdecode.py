"""Bytes without a schema, told: Protocol Buffers as `protoc --decode_raw` prints them, and MessagePack.

What a payload is, its producer knows and the bytes do not say, so every reading that takes all of them is given. All
output is ASCII without control characters.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_NESTED = 10
"""Levels down to which bytes inside bytes are tried as a message; protoc's own number."""
_GROUPS = 100
"""Groups within groups that protoc reads at most."""
_SHORT, _LONG = 5, 10
"""Bytes that protoc reads of a tag or a length at most, in the message itself and in bytes that it tries as one."""
_DEEPEST = 64
"""Containers within containers that a MessagePack value may have here."""


@dataclass(frozen=True)
class RawDecode:
    """One reading of some bytes.

    Attributes:
        format: `protobuf` or `msgpack`.
        lines: what they say; where there is an error, what stands before it.
        error: None, or why they are nothing of that format, with the byte offset.
    """

    format: str
    lines: list[str]
    error: str | None


class _NotThat(ValueError):
    def __init__(self, why: str, at: int) -> None:
        super().__init__(f"{why} at byte {at}")


_COLUMNS = {
    "payload": "payload",
    "result": "result",
    "message_rest": "unknown fields of the message",
    "undecoded": "stored message",
}
"""Column of `jobs` that may hold bytes without a schema → what to call it."""


def raw_facts(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Every reading of every such column of a row of `jobs`, as JSON holds it."""
    return [
        {"column": column, "format": reading.format, "lines": reading.lines, "error": reading.error}
        for column in _COLUMNS
        if job.get(column)
        for reading in raw_decodes(job[column])
    ]


def raw_lines(job: dict[str, Any]) -> Iterator[str]:
    """The same for people: of each column the readings that fit, or why none does. Safe to print."""
    for column, name in _COLUMNS.items():
        data = job.get(column)
        if not data:
            continue
        whole = job.get("payload_bytes") if column == "payload" else None
        cut = f", cut: the first of {whole:,} bytes" if whole is not None and whole > len(data) else ""
        yield f"Raw decode: {name} ({len(data):,} bytes{cut})"
        readings = raw_decodes(data)
        fits = [reading for reading in readings if reading.error is None]
        for reading in fits or readings:
            yield f"  as {reading.format}" if reading.error is None else f"  no {reading.format}: {reading.error}"
            yield from ("    " + line for line in reading.lines)


def raw_decodes(data: bytes) -> list[RawDecode]:
    """The readings of `data`, one for each format, the ones that take all bytes first."""
    return sorted((protobuf(data), msgpack(data)), key=lambda reading: reading.error is not None)


# -- Protocol Buffers: https://protobuf.dev/programming-guides/encoding/ ----------------------------------------

_Field = tuple[int, int, Any]
"""Number, wire type, and an int, bytes or (for a group) fields."""


def protobuf(data: bytes) -> RawDecode:
    """Numbers and values of all fields. Bytes that could be a message are shown as one, as protoc does."""
    fields: list[_Field] = []
    error = None
    try:
        _fields(data, 0, None, _GROUPS, _SHORT, fields)
    except _NotThat as found:
        error = str(found)
    return RawDecode("protobuf", list(_shown(fields, _NESTED, "")), error)


def _fields(data: bytes, at: int, group: int | None, groups: int, longest: int, into: list[_Field]) -> int:
    """Reads fields to the end of the data or of the group; returns where that is.

    Of tags and lengths protoc takes the low 32 bits.
    """
    while at < len(data):
        start = at
        tag, at = _varint(data, at, longest)
        number, wire = (tag & 0xFFFF_FFFF) >> 3, tag & 7
        if not number:
            raise _NotThat("no field number", start)
        if wire == 0:
            value, at = _varint(data, at)
            into.append((number, wire, value))
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value, at = int.from_bytes(_cut(data, at, size), "little"), at + size
            into.append((number, wire, value))
        elif wire == 2:
            size, at = _varint(data, at, longest)
            if longest == _LONG:
                size &= 0xFFFF_FFFF
            into.append((number, wire, _cut(data, at, size)))
            at += size
        elif wire == 3:
            if not groups:
                raise _NotThat("groups nested too deeply", start)
            inner: list[_Field] = []
            into.append((number, wire, inner))
            at = _fields(data, at, number, groups - 1, longest, inner)
        elif wire == 4 and number == group:
            return at
        else:
            raise _NotThat("a group's end without its start" if wire == 4 else f"wire type {wire}", start)
    if group is not None:
        raise _NotThat("a group without end", at)
    return at


def _varint(data: bytes, at: int, longest: int = _LONG) -> tuple[int, int]:
    value = 0
    for nth, byte in enumerate(data[at : at + longest]):
        value |= (byte & 0x7F) << 7 * nth
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at + nth + 1
    raise _NotThat("a number without end", at)


def _cut(data: bytes, at: int, size: int) -> bytes:
    if size > len(data) - at:
        raise _NotThat(f"{size} bytes wanted, {len(data) - at} left", at)
    return data[at : at + size]


def _shown(fields: list[_Field], nested: int, indent: str) -> Iterator[str]:
    for number, wire, value in fields:
        if wire == 2:
            inner = _embedded(value, nested)
            if inner is None:
                yield f'{indent}{number}: "{_c_escaped(value)}"'
                continue
            value = inner
        if wire in (2, 3):
            yield f"{indent}{number} {{"
            yield from _shown(value, nested - 1, indent + "  ")
            yield f"{indent}}}"
        else:
            yield f"{indent}{number}: " + {0: "{}", 1: "0x{:016x}", 5: "0x{:08x}"}[wire].format(value)


def _embedded(data: bytes, nested: int) -> list[_Field] | None:
    if not data or nested <= 0:
        return None
    fields: list[_Field] = []
    try:
        _fields(data, 0, None, nested, _LONG, fields)
    except _NotThat:
        return None
    return fields


_C_ESCAPES = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 39: "\\'", 92: "\\\\"}


def _c_escaped(data: bytes) -> str:
    return "".join(_C_ESCAPES.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in data)


# -- MessagePack: https://github.com/msgpack/msgpack/blob/master/spec.md ------------------------------


def msgpack(data: bytes) -> RawDecode:
    """The one value that the bytes are, as JSON with `h'…'` for bytes and `ext(n, h'…')` for extensions."""
    reader = _Packed(data)
    try:
        value = reader.value(_DEEPEST)
        if reader.at < len(data):
            raise _NotThat("more bytes than one value has", reader.at)
    except _NotThat as found:
        return RawDecode("msgpack", [], str(found))
    return RawDecode("msgpack", [value], None)


_WORDS = {0xC0: "null", 0xC2: "false", 0xC3: "true"}
_NUMBERS = dict(zip(range(0xCA, 0xD4), "fdBHIQbhiq", strict=True))
_SIZED = {
    **{0xC4 + nth: ("bytes", code) for nth, code in enumerate("BHI")},
    **{0xC7 + nth: ("extension", code) for nth, code in enumerate("BHI")},
    **{0xD9 + nth: ("text", code) for nth, code in enumerate("BHI")},
    **{0xDC + nth: ("array", code) for nth, code in enumerate("HI")},
    **{0xDE + nth: ("map", code) for nth, code in enumerate("HI")},
}
"""First byte of a value → what it is, and how its size is written."""


class _Packed:
    """Reads values one after the other; each becomes its text at once, so that keys need not be hashable."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def value(self, deeper: int) -> str:
        if not deeper:
            raise _NotThat("nested too deeply", self.at)
        start, kind = self.at, self._number("B")
        if kind < 0x80 or kind >= 0xE0:
            return str(kind if kind < 0x80 else kind - 0x100)
        if kind < 0x90:
            return self._map(kind & 0x0F, deeper)
        if kind < 0xA0:
            return self._array(kind & 0x0F, deeper)
        if kind < 0xC0:
            return self._text(kind & 0x1F)
        if kind in _WORDS:
            return _WORDS[kind]
        if kind in _NUMBERS:
            return repr(self._number(_NUMBERS[kind]))
        if 0xD4 <= kind <= 0xD8:
            return self._extension(1 << (kind - 0xD4))
        if kind not in _SIZED:
            raise _NotThat(f"the unused type {kind:02x}", start)
        what, code = _SIZED[kind]
        size = self._number(code)
        if what == "bytes":
            return _hex(self._take(size))
        if what == "extension":
            return self._extension(size)
        if what == "text":
            return self._text(size)
        return self._array(size, deeper) if what == "array" else self._map(size, deeper)

    def _take(self, size: int) -> bytes:
        taken = _cut(self._data, self.at, size)
        self.at += size
        return taken

    def _number(self, code: str) -> Any:
        return struct.unpack(">" + code, self._take(struct.calcsize(">" + code)))[0]

    def _map(self, pairs: int, deeper: int) -> str:
        self._fits(2 * pairs)
        return "{" + ", ".join(f"{self.value(deeper - 1)}: {self.value(deeper - 1)}" for _ in range(pairs)) + "}"

    def _array(self, size: int, deeper: int) -> str:
        self._fits(size)
        return "[" + ", ".join(self.value(deeper - 1) for _ in range(size)) + "]"

    def _fits(self, values: int) -> None:
        left = len(self._data) - self.at
        if values > left:
            raise _NotThat(f"{values} values wanted, {left} bytes left", self.at)

    def _text(self, size: int) -> str:
        taken = self._take(size)
        try:
            return json.dumps(taken.decode()).replace("\x7f", "\\u007f")
        except UnicodeDecodeError:
            return _hex(taken)

    def _extension(self, size: int) -> str:
        return f"ext({self._number('b')}, {_hex(self._take(size))})"


def _hex(data: bytes) -> str:
    return f"h'{data.hex()}'"
