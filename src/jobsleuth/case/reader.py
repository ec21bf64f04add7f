"""Reading a case: Arrow, pandas, SQL, and whether its files are still what they were."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from jobsleuth import safetext
from jobsleuth.case.identity import are_odd
from jobsleuth.case.manifest import FILE_NAME, Manifest
from jobsleuth.case.redact import Redactor
from jobsleuth.case.schema import BY_NAME, Table
from jobsleuth.errors import CaseError, UsageError

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl

    from jobsleuth.case.verification import Verification

pc: Any = pyarrow.compute

_PART = re.compile(r"part-\d+\.parquet")
"""A manifest may be forged: no name leads out of the case."""
PIECE_ROWS = 32_768
"""Rows that :meth:`Case.stream` holds at once: jobs with their payloads may be large."""
_HUGE = pa.decimal128(38, 0)
"""DuckDB's hugeint in Arrow."""


class Case:
    """A case folder, read-only. Use :func:`open_case`.

    The properties named like tables (`jobs`, `findings`, …) are DataFrames with Arrow-backed columns, read on each
    access, without the big columns (payload, result, error, rest, …); :meth:`pandas`, :meth:`arrow` and :meth:`sql`
    give anything. What an older jobsleuth did not write is there too, as empty tables and null columns.
    """

    def __init__(
        self, path: Path, manifest: Manifest, redactor: Redactor | None = None, most_bytes: int | None = None
    ) -> None:
        self.path = path
        self.manifest = manifest
        self.most_bytes = most_bytes
        """What is read whole may take about so many bytes of memory, more is refused; None: no limit."""
        self._redactor = redactor
        self._connection: duckdb.DuckDBPyConnection | None = None

    def __enter__(self) -> Case:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives back what :meth:`query` keeps open; the case can be used again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __repr__(self) -> str:
        return f"Case({str(self.path)!r})"

    @property
    def redacted(self) -> bool:
        """Whether the case is shown through redaction; one that was made redacted says so in its manifest."""
        return self._redactor is not None

    @property
    def tables(self) -> dict[str, list[Path]]:
        """Tables the case has → their Parquet files, in row order: those of the manifest, whatever else lies there.

        Raises:
            CaseError: one of them is missing.
        """
        found: dict[str, list[Path]] = {}
        for listed in sorted(self.manifest.files):
            table, _, name = listed.partition("/")
            if table in BY_NAME and _PART.fullmatch(name):
                file = self.path / listed
                if not file.exists():
                    raise CaseError(
                        f"the case is incomplete: {listed} is missing",
                        file=str(self.path),
                        hint=f"jobsleuth verify {shlex.quote(str(self.path))} tells all that is missing or changed",
                    )
                found.setdefault(table, []).append(file)
        return {name: found[name] for name in BY_NAME if name in found}

    @property
    def has_odd_ids(self) -> bool:
        """Whether some job's id is no text, so that another may be shown as the same; of a redacted case: no."""
        return self._redactor is None and are_odd(self.tables)

    def connect(self, *, ids_apart: bool = False) -> duckdb.DuckDBPyConnection:
        """A new DuckDB connection: a view for each table, and the tables `evidence` and `warnings` of the manifest.

        It reads files of the case folder and nothing else, has no network and cannot load extensions. The caller
        closes it. Columns called `offset`, `group` and `at` must be quoted in SQL.

        Args:
            ids_apart: ids of jobs that read the same as text differ, see :mod:`jobsleuth.case.identity`.
        """
        from jobsleuth.case.duck import connect

        return connect(self.path, self.tables, self.manifest, self._redactor, ids_apart=ids_apart)

    def connection(self) -> duckdb.DuckDBPyConnection:
        """The connection of :meth:`query`, made once: opening one costs as much as several queries. :meth:`close` ends
        it; leave nothing registered in it."""
        if self._connection is None:
            self._connection = self.connect()
        return self._connection

    def arrow(self, table: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows of a table, all columns or those named, in their order.

        Raises:
            UsageError: no such table or column, or more than `most_bytes`.
            CaseError: a file of the table cannot be read.
        """
        known = BY_NAME.get(table)
        if known is None:
            raise UsageError(f"the case has no table {safetext.terminal(table, 80)}", file=str(self.path))
        wanted = list(columns) if columns is not None else None
        self._require_room(table, wanted)
        pieces, total = [], 0
        for piece in self._stored(table, wanted):
            total += piece.nbytes
            self._require_less(total, f"{self.manifest.rows(table):,} rows of {table}")
            piece = _completed(known, piece, wanted)
            pieces.append(piece if self._redactor is None else self._redactor.table(table, piece))
        return pa.concat_tables(pieces or [_completed(known, pa.table({}), wanted)])

    def _stored(self, table: str, wanted: Sequence[str] | None) -> Iterator[pa.Table]:
        """A table's rows as its files have them; in pieces where they might be too many."""
        for file in self.tables.get(table, []):
            try:
                with pq.ParquetFile(file) as parquet:
                    names = parquet.schema_arrow.names
                    some = [c for c in wanted if c in names] if wanted is not None else None
                    if self.most_bytes is None:
                        yield parquet.read(columns=some)
                    else:
                        yield parquet.schema_arrow.empty_table() if some is None else parquet.read_row_groups([], some)
                        for group in range(parquet.num_row_groups):
                            yield parquet.read_row_group(group, columns=some)
            except (OSError, pa.ArrowException) as error:
                raise CaseError(f"cannot read the table: {safetext.terminal(str(error), 200)}", file=str(file)) from (
                    error
                )

    def _require_less(self, nbytes: int, what: str) -> None:
        """Raises UsageError where that is more than may be held."""
        if self.most_bytes is not None and nbytes > self.most_bytes:
            raise UsageError(
                f"{what} take more than the limit of {_mb(self.most_bytes)}", file=str(self.path), hint=_FOR_LESS
            )

    def _require_room(self, table: str, columns: Sequence[str] | None) -> None:
        """Refuses what would fill the memory: by what the files say of their size, before anything is read."""
        if self.most_bytes is None:
            return
        names = [c.name for c in BY_NAME[table].columns] if columns is None else columns
        rows = self.manifest.rows(table)
        # A first guess: in memory each row of a column has a number, an offset or a pointer, and text that is repeated
        # is small in the file. What it really takes is counted while it is read.
        need = self.stored_bytes(table, names) + 16 * rows * len(names)
        if need > self.most_bytes:
            raise UsageError(
                f"{rows:,} rows of {table} with {len(names)} columns take about {_mb(need)},"
                f" the limit is {_mb(self.most_bytes)}",
                file=str(self.path),
                hint=_FOR_LESS,
            )

    def stored_bytes(self, table: str, columns: Sequence[str]) -> int:
        """Bytes that reading these columns whole would unpack."""
        total = 0
        for file in self.tables.get(table, []):
            try:
                footer = pq.read_metadata(file)
            except (OSError, pa.ArrowException) as error:
                raise CaseError(f"cannot read the table: {safetext.terminal(str(error), 200)}", file=str(file)) from (
                    error
                )
            wanted = [n for n in range(footer.num_columns) if footer.schema.column(n).path.split(".")[0] in columns]
            groups = [footer.row_group(nth) for nth in range(footer.num_row_groups)]
            total += sum(group.column(n).total_uncompressed_size for group in groups for n in wanted)
        return total

    def pandas(self, table: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """As :meth:`arrow`, as a DataFrame of Arrow-backed columns; repeated text comes as plain strings."""
        rows = self.arrow(table, columns)
        self._require_less(_plain_bytes(rows), f"{rows.num_rows:,} rows of {table} as plain text")
        return _frame(rows)

    def polars(self, table: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """As :meth:`arrow`, as a polars DataFrame. Lazily: `polars.scan_parquet(case.tables["jobs"])`.

        Raises:
            UsageError: as :meth:`arrow`; or polars is not installed.
        """
        try:
            import polars as pl
        except ImportError as error:
            raise UsageError("polars is not installed", hint="pip install 'jobsleuth[polars]'") from error
        made = pl.from_arrow(self.arrow(table, columns))
        assert isinstance(made, pl.DataFrame)  # of a table; of an array it would be a series
        return made

    def query(self, query: str, params: Mapping[str, object] | Sequence[object] | None = None) -> pa.Table:
        """Result of one SQL query over the tables, as Arrow.

        Raises:
            UsageError: it is not one reading query, DuckDB refuses it, or the result is larger than `most_bytes`.
        """
        with self.connection().cursor() as cursor:
            found = _answer(cursor, query, params)
            if self.most_bytes is None:
                return pa.Table.from_batches(list(_pieces(found)), found.schema)
            pieces, total = [], 0
            for piece in _pieces(found):
                pieces.append(piece)
                total += piece.nbytes
                if total > self.most_bytes:
                    raise UsageError(f"the result is larger than the limit of {_mb(self.most_bytes)}", hint=_FOR_LESS)
            return pa.Table.from_batches(pieces, found.schema)

    def stream(self, query: str, params: Mapping[str, object] | Sequence[object] | None = None) -> pa.RecordBatchReader:
        """As :meth:`query`, piece by piece: the result may be larger than memory.

        Other queries may be asked meanwhile; what a stream holds is given back at its end, or when it is thrown away.

        Raises:
            UsageError: it is not one reading query, or DuckDB refuses it; also while the pieces are read.
        """
        cursor = self.connection().cursor()
        try:
            found = _answer(cursor, query, params)
        except BaseException:
            cursor.close()
            raise
        return pa.RecordBatchReader.from_batches(found.schema, _closing(cursor, found))

    def sql(self, query: str, params: Mapping[str, object] | Sequence[object] | None = None) -> pd.DataFrame:
        """As :meth:`query`, as a DataFrame of Arrow-backed columns; sums of integers are integers."""
        return _frame(self.query(query, params))

    def verify(self) -> list[str]:
        """Differences between the manifest and the files of the case, the rows of its tables and the evidence that is
        still at its path; empty: none. One line each, hostile names escaped. See :meth:`verification`."""
        return self.verification().differences

    def verification(self) -> Verification:
        """Compares the case with its manifest, and the evidence where it still lies.

        Evidence is looked for at the path the user gave, so run it from the same folder if that was relative.
        """
        from jobsleuth.case.verification import verify

        return verify(self.path, self.manifest)

    @property
    def jobs(self) -> pd.DataFrame:
        """One row for every job id seen."""
        return self._small("jobs")

    @property
    def membership(self) -> pd.DataFrame:
        """Which structure holds which id."""
        return self._small("membership")

    @property
    def queues(self) -> pd.DataFrame:
        """One row per queue."""
        return self._small("queues")

    @property
    def workers(self) -> pd.DataFrame:
        """Servers, workers, locks, leases, consumers."""
        return self._small("workers")

    @property
    def schedules(self) -> pd.DataFrame:
        """Repeatable jobs and schedulers."""
        return self._small("schedules")

    @property
    def relations(self) -> pd.DataFrame:
        """Links between jobs."""
        return self._small("relations")

    @property
    def events(self) -> pd.DataFrame:
        """Entries of event streams."""
        return self._small("events")

    @property
    def transitions(self) -> pd.DataFrame:
        """Moves of jobs, from append-only files."""
        return self._small("transitions")

    @property
    def logs(self) -> pd.DataFrame:
        """What processors logged of their jobs."""
        return self._small("logs")

    @property
    def keys(self) -> pd.DataFrame:
        """Every key of the evidence."""
        return self._small("keys")

    @property
    def checks(self) -> pd.DataFrame:
        """Every check and whether it ran."""
        return self._small("checks")

    @property
    def causes(self) -> pd.DataFrame:
        """What explains several findings at once."""
        return self._small("causes")

    @property
    def findings(self) -> pd.DataFrame:
        """What does not add up."""
        return self._small("findings")

    def _small(self, table: str) -> pd.DataFrame:
        return self.pandas(table, BY_NAME[table].small_columns)


def open_case(path: str | Path, *, redact: Redactor | None = None) -> Case:
    """Opens a case folder.

    Args:
        path: the folder.
        redact: shows the case through this: tables, queries and manifest give redacted values only.

    Raises:
        CaseError: there is none at `path`, or it is damaged or newer than this jobsleuth.
    """
    folder = Path(path)
    file = folder / FILE_NAME
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = "there is no case here" if not file.exists() else f"its manifest cannot be read: {error}"
        hint = "jobsleuth analyze DUMP --out CASE makes one"
        raise CaseError(reason, file=str(path), hint=hint) from error
    manifest = Manifest.from_json(text, file=str(file))
    if redact is not None:
        manifest.evidence = [redact.evidence(info) for info in manifest.evidence]
    return Case(folder, manifest, redact)


_FOR_LESS = "name fewer columns, let sql() count and filter, or take it in pieces: stream(); most_bytes = None lifts it"


def _mb(size: int) -> str:
    return f"{size / 1e6:,.2f} MB" if size < 10e6 else f"{size / 1e6:,.0f} MB"


def _completed(table: Table, piece: pa.Table, wanted: Sequence[str] | None) -> pa.Table:
    """The columns asked for, in that order; those that the file is too old to have are null.

    Raises:
        UsageError: a column that neither the file nor this jobsleuth knows.
    """
    types = {column.name: column.type for column in table.columns}
    have = piece.column_names
    names = wanted if wanted is not None else [*have, *(name for name in types if name not in have)]
    columns = {}
    for name in names:
        if name not in have and name not in types:
            raise UsageError(f"table {table.name} has no column {safetext.terminal(name, 80)}")
        columns[name] = piece.column(name) if name in have else pa.nulls(piece.num_rows, types[name])
    return pa.table(columns)


def _plain_bytes(table: pa.Table) -> int:
    """Bytes of the table with repeated text written out: a long name in each of a million rows is that long."""
    total: int = table.nbytes
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            for chunk in column.chunks:
                lengths: Any = pc.binary_length(chunk.dictionary)
                total += (pc.sum(lengths.take(chunk.indices)).as_py() or 0) + 4 * len(chunk)
    return total


def _answer(
    connection: duckdb.DuckDBPyConnection, query: str, params: Mapping[str, object] | Sequence[object] | None
) -> pa.RecordBatchReader:
    """What DuckDB answers to one reading query, for :func:`_pieces`.

    Raises:
        UsageError: it is none, or DuckDB refuses it.
    """
    import duckdb

    try:
        statements = connection.extract_statements(query)
        if len(statements) != 1 or statements[0].type.name not in ("SELECT", "EXPLAIN"):
            raise UsageError("give one query that reads: select …, from …, describe …")
        return connection.sql(query, params=params).to_arrow_reader(PIECE_ROWS)
    except duckdb.Error as error:
        raise _refused(error) from error


def _closing(connection: duckdb.DuckDBPyConnection, found: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    with connection:
        yield from _pieces(found)


def _pieces(found: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    import duckdb

    try:
        yield from found
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise _refused(error) from error


def _refused(error: Exception) -> UsageError:
    return UsageError(f"SQL: {safetext.terminal(' '.join(str(error).split()), 600)}")


def _frame(table: pa.Table) -> pd.DataFrame:
    import pandas as pd

    for index, column in enumerate(table.schema):
        plain = None
        if pa.types.is_dictionary(column.type):
            # pandas has no text methods for Arrow dictionaries.
            plain = table.column(index).cast(column.type.value_type)
        elif column.type == _HUGE:
            # What `sum` of integers gives: pandas can neither add nor divide it. Beyond 64 bits it stays as it is.
            with suppress(pa.ArrowInvalid):
                plain = table.column(index).cast(pa.int64())
        if plain is not None:
            table = table.set_column(index, column.name, plain)
    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
    return frame
