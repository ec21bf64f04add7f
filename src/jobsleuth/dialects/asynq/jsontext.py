"""JSON objects member by member, each with its text as stored.

Releases before 0.18 wrote everything as JSON. What a task carries is evidence, so a member's own text is kept beside
its value; a parser that gives values alone would lose how numbers and escapes were written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator
from typing import Any

_SPACE = re.compile(r"[ \t\n\r]*")


class Number(str):
    """A number as written: neither its size nor its digits are limited or rounded."""


class NoJson(ValueError):
    """Bytes that are no JSON object. The text names the byte where reading stopped."""


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=_no_constant)


class Members:
    """The members of the one JSON object in `data`, in order: iterate for (name, value, start, end).

    Bytes that are not UTF-8 count as part of the strings they stand in.

    Attributes:
        behind: what stands behind the object, known when all members are.
    """

    def __init__(self, data: bytes, *, alone: bool = True) -> None:
        """Args:
        data: the bytes.
        alone: nothing may stand behind the object.
        """
        self._text = data.decode("utf-8", "surrogateescape")
        self._alone = alone
        self.behind = b""

    def stored(self, start: int, end: int) -> bytes:
        """The text of a value as stored."""
        return self._text[start:end].encode("utf-8", "surrogateescape")

    def __iter__(self) -> Iterator[tuple[str, Any, int, int]]:
        """Raises:
        NoJson: the bytes are no JSON object, or more than one where it must be alone.
        """
        text = self._text
        try:
            at = _skip(text, (yield from _members(text)))
            if at < len(text) and self._alone:
                raise json.JSONDecodeError("Extra data", text, at)
            self.behind = self.stored(at, len(text))
        except json.JSONDecodeError as error:
            raise NoJson(f"{error.msg} at byte {_byte(text, error.pos)}") from None
        except RecursionError:
            raise NoJson("nested too deeply at byte 0") from None
        except ValueError as error:
            raise NoJson(f"{error} at byte 0") from None


def _members(text: str) -> Generator[tuple[str, Any, int, int], None, int]:
    """The members; returns where the object ends."""
    at = _past(text, 0, "{")
    if text[at : at + 1] == "}":
        return at + 1
    while True:
        if text[at : at + 1] != '"':
            raise json.JSONDecodeError("Expecting a member's name", text, at)
        name, at = _DECODER.raw_decode(text, at)
        start = _past(text, at, ":")
        value, end = _DECODER.raw_decode(text, start)
        yield name, value, start, end
        at = _skip(text, end)
        if text[at : at + 1] == "}":
            return at + 1
        at = _past(text, at, ",")


def _skip(text: str, at: int) -> int:
    """Where the next sign is that is no space."""
    if text[at : at + 1] not in " \t\n\r":
        return at
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _past(text: str, at: int, sign: str) -> int:
    """Where the next sign is after `sign`, which must come now."""
    at = _skip(text, at)
    if text[at : at + 1] != sign:
        raise json.JSONDecodeError(f"Expecting '{sign}'", text, at)
    return _skip(text, at + 1)


def _byte(text: str, at: int) -> int:
    return len(text[:at].encode("utf-8", "surrogateescape"))


def plain(text: str) -> str:
    r"""A string of JSON as case text: halves of surrogate pairs as `\uNNNN`, stray bytes as `\xNN`."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join(_escaped(char) if "\ud800" <= char <= "\udfff" else char for char in text)
    return text


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"
