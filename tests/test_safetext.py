"""Hostile bytes made harmless, for each place that text goes to."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from jobsleuth import safetext

NASTY = [
    "\x1b[2J\x1b]0;title\x07",
    "a\nb\r\tc",
    "\u202egpj.exe",
    "\u200b\ufeff\u2066",
    "\x85\u2028\u2029",
    "\x00\x7f\x9b",
    "\ud800",
    "\U000e0041\ue000\U0010ffff",
]


@pytest.mark.parametrize("text", NASTY)
def test_terminal_text_moves_nothing_and_hides_nothing(text: str) -> None:
    """No control, format, private, surrogate or unassigned character reaches the terminal, and it stays one line."""
    safe = safetext.terminal(text)
    assert not [c for c in safe if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}]
    assert safe.splitlines() == [safe]


def test_ordinary_text_is_untouched() -> None:
    """Letters of all scripts, accents and emoji are no danger."""
    for text in ("plain", "ünïcödé 名前 עברית العربية", "a\\b", "😀", "e\u0301"):
        assert safetext.terminal(text) == text


def test_every_character_is_escaped_or_printable() -> None:
    """All of Unicode, one by one: what is shown raw is visible."""
    raw = [chr(i) for i in range(sys.maxunicode + 1) if safetext.terminal(chr(i)) == chr(i)]
    assert all(unicodedata.category(c)[0] in "LMNPS" or c == "\\" or unicodedata.category(c) == "Zs" for c in raw)


def test_the_limit_counts_what_is_shown() -> None:
    """A million escapes are cut like a million letters."""
    assert safetext.terminal("\x00" * 1_000_000, 20) == ("\\x00" * 5)[:19] + "…"
    assert safetext.terminal("abc", 3) == "abc"


def test_bytes_become_exact_text_or_escapes() -> None:
    """UTF-8 is itself; every other byte is its hex."""
    assert safetext.from_bytes("ü".encode()) == "ü"
    assert safetext.from_bytes(b"a\xffb\xc3(") == "a\\xffb\\xc3("


@pytest.mark.parametrize("start", list("=+-@\t\r"))
def test_a_spreadsheet_runs_no_cell(start: str) -> None:
    """A cell that begins like a formula gets a quote before it; others stay."""
    assert safetext.csv_cell(f"{start}cmd|' /C calc'!A0")[0] == "'"
    assert safetext.csv_cell("plain = 1") == "plain = 1"


def test_markdown_is_inert() -> None:
    """Links, images, emphasis, tables, HTML and mentions are only letters."""
    safe = safetext.markdown("![x](http://a) **b** |c| <script>&amp; @all `d`\n# e")
    for mark in ("](", "**", "<", "@", "\n"):
        assert mark not in safe
    assert "\\|c\\|" in safe and "&amp;amp;" in safe


def test_xml_holds_only_its_characters() -> None:
    """XML 1.0 has no place for most controls, even escaped."""
    assert safetext.xml("a\x00\x1b\ufffe\t\n") == "a\\x00\\x1b\\ufffe\t\n"
    assert safetext.xml("<&>") == "<&>"
