"""On which line of a TOML file each thing stands: the parser does not tell."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right

Place = tuple[str | int, ...]
"""Names and numbers that lead to a value, e.g. ``("layout", 0, "structure", 1, "key")``."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r"""[ \t]*("(?:\\.|[^"\\])*"|'[^']*'|[\w-]+)[ \t]*""")
_PLAIN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'"
    r"|[^,\]}#\n]*",
    re.DOTALL,
)


class Lines:
    """Lines of all that stands in a text which the parser of TOML has accepted."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self._at: dict[Place, int] = {}
        self._counts: dict[Place, int] = {}
        here: Place = ()
        at = self._blank(0)
        while at < len(text):
            begun = at
            if text[at] == "[":
                at, here = self._header(at)
            else:
                at = self._member(at, here)
            # What the parser took and this does not know ends the telling, not the program.
            at = self._blank(at) if at > begun else len(text)

    def of(self, place: Place) -> int:
        """The line of a place, else of the nearest around it."""
        while place and place not in self._at:
            place = place[:-1]
        return self._at.get(place, 1)

    def _note(self, place: Place, at: int) -> None:
        self._at.setdefault(place, bisect_right(self._starts, at))

    def _blank(self, at: int) -> int:
        found = _BLANK.match(self._text, at)
        return found.end() if found else at

    def _names(self, at: int) -> tuple[int, list[str]]:
        """Behind the dotted key, and its parts."""
        names: list[str] = []
        while found := _KEY.match(self._text, at):
            given = found[1]
            names.append(tomllib.loads(f"k={given}")["k"] if given[0] in "\"'" else given)
            at = found.end()
            if self._text[at : at + 1] != ".":
                break
            at += 1
        return at, names

    def _header(self, at: int) -> tuple[int, Place]:
        listed = self._text.startswith("[[", at)
        end, names = self._names(at + 1 + listed)
        here: Place = ()
        for depth, name in enumerate(names, 1):
            here = (*here, name)
            self._note(here, at)
            if listed and depth == len(names):
                self._counts[here] = self._counts.get(here, -1) + 1
            if here in self._counts:
                here = (*here, self._counts[here])
            self._note(here, at)
        return end + 1 + listed, here

    def _member(self, at: int, here: Place) -> int:
        end, names = self._names(at)
        for depth in range(1, len(names) + 1):
            self._note((*here, *names[:depth]), at)
        return self._value(end + 1, (*here, *names))

    def _value(self, at: int, place: Place) -> int:
        at = self._blank(at)
        opened = self._text[at : at + 1]
        if opened not in ("[", "{"):
            found = _PLAIN.match(self._text, at)
            return found.end() if found else at
        at, number = self._blank(at + 1), 0
        while self._text[at : at + 1] not in ("]", "}", ""):
            if opened == "[":
                self._note((*place, number), at)
                end = self._value(at, (*place, number))
            else:
                end = self._member(at, place)
            if end <= at:
                return len(self._text)
            end = self._blank(end)
            at = self._blank(end + 1) if self._text[end : end + 1] == "," else end
            number += 1
        return at + 1
