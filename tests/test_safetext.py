"""Hostile bytes made harmless, for each place that text goes to."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_names_of_files_show_their_bytes() -> None:
    """A name that is no UTF-8, as the system gives it: each byte is its hex, as where such bytes are in evidence."""
    assert safetext.terminal(b"dump\xff\x80.rdb".decode("utf-8", "surrogateescape")) == "dump\\xff\\x80.rdb"


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("q##[stop-commands]x", r"q#\x23[stop-commands]x"),
        ("##vso[task.setvariable variable=a]b", r"#\x23vso[task.setvariable variable=a]b"),
        ("###teamcity[x]", r"##\x23teamcity[x]"),
        ("::error::x", r"\x3a:error::x"),
        ("a  ::Add-Mask ::x", r"a  \x3a:Add-Mask ::x"),
        ("x" * 50 + "::stop-commands::t", "x" * 50 + r"\x3a:stop-commands::t"),
    ],
)
def test_a_name_gives_no_orders_to_a_runner(text: str, safe: str) -> None:
    """GitHub's runner obeys `##[command]` anywhere in a line of a log and `::command::` after blanks at its begin
    (ActionCommand.TryParse and TryParseV2 of actions/runner); wherever a line is folded, none stands in it."""
    assert safetext.terminal(text) == safe


def test_names_with_colons_and_hashes_are_no_orders() -> None:
    """Classes, addresses, titles and keys keep their letters."""
    for text in ("App::Jobs::Mail", "::1", "fe80::1", "a::error", "# 1 ## [x]", "##", "bull::q:1", "std::error_code"):
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


def test_nothing_is_invisible() -> None:
    """Every character that Unicode itself names a filler of Hangul, a joiner, a selector or a blank, and every kind of
    space but the one of the keyboard, is shown as an escape."""
    words = (
        "HANGUL FILLER",
        "SEONG FILLER",
        "GRAPHEME JOINER",
        "VARIATION SELECTOR",
        "VOWEL INHERENT",
        "PATTERN BLANK",
        "ZERO WIDTH",
    )
    hidden = [
        char
        for char in map(chr, range(0x80, sys.maxunicode + 1))
        if unicodedata.category(char) == "Zs" or any(word in unicodedata.name(char, "") for word in words)
    ]
    assert {"\u00a0", "\u3000", "\u3164", "\u034f", "\ufe0f", "\U000e0100", "\u2800", "\u200b"} <= set(hidden)
    assert [f"{ord(char):x}" for char in hidden if char in safetext.terminal(f"a{char}b")] == []


def test_marks_do_not_pile_up() -> None:
    """A tower of accents is cut down; letters as people write them stay, in any script."""
    safe = safetext.terminal("e" + "\u0301" * 50)
    assert sum(unicodedata.category(c) == "Mn" for c in safe) <= 4
    assert safe.count("\\u0301") == 46
    for word in ("Việt", "שָׁלוֹם", "عَرَبِيّ", "ไม้เอก", "नमस्ते", "བོད", "größe", "日本語"):
        for form in ("NFC", "NFD"):
            assert safetext.terminal(unicodedata.normalize(form, word)) == unicodedata.normalize(form, word)


@pytest.mark.parametrize("start", list("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"))
def test_a_spreadsheet_runs_no_cell(start: str) -> None:
    """A cell that begins like a formula gets a quote before it; others stay."""
    assert safetext.csv_cell(f"{start}cmd|' /C calc'!A0")[0] == "'"
    assert safetext.csv_cell("plain = 1") == "plain = 1"


def test_markdown_is_inert() -> None:
    """Links, images, emphasis, tables, HTML and mentions are only letters."""
    safe = safetext.markdown("![x](http://a) **b** |c| <script>&amp; @all `d`\n# e")
    for mark in ("](", "**", "<script", "@all", "\n"):
        assert mark not in safe
    assert "\\|c\\|" in safe and "&amp;amp;" in safe


class Rendered(HTMLParser):
    """Tags and text of a piece of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.pieces: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not attrs
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data
        self.pieces.append(data)


def by_github(text: str) -> Rendered:
    """The text in a cell of a table, rendered by GitHub's own Markdown."""
    library = pytest.importorskip("cmarkgfm", reason="cmarkgfm is not installed: NO Markdown was rendered")
    table = f"| head |\n|---|\n| ={safetext.markdown(text)}= |\n"
    return Rendered(library.github_flavored_markdown_to_html(table, library.cmark.Options.CMARK_OPT_UNSAFE))


LINKED = [
    "https://evil.example/x",
    "see www.evil.example and WWW.EVIL.EXAMPLE",
    "ftp://a.b/c http://1.2.3.4",
    "mail ann@example.com, mailto:a@b.cc, xmpp:a@b.cc",
    "@all #12 owner/repo#3",
    "[x](y) ![z](w) <https://a.b> &lt;b&gt; `c` ~d~ | e | \\ \\| * _f_",
    "<b>x</b><!-- y --><a href=z>",
]


@pytest.mark.parametrize("text", LINKED)
def test_github_makes_nothing_of_a_name(text: str) -> None:
    """Not even what looks like an address becomes a link; what is shown is the text itself."""
    shown = by_github(text)
    assert shown.tags <= {"table", "thead", "tbody", "tr", "th", "td", "span"}
    assert f"={text}=" in shown.text


@pytest.mark.parametrize(
    ("text", "live"),
    [
        ("bull:email:42 and :+1: :100:", r":[\w+-]+:"),
        ("$x^2$ or $1", r"\$."),
        ('see !12, ~bug, %3, %"a b", &4', r"[!~%&][\w\"]"),
    ],
)
def test_no_emoji_no_formula_no_reference(text: str, live: str) -> None:
    """GitHub and GitLab look for these in each text node once Markdown is done: no node holds a whole one, and yet the
    text is what it was. (A key `bull:email:42` was shown with an envelope in it.)"""
    shown = by_github(text)
    assert f"={text}=" in shown.text
    assert [piece for piece in shown.pieces if re.search(live, piece)] == []


@given(st.text(st.sampled_from("ab@#:/.w-_*`~|[]()<>&!\\ 1h") | st.characters(categories=["L", "N", "P", "S"])))
def test_github_shows_any_text_as_it_is(text: str) -> None:
    """Whatever the marks and their order."""
    shown = by_github(text)
    assert shown.tags <= {"table", "thead", "tbody", "tr", "th", "td", "span"}
    assert f"={text}=" in shown.text


def test_xml_holds_only_its_characters() -> None:
    """XML 1.0 has no place for most controls, even escaped."""
    assert safetext.xml("a\x00\x1b\ufffe\t\n") == "a\\x00\\x1b\\ufffe\t\n"
    assert safetext.xml("<&>") == "<&>"


@given(
    st.recursive(st.text('#[a\\"') | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text("#["), inner))
)
def test_json_gives_no_orders_and_is_the_same_value(value: object) -> None:
    """`##[` stands in no line of it, and a parser gives back what was there."""
    for text in (safetext.as_json(value), safetext.as_json(value, 1)):
        assert "##" not in text
        assert json.loads(text) == value
