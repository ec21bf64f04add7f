"""House rules that hold for every check."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from jobsleuth.case import TABLES
from jobsleuth.case.duck import _EVIDENCE_FIELDS, _WARNINGS_FIELDS
from jobsleuth.checks import FAMILIES, SEVERITIES, Check, all_checks
from jobsleuth.checks.base import SECTIONS
from jobsleuth.checks.macros import MACROS
from jobsleuth.checks.pages import all_pages
from jobsleuth.dialects import all_dialects

ROOT = Path(__file__).parents[2]
CHECKS = all_checks()
each_check = pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.id)


def _types() -> dict[str, dict[str, str]]:
    """Table → column → DuckDB type, as an empty case has them."""
    out: dict[str, dict[str, str]] = {}
    fields = {t.name: list(t.schema) for t in TABLES}
    with duckdb.connect() as connection:
        import pyarrow as pa

        arrow = {name: pa.schema(f).empty_table() for name, f in fields.items()}
        arrow["evidence"] = pa.schema(_EVIDENCE_FIELDS).empty_table()
        arrow["warnings"] = pa.schema(_WARNINGS_FIELDS).empty_table()
        for name, table in arrow.items():
            connection.register("t", table)
            out[name] = {row[0]: row[1] for row in connection.execute("DESCRIBE t").fetchall()}
            connection.unregister("t")
    return out


TYPES = _types()


class _Binder:
    """Binds the SQL of one check against tables that have only the columns in `needs`, or all of them less one."""

    def __init__(self, check: type[Check]) -> None:
        self._check = check
        self._connection = duckdb.connect()
        for macro in MACROS:
            self._connection.execute(macro)
        for table in check.needs:
            self._make(table, None)

    def __enter__(self) -> _Binder:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def _make(self, table: str, without: str | None) -> None:
        kept = [c for c in self._check.needs[table] if c != without] or ["_none"]
        listed = ", ".join(f'"{c}" {TYPES[table].get(c, "INTEGER")}' for c in kept)
        self._connection.execute(f'CREATE OR REPLACE TABLE "{table}" ({listed})')

    def bind(self) -> None:
        self._connection.execute(f"DESCRIBE {self._check.sql}", dict(self._check.parameters))

    def bind_without(self, table: str, column: str) -> None:
        self._make(table, column)
        try:
            self.bind()
        finally:
            self._make(table, None)


@each_check
def test_file_is_named_by_id_and_name_in_the_folder_of_its_family(check: type[Check]) -> None:
    """A reader who has the id finds the file."""
    *_, family, module = check.__module__.split(".")
    assert module == f"{check.id.lower()}_{check.name.replace('-', '_')}"
    assert family == FAMILIES[check.id[:2]]
    assert check.__name__.lower() == check.name.replace("-", "")


def test_ids_and_names_are_unique() -> None:
    """An id is for ever: two checks never share one."""
    assert len({c.id for c in CHECKS}) == len({c.name for c in CHECKS}) == len(CHECKS)
    assert [c.id for c in CHECKS] == sorted(c.id for c in CHECKS)


@each_check
def test_texts_are_whole(check: type[Check]) -> None:
    """Every section has at least one full sentence, and the title is one line without a full stop."""
    texts = check.texts()
    assert tuple(texts) == SECTIONS
    for heading, text in texts.items():
        assert text.rstrip().endswith("."), heading
    assert "\n" not in check.title and not check.title.endswith(".")
    assert check.severity in SEVERITIES
    assert set(check.dialects) <= {dialect.name for dialect in all_dialects()}


@each_check
def test_sql_reads_what_it_needs_and_nothing_else(check: type[Check]) -> None:
    """`needs` decides whether an old case can be judged, so it must be exact in both directions."""
    with _Binder(check) as binder:
        binder.bind()
        for table, columns in check.needs.items():
            assert len(set(columns)) == len(columns)
            for column in columns:
                with pytest.raises(duckdb.Error):
                    binder.bind_without(table, column)


@each_check
def test_sql_and_message_know_their_parameters(check: type[Check]) -> None:
    """A parameter that is not declared, or declared and not used, is a mistake."""
    assert set(re.findall(r"\$([a-z]\w*)", check.sql)) == set(check.parameters)
    assert "{" in check.message


@each_check
def test_sql_has_no_clock_and_no_chance(check: type[Check]) -> None:
    """Ages are judged at the snapshot's time, and the same case gives the same findings."""
    banned = r"\b(now|today|current_timestamp|current_date|current_time|random|uuid|any_value|first|last)\b\s*\(?"
    assert not re.search(banned, re.sub(r"'[^']*'", "''", check.sql), re.IGNORECASE)


@each_check
def test_time_is_declared_where_it_is_read(check: type[Check]) -> None:
    """A check that reads the snapshot's time without saying so would be silently clean where there is none."""
    reads = "as_of_ms" in check.needs.get("evidence", ())
    # UQ002 reads it only to leave out keys that had expired; where it is not known they count. SM001 reads it only to
    # tell an error from a warning; where it is not known all are warnings.
    assert reads == check.needs_time or check.id in {"UQ002", "SM001"}


def test_pages_are_fresh() -> None:
    """docs/checks and docs/tables are what the classes and the schema say: run `make docs`."""
    pages = all_pages()
    for name, text in pages.items():
        path = ROOT / "docs" / name
        assert path.exists() and path.read_text(encoding="utf-8") == text, f"docs/{name} is stale: run `make docs`"
    left = {f"{d}/{p.name}" for d in ("checks", "tables") for p in (ROOT / "docs" / d).glob("*")} - set(pages)
    assert not left, f"no check or table any more: {left}"
