"""Writing a case: rows stream into Parquet files in a hidden folder that becomes the case by one rename."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from jobsleuth.beside import hidden
from jobsleuth.case.folder import require_text
from jobsleuth.case.manifest import FILE_NAME, Manifest
from jobsleuth.case.reader import Case
from jobsleuth.case.schema import BY_NAME, TABLES, Table, conform
from jobsleuth.case.table_file import GROUP_ROWS, TableFile
from jobsleuth.errors import CaseError

GROUP_BYTES = 16 << 20
"""Arrow bytes after which rows are written, as a row group of their table: bounds memory."""
_IN_FLIGHT = 2
"""Row groups that wait for their thread or are in work."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_JUDGED = ("checks", "causes", "findings")


@dataclass
class _Pending:
    """Rows of one table that wait to be written, and where they go."""

    pieces: list[pa.Table] = field(default_factory=list)
    nbytes: int = 0
    rows: int = 0
    total: int = 0
    file: TableFile | None = None
    files: int = 0


class CaseWriter:
    """Writes a case; use it as a context manager.

    Nothing is at `out` before :meth:`finish` returns, and nothing is left behind when the block ends without it.
    Rows are encoded by a background thread for each table; they keep their order, and equal rows in equal pieces give
    equal bytes. Meant for one thread.

    Raises:
        CaseError: `out` exists (without `force`), is no case (with it), or cannot be written.
    """

    def __init__(self, out: Path, force: bool = False) -> None:
        self._out = Path(out)
        self._target = Path(os.path.realpath(out))
        self._force = force
        self._pending = {table.name: _Pending() for table in TABLES}
        self._files: dict[str, dict[str, object]] = {}
        self._threads: dict[str, ThreadPoolExecutor] = {}
        self._futures: list[Future[Any]] = []
        self._slots = threading.BoundedSemaphore(_IN_FLIGHT)
        self._done = False

    @property
    def folder(self) -> Path:
        """The hidden folder the case is built in; files put here become part of the case."""
        return self._folder

    def __enter__(self) -> CaseWriter:
        require_text(self._target, "choose another name for --out")
        self._refuse_existing()
        try:
            self._folder = hidden(self._target, "partial")
            self._folder.mkdir()
        except OSError as error:
            raise self._failed(error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for thread in self._threads.values():
            thread.shutdown(wait=True, cancel_futures=True)
        if not self._done:
            for pending in self._pending.values():
                if pending.file is not None:
                    pending.file.abandon()
            shutil.rmtree(self._folder, ignore_errors=True)
        # A write to an open file (the page, say) does not say which.
        if isinstance(error, OSError) and error.filename is None and error.errno in _NO_ROOM:
            raise self._failed(error) from error

    def append(self, table_name: str, table: pa.Table | pa.RecordBatch) -> None:
        """Adds rows to a table; columns not given are null. Blocks while the writers are behind.

        Raises:
            KeyError: no such table or column.
            CaseError: earlier rows could not be written.
        """
        pending = self._pending[table_name]
        piece = conform(table_name, table)
        if piece.num_rows == 0:
            return
        pending.pieces.append(piece)
        pending.rows += piece.num_rows
        pending.total += piece.num_rows
        pending.nbytes += piece.nbytes
        if pending.nbytes >= GROUP_BYTES or pending.rows >= GROUP_ROWS:
            self._flush(table_name)

    def preview(self, manifest: Manifest, *, judged: bool = False) -> Case:
        """A case over the rows so far: for the checks, without what is made of their judgement; `judged`, with it."""
        self._settle([t for t in TABLES if judged or t.name not in _JUDGED])
        return Case(self._folder, replace(manifest, tables=self._rows(), files=dict(self._files)))

    def finish(self, manifest: Manifest) -> Case:
        """Writes what is left and the manifest, and puts the case in its place.

        `tables` and `files` of the manifest given are filled in.
        """
        self._settle(TABLES)
        manifest.tables = self._rows()
        try:
            for path in sorted(self._folder.rglob("*")):
                name = path.relative_to(self._folder).as_posix()
                if path.is_file() and name != FILE_NAME and name not in self._files:
                    self._files[name] = hashed(path)
            manifest.files = {name: dict(self._files[name]) for name in sorted(self._files)}
            (self._folder / FILE_NAME).write_text(manifest.to_json(), encoding="ascii")
            self._publish()
        except OSError as error:
            raise self._failed(error) from error
        self._done = True
        return Case(self._out, manifest)

    def _rows(self) -> dict[str, dict[str, int]]:
        return {name: {"rows": pending.total} for name, pending in self._pending.items()}

    def _flush(self, name: str) -> None:
        """Has the rows of a table that wait written."""
        pending = self._pending[name]
        self._raise_failures()
        table = pa.concat_tables(pending.pieces) if pending.pieces else BY_NAME[name].schema.empty_table()
        pending.pieces, pending.nbytes, pending.rows = [], 0, 0
        if pending.file is None:
            pending.file = TableFile(BY_NAME[name], self._folder / name / f"part-{pending.files:05d}.parquet")
            # An empty table's only file gives way to one with rows.
            pending.files += 1 if table.num_rows else 0
        self._slots.acquire()
        try:
            future = self._thread(name).submit(pending.file.write, table)
        except BaseException:
            self._slots.release()
            raise
        future.add_done_callback(lambda _: self._slots.release())
        self._futures.append(future)

    def _thread(self, name: str) -> ThreadPoolExecutor:
        if name not in self._threads:
            self._threads[name] = ThreadPoolExecutor(1, thread_name_prefix=f"jobsleuth-{name}")
        return self._threads[name]

    def _settle(self, tables: tuple[Table, ...] | list[Table]) -> None:
        """Every row on disk, and at least one file for each of `tables`; rows that come later begin another file."""
        for name, pending in self._pending.items():
            if pending.pieces:
                self._flush(name)
        for table in tables:
            if not self._pending[table.name].files:
                self._flush(table.name)
        for name, pending in self._pending.items():
            if pending.file is not None:
                self._futures.append(self._thread(name).submit(pending.file.close))
                pending.file = None
        for future in self._futures:
            self._collect(future)
        self._futures = []

    def _raise_failures(self) -> None:
        while self._futures and self._futures[0].done():
            self._collect(self._futures.pop(0))

    def _collect(self, future: Future[Any]) -> None:
        try:
            closed = future.result()
        except OSError as error:  # pyarrow raises OSError for file trouble, too
            raise self._failed(error) from error
        if closed is not None:
            name, facts = closed
            self._files[name] = facts

    def _refuse_existing(self) -> None:
        if self._out.is_symlink() and not self._out.exists():
            raise CaseError(
                f"the output is a link to {self._target}, which is not there",
                file=str(self._out),
                hint="name the folder itself",
            )
        if not os.path.lexists(self._target):
            if not self._target.parent.is_dir():
                raise CaseError(
                    "cannot write the case: its parent folder does not exist",
                    file=str(self._out),
                    hint=f"create {self._target.parent} first",
                )
            return
        if not self._force:
            raise CaseError("the output exists", file=str(self._out), hint="choose another name, or give --force")
        if not _replaceable(self._target):
            raise CaseError(
                "the output exists and is not a case: it is left alone",
                file=str(self._out),
                hint="--force replaces only a case that jobsleuth wrote",
            )

    def _publish(self) -> None:
        if not os.path.lexists(self._target):
            self._folder.rename(self._target)
            return
        self._refuse_existing()
        aside = hidden(self._target, "old")
        self._target.rename(aside)
        try:
            self._folder.rename(self._target)
        except OSError:
            aside.rename(self._target)
            raise
        shutil.rmtree(aside, ignore_errors=True)

    def _failed(self, error: OSError) -> CaseError:
        return CaseError(
            f"cannot write the case: {error.strerror or error}",
            file=str(self._out),
            hint="check that the folder is writable and the disk has room",
        )


def hashed(path: Path) -> dict[str, object]:
    """`sha256` and `bytes` of a file, as the manifest lists them."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"sha256": digest, "bytes": path.stat().st_size}


def _replaceable(path: Path) -> bool:
    if not path.is_dir():
        return False
    if not any(path.iterdir()):
        return True
    try:
        data = json.loads((path / FILE_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(data, dict) and data.get("tool") == "jobsleuth"
