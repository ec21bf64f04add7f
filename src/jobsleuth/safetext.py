"""Hostile bytes made harmless: the only place that prepares evidence text for people and for other formats.

Names, payloads and errors in a dump are chosen by whoever could write to the queue. Printed raw they can move the
cursor, hide text (ANSI, bidirectional controls), run as HTML, or run as a spreadsheet formula.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
# Cc controls, Cf format characters (bidi, zero width), Cs surrogates, Co private use, Cn unassigned, Zl/Zp separators.
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Letters and marks that show nothing: fillers, the grapheme joiner, variation selectors, the blank pattern of Braille.
_INVISIBLE = frozenset(
    map(chr, (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, *range(0x180B, 0x1810)))
) | frozenset(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
_MARKS = 4
"""Marks in a row on one letter: no script writes more, and a tower of them hides the lines above."""
_LIVE = re.compile(
    r"[@#$]|:(?=//)|:(?=(?!\d\d:)[\w+\\-]+:)|(?<=www)\.|\\[!~](?=[\w\"])|%(?=[\w\"])|&amp;(?=\d)", re.IGNORECASE
)
"""What makes text live after Markdown is done with it: addresses, mentions, issues, `:email:` for an emoji, formulas
between `$`; in GitLab also requests `!1`, labels `~1`, milestones `%1`, epics `&1` and snippets `$1`."""
_PLACEHOLDER = re.compile(r"\{\d+\}")
_ORDER = re.compile(
    r"##(?=(?:vso|teamcity)?\[)|::(?=(?:error|warning|notice|debug|group|endgroup|echo|add-mask|add-path|add-matcher"
    r"|remove-matcher|stop-commands|save-state|set-output|set-env|internal-[\w-]+)(?:\s|::))",
    re.IGNORECASE,
)
"""What runners of GitHub, Azure and TeamCity obey in a log: `##[…]` anywhere in a line, `::…::` where one begins, and a
fold may begin one anywhere. `stop-commands` would silence the annotations that follow, `add-mask` hide what is read."""
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", *map(chr, (0xFF1D, 0xFF0B, 0xFF0D, 0xFF20)))
"""The last four are the first four as East Asian keyboards write them: spreadsheets there take them for the same."""


def _escape_char(char: str) -> str:
    named = _NAMED.get(char)
    if named is not None:
        return named
    code = ord(char)
    if 0xDC80 <= code < 0xDD00:
        # A byte in the name of a file that is no UTF-8, as the system's names come.
        code -= 0xDC00
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def terminal(text: str, limit: int | None = None) -> str:
    """Text for one terminal line: controls, bidi and invisible characters escaped, cut to `limit` characters.

    So is every blank that is not the space bar's: two names that look alike are the same name. And so are words that
    the log of a CI run takes for orders.

    Backslashes stay as they are, so that ordinary text is untouched; a name that itself holds the characters ``\\x1b``
    reads like an escaped one, which is harmless.
    """
    if text.isascii() and text.isprintable():
        safe = text
    else:
        safe = "".join(_shown(text))
    if "##" in safe or "::" in safe:
        safe = _ORDER.sub(lambda found: "#\\x23" if found[0] == "##" else "\\x3a:", safe)
    if limit is not None and len(safe) > limit:
        return safe[: max(0, limit - 1)] + "…"
    return safe


def _shown(text: str) -> Iterator[str]:
    marks = 0
    for char in text:
        category = unicodedata.category(char)
        marks = marks + 1 if category[0] == "M" else 0
        blank = category == "Zs" and char != " "
        hidden = category in _UNSAFE_CATEGORIES or char in _INVISIBLE
        yield _escape_char(char) if hidden or blank or marks > _MARKS else char


def from_bytes(data: bytes) -> str:
    r"""Bytes as text: exact when they are UTF-8, else with ``\xNN`` for each byte that is not part of UTF-8."""
    return data.decode("utf-8", errors="backslashreplace")


def inexact(data: bytes) -> bytes | None:
    """The bytes again where :func:`from_bytes` gives a text that stands for others as well; else None."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return data
    return None


def csv_cell(text: str) -> str:
    """Text for a CSV cell that a spreadsheet will not run: a leading ``'`` before formula starters."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def markdown(text: str, limit: int | None = None) -> str:
    """Text for inline Markdown (also inside a table cell): controls escaped, markup and HTML inert, nothing a link.

    Addresses, mentions, references, emoji and formulas are found in what the text reads like, whatever is escaped in
    it; a `span` in the middle keeps them apart.
    """
    safe = terminal(text, limit)
    for char in "\\`*_{}[]()+!|~":
        safe = safe.replace(char, "\\" + char)
    safe = safe.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _LIVE.sub(r"<span>\g<0></span>", safe)


def sarif(text: str) -> str:
    """Text for a plain message of SARIF: controls escaped, no embedded link (3.11.6), no placeholder (3.11.5).

    Brackets and braces that mean nothing there stay as they are: not every viewer takes escapes away again.
    """
    safe = terminal(text)
    if "](" in safe:
        safe = safe.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    if _PLACEHOLDER.search(safe):
        safe = safe.replace("{", "{{").replace("}", "}}")
    return safe


def as_json(value: Any, indent: int | None = None) -> str:
    """JSON, ASCII only, for a terminal and for the log of a CI run, which obeys `##[…]` anywhere; exact once parsed."""
    return json.dumps(value, indent=indent).replace("##", "#\\u0023")


def xml(text: str) -> str:
    """Text for XML 1.0: characters the format cannot hold are escaped as ``\\uNNNN``; markup is left to the writer."""
    return "".join(
        c if c in "\t\n\r" or "\x20" <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c > "\uffff" else _escape_char(c)
        for c in text
    )
