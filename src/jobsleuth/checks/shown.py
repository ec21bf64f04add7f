"""Values of the evidence as sentences show them: hostile characters escaped, long ones cut."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobsleuth import safetext
from jobsleuth.case import conform, readable, stored

LONGEST_VALUE = 120
"""Characters of one value in a message; `details` has it whole."""
LONGEST_SENTENCE = 400
_NO_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|(-?(?:Infinity|NaN))')
"""What DuckDB writes for numbers that JSON has not; texts are passed over."""


def harmless(values: Any, longest: int) -> Any:
    """Text with control and direction characters escaped and cut to `longest`; null stays null."""
    texts = values.cast(pa.string())
    texts = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    harmful = pc.fill_null(pc.invert(pc.match_substring_regex(texts, rf"\A[ -~]{{0,{longest}}}\z")), False)
    if not pc.any(harmful).as_py():
        return texts
    found = pc.filter(texts, harmful).to_pylist()
    safe = pa.array([safetext.terminal(text, longest) for text in found], pa.string())
    return pc.replace_with_mask(texts, harmful, safe)


def sound_json(texts: Any) -> Any:
    """JSON of DuckDB that every parser takes: infinities and NaN, which a score may be, as strings."""
    texts = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    odd = pc.fill_null(pc.match_substring_regex(texts, "Infinity|NaN"), False)
    if not pc.any(odd).as_py():
        return texts
    safe = [_NO_NUMBER.sub(_quoted, text) for text in pc.filter(texts, odd).to_pylist()]
    return pc.replace_with_mask(texts, odd, pa.array(safe, pa.string()))


def _quoted(found: re.Match[str]) -> str:
    return f'"{found[1]}"' if found[1] else found[0]


def as_read(texts: Any, escape: str = "\\") -> Any:
    """Text with the ids in it as the tables have them, where a connection told ids apart."""
    plain = [None if text is None else readable(text, escape) for text in texts.cast(pa.string()).to_pylist()]
    return pa.array(plain, pa.string())


def as_stored(findings: pa.Table) -> pa.Table:
    """Findings about ids that were told apart: ids as text, with their bytes beside them."""
    ids = findings.column("job_id").to_pylist()
    exact = [None if one is None else safetext.inexact(stored(one)) for one in ids]
    made = {name: findings.column(name) for name in findings.column_names}
    made |= {"job_id": as_read(findings.column("job_id")), "job_id_bytes": pa.array(exact, pa.binary())}
    made |= {"details": as_read(findings.column("details"), "\\\\"), "cause": as_read(findings.column("cause"))}
    return conform("findings", pa.table(made))
