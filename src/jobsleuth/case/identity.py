r"""Ids that no text can hold: how SQL tells them from the texts that they are shown as.

The byte 0xff in an id is shown as the four characters `\xff`, which another id may really consist of. Where a case has
such an id, a connection that is asked to tell ids apart gives each such byte a character of its own (U+100000 and up,
from a private plane), so that every join and every comparison of ids is right, and ids still begin and end as before.
Ids that really hold one of these characters have it marked. All of it stays inside the connection.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

IDS: Mapping[str, Mapping[str, str]] = {
    "jobs": {"job_id": "TRUE", "parent_id": "TRUE"},
    "membership": {"job_id": "TRUE"},
    "workers": {"job_id": "TRUE"},
    "schedules": {"job_id": "TRUE"},
    # Names of keys and of schedules are told apart nowhere.
    "relations": {"source_id": "kind = 'parent'", "target_id": "TRUE"},
    "events": {"job_id": "TRUE"},
    "logs": {"job_id": "TRUE"},
    "transitions": {"job_id": "TRUE"},
}
"""Table → columns that hold ids of jobs, and where they do; each has its bytes beside it, in `<column>_bytes`."""
_FIRST, _MARK = 0x100000, 0x100100
_PRIVATE = re.compile(f"[{chr(_FIRST)}-{chr(_MARK)}]")
_WRITTEN = re.compile(f"{chr(_MARK)}(.)|([{chr(_FIRST)}-{chr(_MARK - 1)}])", re.DOTALL)
FUNCTION = "exact_id"
"""Name in SQL of what :func:`told_apart` does."""


def told_apart(data: bytes) -> str:
    """An id with a character of its own for each byte that no UTF-8 has."""
    marked = _PRIVATE.sub(lambda found: chr(_MARK) + found[0], data.decode("utf-8", "surrogateescape"))
    return "".join(chr(_FIRST + ord(c) - 0xDC00) if "\udc80" <= c <= "\udcff" else c for c in marked)


def readable(text: str, escape: str = "\\") -> str:
    """A text that ids stand in, as the tables have it; `escape` is what a backslash is written as."""
    return _WRITTEN.sub(lambda found: found[1] or f"{escape}x{ord(found[2]) - _FIRST:02x}", text)


def stored(text: str) -> bytes:
    """The bytes of an id that was told apart."""
    plain = _WRITTEN.sub(lambda found: found[1] or chr(0xDC00 + ord(found[2]) - _FIRST), text)
    return plain.encode("utf-8", "surrogateescape")


def are_odd(tables: Mapping[str, Sequence[Path]]) -> bool:
    """Whether a case has an id that no text can hold, by what its files say of themselves."""
    for table, columns in IDS.items():
        wanted = {f"{column}_bytes" for column in columns}
        for file in tables.get(table, ()):
            try:
                footer = pq.read_metadata(file)
            except (OSError, pa.ArrowException):
                continue  # told when it is read
            for group in (footer.row_group(n) for n in range(footer.num_row_groups)):
                if not group.num_rows:
                    continue  # of which nothing is said
                for column in (group.column(n) for n in range(group.num_columns)):
                    if column.path_in_schema in wanted:
                        known = column.statistics
                        if known is None or not known.has_null_count or known.null_count < group.num_rows:
                            return True
    return False


def shown(table: str) -> str:
    """The columns of a table in SQL, ids told apart."""
    columns = IDS.get(table)
    if columns is None:
        return "*"
    mark = f"regexp_replace(\"{{0}}\", '([\\x{{{{{_FIRST:x}}}}}-\\x{{{{{_MARK:x}}}}}])', chr({_MARK}) || '\\1', 'g')"
    made = ", ".join(
        f'CASE WHEN NOT ({where}) THEN "{name}" WHEN "{name}_bytes" IS NULL THEN {mark.format(name)}'
        f' ELSE {FUNCTION}("{name}_bytes") END AS "{name}"'
        for name, where in columns.items()
    )
    return f"* REPLACE ({made})"
