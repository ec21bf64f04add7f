"""Redaction: what applications stored becomes keyed digests; equal values stay recognisable and nothing else does.

Whole values go where a column holds what an application wrote (payload, result, error, log, …). In every other text
only the parts that look like an e-mail address or a secret go: names and ids stay readable, and since one part gives
one digest wherever it stands, ids still lead from table to table. Ids that are digests of a job's bytes go as well:
they have no key, so that a guess at the bytes could be tried.
"""

from __future__ import annotations

import hmac
import itertools
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobsleuth.case.manifest import EvidenceInfo

MARK = "redacted-"
"""What a digest begins with; 16 hex digits follow: 64 bits of HMAC-SHA256."""
WHOLE: dict[str, frozenset[str]] = {
    "jobs": frozenset(
        ("payload", "error", "stacktrace", "result", "progress", "deferred_failure", "message_rest", "undecoded")
    ),
    "logs": frozenset(("line",)),
}
"""Table → columns whose values go whole."""
_MEMBERS = frozenset(
    (
        *("data", "returnvalue", "failedReason", "stacktrace", "progress", "payload", "result", "error", "error_msg"),
        *("undecoded", "stored"),  # bytes that nobody could read
    )
)
"""Members of maps (fields of events, details of schedules, what no column holds) whose values go whole."""
_EMPTY = frozenset((b"", b"[]", b"{}", b"null", b'""'))
"""Values that tell nothing, and that checks tell from others."""

_CALLED = r"password|passwd|pwd|secret|token|(?:api|access|private)[_-]?key|authorization|cookie|session[_-]?id"
_SECRET_NAME = re.compile(_CALLED, re.IGNORECASE)
"""Members and AUX fields of such a name: their values go whole, however harmless they look."""
_SECRET = re.compile(
    r"""
    (?P<email> [^\s@<>"'`{}\[\](),:;|/\\=&?]+ (?: '[^\s@<>"'`{}\[\](),:;|/\\=&?]+ )* (?:@|%40) [\w-]+ (?:\.[\w-]+)+ )
  | (?P<jwt> eyJ[\w-]{5,} (?:\.[\w-]+){1,4} )
  | (?P<known>
        (?:sk|pk|rk|whsec|tok)_[A-Za-z0-9_]{8,} | gh[pousr]_[A-Za-z0-9]{10,} | github_pat_\w{10,}
      | xox[a-z]-[\w-]{8,} | (?:AKIA|ASIA)[A-Z0-9]{12,} | AIza[\w-]{20,} | glpat-[\w-]{10,} | npm_[A-Za-z0-9]{20,}
      | SG\.[\w-]{10,}\.[\w-]{10,} | sk-[\w-]{16,} | ya29\.[\w-]{10,} )
  | (?: :// ) (?P<login> [^\s/@:]* : [^\s/@]+ ) (?= @ )
  | \b (?:bearer|basic) \s+ (?! redacted- ) (?P<bearer> [^\s"',;]{8,} )
  | (?: {called} )
    (?: \s*=\s* | \\?["'] \s*:\s* | \s*:\s+ ) (?! \\?["']? (?:(?:bearer|basic)\s+)? redacted- )
    (?: \\" (?:(?:bearer|basic)\s+)? (?P<within> [^"\\]+ )
      | " (?:(?:bearer|basic)\s+)? (?P<quoted> (?: [^"\\] | \\. )+ )
      | ' (?:(?:bearer|basic)\s+)? (?P<single> [^']+ )
      | (?:(?:bearer|basic)\s+)? (?P<assigned> [^\s"',;&}\\]+ ) )
  | \b sha256: (?P<item> [0-9a-f]{16} ) (?! [0-9a-f] )
  | (?P<run> [A-Za-z0-9+/_=-]{16,} )
    """.replace("{called}", _CALLED),
    re.VERBOSE | re.IGNORECASE,
)
# What a text must hold to be worth a look, for the regular expressions of Arrow.
_WORTH = (
    r"(?i)@|%40|eyJ|://|bearer|basic|password|passwd|pwd|secret|token|key|authorization|cookie|session|sk[-_]|pk_|rk_|"
    r"tok_|gh[pousr]_|xox|AKIA|ASIA|glpat|npm_|SG\.|ya29|[A-Za-z0-9+/=]{16,}"
)
_SEGMENT = re.compile(r"[A-Za-z0-9+/=]{16,}")
_HEX = re.compile(r"[0-9a-f]{32,}|[0-9A-F]{32,}")
_LONG = 28
_MIXED = 0.3


