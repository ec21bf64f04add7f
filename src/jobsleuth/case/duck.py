"""The DuckDB connection over a case: views of its tables, and nothing else within reach."""

from __future__ import annotations

import contextlib
import functools
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from jobsleuth import safetext
from jobsleuth.case import identity
from jobsleuth.case.folder import require_text
from jobsleuth.case.manifest import Manifest
from jobsleuth.case.redact import Redactor
from jobsleuth.case.schema import BY_NAME
from jobsleuth.case.signals import VIEWS
from jobsleuth.errors import CaseError

MEMORY_LIMIT = "1GB"
"""Above it DuckDB spills to the system's temporary folder."""

ABSENT = "not written by the jobsleuth that made the case"
"""Comment on the columns of a view that are null because the case is older than they are."""

_OF_ARROW: Any = {"type": "arrow", "null_handling": "special"}
_Fields = list[tuple[str, pa.DataType]]
_EVIDENCE_FIELDS: _Fields = [
    ("evidence", pa.int32()),
    ("path", pa.string()),
    ("sha256", pa.string()),
    ("bytes", pa.int64()),
    ("compression", pa.string()),
    ("inner_sha256", pa.string()),
    ("inner_bytes", pa.int64()),
    ("streamed", pa.bool_()),
    ("format", pa.string()),
    ("version", pa.int32()),
    ("family", pa.string()),
    ("redis_version", pa.string()),
    ("as_of", pa.timestamp("ms", tz="UTC")),
    ("as_of_ms", pa.int64()),
    ("as_of_source", pa.string()),
    ("atomic", pa.bool_()),
    ("checksum", pa.string()),
    ("fault", pa.string()),
    ("fault_offset", pa.int64()),
]
_WARNINGS_FIELDS: _Fields = [
    ("evidence", pa.int32()),
    ("kind", pa.string()),
    ("message", pa.string()),
    ("offset", pa.int64()),
    ("count", pa.int64()),
]


