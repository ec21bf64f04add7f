"""One Parquet file in the making: row groups in order, hashed while they are written."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from jobsleuth.case.schema import Table

GROUP_ROWS = 1 << 17
"""DuckDB reads a row group per thread; its own unit is 122,880 rows."""


class TableFile:
    """The file of some rows of a table. Every method may take long and raise OSError; use it from one thread at a time.

    One file a table, not one a row group: each query opens each file, and a hundred checks are a hundred queries.
    """

    def __init__(self, spec: Table, path: Path) -> None:
        self._spec = spec
        self._path = path
        self._file: _Hashing | None = None
        self._writer: pq.ParquetWriter | None = None

    def write(self, table: pa.Table) -> None:
        """Adds rows as a row group (or several, of :data:`GROUP_ROWS`)."""
        try:
            # Dictionaries of pieces are made one, else the writer would fall back to plain text.
            self._opened().write_table(table.unify_dictionaries(), row_group_size=GROUP_ROWS)
        except BaseException:
            self.abandon()
            raise

    def close(self) -> tuple[str, dict[str, object]]:
        """Ends the file; its name within the case, and `sha256` and `bytes` as the manifest lists them."""
        try:
            self._opened().close()
            assert self._file is not None
            self._file.close()
        except BaseException:
            self.abandon()
            raise
        return f"{self._spec.name}/{self._path.name}", self._file.facts()

    def abandon(self) -> None:
        """Lets go of a file that nobody will read. Raises nothing."""
        if self._file is not None:
            self._file.abandon()

    def _opened(self) -> pq.ParquetWriter:
        if self._writer is not None:
            return self._writer
        self._path.parent.mkdir(exist_ok=True)
        self._file = _Hashing(self._path.open("wb"))
        repeated: list[str] = []
        for column in self._spec.columns:
            if pa.types.is_dictionary(column.type):
                repeated.append(column.name)
            elif pa.types.is_map(column.type):
                repeated.append(f"{column.name}.key_value.key")
        self._writer = pq.ParquetWriter(
            pa.PythonFile(self._file, mode="w"),
            self._spec.schema,
            # Zstandard would halve the big columns and take half as long again for them; see docs/performance.md.
            compression="lz4",
            use_dictionary=repeated,
            write_statistics=self._spec.small_columns,
        )
        return self._writer


class _Hashing:
    """A file that is hashed as it is written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._size = 0
        self._lost = False

    def abandon(self) -> None:
        """What still comes is lost: the Parquet writer wants to end its file even where the disk is full."""
        self._lost = True
        with suppress(OSError):
            self._file.close()

    def write(self, data: bytes) -> int:
        if self._lost:
            return len(data)
        self._digest.update(data)
        self._file.write(data)
        self._size += len(data)
        return len(data)

    def flush(self) -> None:
        if not self._lost:
            self._file.flush()

    def close(self) -> None:
        self._file.close()

    @property
    def closed(self) -> bool:
        return self._file.closed

    def facts(self) -> dict[str, object]:
        return {"sha256": self._digest.hexdigest(), "bytes": self._size}