class Redactor:
    """Replaces values by digests under one key.

    Args:
        key: at least 16 bytes; who has it can test guesses, so it is no part of a case.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) < 16:
            raise ValueError("a key for redaction has at least 16 bytes")
        self._key = key
        self._known: dict[str, str] = {}

    @property
    def key_id(self) -> str:
        """Tells keys apart without telling them."""
        return hmac.digest(self._key, b"jobsleuth key id", "sha256").hex()[:16]

    def digest(self, data: bytes | str) -> str:
        """The digest that stands for a value."""
        raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        return MARK + hmac.digest(self._key, raw, "sha256").hex()[:16]

    def text(self, text: str) -> str:
        """A text whose e-mail-like and secret-like parts are digests."""
        known = self._known.get(text)
        if known is None:
            known = _SECRET.sub(self._part, text)
            if len(self._known) < 100_000:
                self._known[text] = known
        return known

    def table(self, name: str, rows: pa.Table) -> pa.Table:
        """Rows of a case table, redacted; columns and types stay."""
        columns = [self.column(name, field.name, rows.column(n)) for n, field in enumerate(rows.schema)]
        return pa.Table.from_arrays(columns, schema=rows.schema)

    def column(self, table: str, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """One column of a case table, redacted."""
        kind = column.type
        if pa.types.is_dictionary(kind):
            # The column keeps its type: the dictionary is made anew, since two names may have become one.
            plain = self.column(table, name, column.cast(kind.value_type))
            return plain.dictionary_encode().cast(kind)
        if name in WHOLE.get(table, ()):
            return _mapped(column, self._whole)
        if name.endswith("_bytes") and pa.types.is_binary(kind):
            return pa.chunked_array([pa.nulls(len(column), kind)])
        if pa.types.is_map(kind) and not pa.types.is_integer(kind.item_type):
            return pa.chunked_array([self._map(chunk, kind) for chunk in column.chunks], kind)
        if pa.types.is_string(kind):
            return self._texts(column)
        return column

    def evidence(self, info: EvidenceInfo) -> EvidenceInfo:
        """What the manifest says of a file, without what the file's own texts give away. The path stays as given."""
        return replace(
            info,
            aux={self.text(name): self._called(name, value) for name, value in info.aux.items()},
            magic=None if info.magic is None else self.text(info.magic),
            redis_version=None if info.redis_version is None else self.text(info.redis_version),
            warnings=[replace(w, message=self.text(w.message)) for w in info.warnings],
            functions=[self._object(f) for f in info.functions],
            modules=[self._object(m) for m in info.modules],
            fault=None if info.fault is None else self._object(info.fault),
        )

    def _object(self, found: dict[str, Any]) -> dict[str, Any]:
        return {name: self.text(value) if isinstance(value, str) else value for name, value in found.items()}

    def _called(self, name: str, value: str) -> str:
        """A text with a name of its own, which may say what the text does not."""
        if value and not value.startswith(MARK) and _SECRET_NAME.search(name):
            return self.digest(value)
        return self.text(value)

    def _whole(self, value: Any) -> Any:
        """The digest; where the value is JSON, JSON of the same kind, so that it still counts as sound."""
        raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        if raw is None or raw in _EMPTY:
            return value
        made = self.digest(raw)
        try:
            parsed = json.loads(raw)
        except (ValueError, RecursionError):
            text = made
        else:
            shown = [made] if isinstance(parsed, list) else {"redacted": made} if isinstance(parsed, dict) else made
            text = json.dumps(shown)
        return text.encode("ascii") if isinstance(value, bytes) else text

    def _texts(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        worth = pc.fill_null(pc.match_substring_regex(column, _WORTH), False)
        if not pc.any(worth).as_py():
            return column
        column, worth = column.combine_chunks(), worth.combine_chunks()
        done = pa.array([self.text(text) for text in pc.filter(column, worth).to_pylist()], column.type)
        return pa.chunked_array([pc.replace_with_mask(column, worth, done)])

    def _map(self, chunk: pa.MapArray, kind: pa.MapType) -> pa.MapArray:
        made = [
            None if row is None else [(key, self._member(key, value)) for key, value in row]
            for row in chunk.to_pylist()
        ]
        return pa.array(made, kind)

    def _member(self, key: str, value: Any) -> Any:
        if key in _MEMBERS:
            return self._whole(value)
        if isinstance(value, bytes):
            return self._called(key, value.decode("utf-8", "backslashreplace")).encode("utf-8")
        return self._called(key, value) if isinstance(value, str) else value

    def _part(self, match: re.Match[str]) -> str:
        name = match.lastgroup or ""
        secret = match[name]
        if name == "run":
            return _SEGMENT.sub(lambda m: self.digest(m[0]) if _random(m[0]) else m[0], secret)
        at = match.start(name) - match.start()
        whole = match[0]
        return whole[:at] + self.digest(secret) + whole[at + len(secret) :]


def _random(text: str) -> bool:
    """Whether it looks drawn by lot: long hex, long letters and digits, or classes of characters that change often."""
    if _HEX.fullmatch(text):
        return True
    classes = [_class(c) for c in text if c.isalnum()]
    if not {"digit", "lower"} <= set(classes) and not {"digit", "upper"} <= set(classes):
        return False
    changes = sum(a != b for a, b in itertools.pairwise(classes))
    if changes < _MIXED * len(text):
        return False
    return len(text) >= _LONG or {"digit", "lower", "upper"} <= set(classes)


def _class(char: str) -> str:
    return "digit" if char.isdigit() else "upper" if char.isupper() else "lower"


def _mapped(column: pa.ChunkedArray, change: Callable[[Any], Any]) -> pa.ChunkedArray:
    chunks: Iterable[Any] = (pa.array([change(v) for v in chunk.to_pylist()], column.type) for chunk in column.chunks)
    return pa.chunked_array(list(chunks), column.type)