def connect(
    path: Path,
    tables: dict[str, list[Path]],
    manifest: Manifest,
    redactor: Redactor | None = None,
    *,
    ids_apart: bool = False,
) -> duckdb.DuckDBPyConnection:
    """A new in-memory database with the views of the case at `path`; see :meth:`Case.connect`.

    With a `redactor` every view shows redacted values: no query reaches the others.
    """
    folder = path.absolute()
    # The spill folder appears only when needed; the random part keeps others from waiting for it.
    spill = Path(tempfile.gettempdir()) / f"jobsleuth-{secrets.token_hex(8)}"
    require_text(path, "rename it, or one of the folders above")
    require_text(spill.parent, "let TMPDIR name another folder for temporary files")
    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
            "temp_directory": str(spill),
            "memory_limit": MEMORY_LIMIT,
        },
    )
    try:
        # Globally: for the cursors of this connection too.
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
        # A case does not change: what the end of each file says of it is read once, not for each of a hundred queries.
        connection.execute("SET GLOBAL parquet_metadata_cache = true")
        # In a notebook without the package that draws the bar, the setting itself is an error: then there is no bar.
        with suppress(duckdb.InvalidInputException):
            connection.execute("SET enable_progress_bar = false")
        # File names are patterns to DuckDB: the folder is named as it is and as a pattern that matches only itself.
        connection.execute(f"SET allowed_directories = [{_quoted(str(folder))}, {_quoted(_literal(folder))}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        if ids_apart:
            apart: Any = _told_apart
            connection.create_function(identity.FUNCTION, apart, ["BLOB"], "VARCHAR", **_OF_ARROW)
        for name in BY_NAME:
            files = [folder / name / file.name for file in tables.get(name, [])]
            source, absent = _source(connection, name, files)
            if redactor is not None:
                shown = _redacted(connection, redactor, name)
            else:
                shown = identity.shown(name) if ids_apart else "*"
            connection.execute(f'CREATE VIEW "{name}" AS SELECT {shown} FROM {source}')
            for column in absent:
                connection.execute(f'COMMENT ON COLUMN "{name}"."{column}" IS {_quoted(ABSENT)}')
        _store(connection, "evidence", _evidence(manifest))
        _store(connection, "warnings", _warnings(manifest))
        _signals(connection)
    except duckdb.Error as error:
        connection.close()
        text = safetext.terminal(" ".join(str(error).split()), 300)
        raise CaseError(f"the case cannot be read: {text}", file=str(path)) from error
    return connection


def _source(connection: duckdb.DuckDBPyConnection, name: str, files: list[Path]) -> tuple[str, list[str]]:
    """What the view of a table is made of, and the columns that an older jobsleuth did not write: they are null."""
    listed = ", ".join(_quoted(_literal(file)) for file in files)
    source = f"read_parquet([{listed}], hive_partitioning = false)" if files else ""
    have: set[str] = set()
    if files:
        try:
            have.update(pq.read_schema(files[0]).names)
        except (OSError, pa.ArrowException):
            return source, []  # DuckDB tells better what is wrong with the file
    absent = [column.name for column in BY_NAME[name].columns if column.name not in have]
    if absent:
        types = {c.name: c.type for c in BY_NAME[name].columns}
        plain = [(n, t.value_type if pa.types.is_dictionary(t) else t) for n, t in types.items()]
        _store(connection, f"_no_{name}", pa.schema(plain).empty_table())
        empty = f'SELECT * FROM "_no_{name}"'
        source = f"(SELECT * FROM {source} UNION ALL BY NAME {empty})" if source else f"({empty})"
    return source, absent


def _signals(connection: duckdb.DuckDBPyConnection) -> None:
    for view in VIEWS:
        # A case that lacks a column lacks the signals made of it; its tables are as good as ever.
        with contextlib.suppress(duckdb.BinderException):
            connection.execute(f'CREATE VIEW "{view.name}" AS {view.sql}')


def _redacted(connection: duckdb.DuckDBPyConnection, redactor: Redactor, table: str) -> str:
    """The columns of the table, each that can tell something through a function of its own."""
    shown = []
    for column in BY_NAME[table].columns:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if pa.types.is_map(kind) and not pa.types.is_integer(kind.item_type):
            sql = "MAP(VARCHAR, BLOB)" if pa.types.is_binary(kind.item_type) else "MAP(VARCHAR, VARCHAR)"
        elif pa.types.is_string(kind) or pa.types.is_binary(kind):
            sql = "BLOB" if pa.types.is_binary(kind) else "VARCHAR"
        else:
            shown.append(f'"{column.name}"')
            continue
        made = f"redacted_{table}_{column.name}"
        change: Any = functools.partial(redactor.column, table, column.name)
        connection.create_function(made, change, [sql], sql, **_OF_ARROW)
        shown.append(f'{made}("{column.name}") AS "{column.name}"')
    return ", ".join(shown)


def _told_apart(ids: pa.ChunkedArray) -> pa.Array:
    return pa.array([None if one is None else identity.told_apart(one) for one in ids.to_pylist()], pa.string())


def _store(connection: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    connection.register("_given", table)
    connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM _given')
    connection.unregister("_given")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _literal(path: Path) -> str:
    """The path as a file name pattern that matches only itself."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in str(path))


def _text(text: str | None) -> str | None:
    """Text that Arrow takes: a path that is not UTF-8 comes from the system with lone surrogates."""
    return None if text is None else safetext.from_bytes(text.encode("utf-8", "surrogateescape"))


def _evidence(manifest: Manifest) -> pa.Table:
    rows = [
        {
            "evidence": e.number,
            "path": _text(e.path),
            "sha256": e.sha256,
            "bytes": e.bytes,
            "compression": e.inner["compression"] if e.inner else None,
            "inner_sha256": e.inner["sha256"] if e.inner else None,
            "inner_bytes": e.inner["bytes"] if e.inner else None,
            "streamed": e.streamed,
            "format": e.format,
            "version": e.format_version,
            "family": e.family,
            "redis_version": _text(e.redis_version),
            "as_of": e.as_of_ms,
            "as_of_ms": e.as_of_ms,
            "as_of_source": e.as_of_source,
            "atomic": e.atomic,
            "checksum": e.checksum.get("status"),
            "fault": _text(e.fault["message"]) if e.fault else None,
            "fault_offset": e.fault.get("offset") if e.fault else None,
        }
        for e in manifest.evidence
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema(_EVIDENCE_FIELDS))


def _warnings(manifest: Manifest) -> pa.Table:
    rows = [
        {
            "evidence": e.number,
            "kind": w.kind,
            "message": _text(w.message),
            "offset": w.offset,
            "count": w.count,
        }
        for e in manifest.evidence
        for w in e.warnings
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema(_WARNINGS_FIELDS))
