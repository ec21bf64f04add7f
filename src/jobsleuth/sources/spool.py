"""Evidence made readable: a plain file as it lies, anything compressed or streamed through one temporary file."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from jobsleuth.errors import EvidenceError
from jobsleuth.keyspace import Remark
from jobsleuth.sources.appendonly import Part, manifest_of, read_folder
from jobsleuth.sources.compression import HEAD, Damage, Tape, Unpacking, declared_size, recognise
from jobsleuth.sources.detect import EvidenceKind, evidence_kind, require_rdb

STANDARD_INPUT = "-"
"""The evidence path that means it."""
_OPEN_FILES = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
RESERVE = 64 << 20
"""Free bytes of the temporary folder's file system that a spool leaves alone."""
_LOOK_AGAIN = 64 << 20
_BLOCK = 1 << 20
_SALVAGE_HINT = "what could be unpacked can be read: add --salvage"


@dataclass(frozen=True)
class Snapshot:
    """Evidence as the readers take it.

    Attributes:
        given: the evidence as the user named it.
        path: plain file to read; that of the evidence itself, or a temporary one.
        size: bytes of the plain file.
        compression: how the evidence was compressed; None: it was not.
        streamed: it came through standard input or a pipe, so that nobody can read it a second time.
        bytes: size of the evidence as given.
        sha256: hash of the evidence as given; None: not taken, because it is read where it lies.
        inner_sha256: hash of what was in the compressed evidence; None: it was not compressed.
        remarks: what was odd about the compressed data.
        kind: what the plain file is.
        parts: the manifest and the files of an append-only file in a folder; empty: it is one file.
    """

    given: str
    path: Path
    size: int
    bytes: int
    compression: str | None = None
    streamed: bool = False
    sha256: str | None = None
    inner_sha256: str | None = None
    remarks: tuple[Remark, ...] = ()
    kind: EvidenceKind = "rdb"
    parts: tuple[Part, ...] = ()

    @property
    def shown(self) -> str:
        """The evidence as errors name it."""
        return _shown(self.given)

    def placed(self, message: str) -> str:
        """A sentence about the plain file, as one about the evidence: its offsets are not those of the file given."""
        return f"in what was unpacked from it: {message}" if self.compression else message


@dataclass(frozen=True)
class SpoolOptions:
    """What the user decides about temporary files.

    Attributes:
        tmpdir: folder for them; None: the system's (TMPDIR).
        max_bytes: refuse evidence that unfolds to more than this; None: what the folder has room for.
    """

    tmpdir: Path | None = None
    max_bytes: int | None = None


def plain(evidence: Path) -> Snapshot:
    """A plain file, to be read where it lies.

    Raises:
        EvidenceError: it cannot be read, or is no plain snapshot.
    """
    with _opened(evidence) as file:
        shown = _shown(os.fspath(evidence))
        require_rdb(evidence_kind(Tape(file, shown).peek(HEAD), shown), shown)
        size = os.fstat(file.fileno()).st_size
    return Snapshot(os.fspath(evidence), evidence, size, size)


@contextmanager
def snapshot(
    evidence: Path,
    *,
    spool: SpoolOptions | None = None,
    salvage: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Snapshot]:
    """The evidence made readable for the time of the block.

    A plain file is read where it lies, and must not change meanwhile. A compressed one, standard input (`-`) and pipes
    are spooled once to a temporary file, which is gone when the block ends.

    Args:
        evidence: path, or `-`.
        spool: where temporary files go and how large they may grow.
        salvage: use what can be unpacked of damaged compressed data.
        progress: called now and then with (bytes read, bytes in all) while a file is unpacked.

    Raises:
        EvidenceError: it cannot be read, is no snapshot, is cut short or damaged, there is no room to unpack it, or it
            was changed in the time of the block.
    """
    manifest = None if os.fspath(evidence) == STANDARD_INPUT else manifest_of(evidence)
    if manifest is not None:
        with _whole_folder(evidence, manifest) as found:
            yield found
        return
    with ExitStack() as stack:
        with _opened(evidence) as file:
            before = os.fstat(file.fileno())
            found = _readable(evidence, file, stack, spool or SpoolOptions(), salvage, progress)
        try:
            yield found
        except EvidenceError:
            # What looks like damage may come from a writer at work.
            if found.path == evidence:
                _require_unchanged(evidence, before)
            raise
        if found.path == evidence:
            _require_unchanged(evidence, before)


@contextmanager
def _whole_folder(evidence: Path, manifest: Path) -> Iterator[Snapshot]:
    """An append-only file in several parts, which must not change meanwhile."""
    folder = read_folder(evidence, manifest)
    files = (folder.manifest, *folder.parts)
    before = [part.path.stat() for part in files]
    remarks: tuple[Remark, ...] = ()
    if folder.history:
        message = "files that the manifest calls history were left alone"
        remarks = (Remark("aof_history", message, count=len(folder.history)),)
    yield Snapshot(
        given=os.fspath(evidence),
        path=manifest.parent,
        size=sum(part.bytes for part in folder.parts),
        bytes=folder.bytes,
        sha256=folder.sha256,
        remarks=remarks,
        kind="aof",
        parts=files,
    )
    for part, status in zip(files, before, strict=True):
        _require_unchanged(part.path, status)


def _readable(
    evidence: Path,
    file: BinaryIO,
    stack: ExitStack,
    spool: SpoolOptions,
    salvage: bool,
    progress: Callable[[int, int], None] | None,
) -> Snapshot:
    given = os.fspath(evidence)
    shown = _shown(given)
    status = os.fstat(file.fileno())
    streamed = given == STANDARD_INPUT or not stat.S_ISREG(status.st_mode)
    tape = Tape(file, shown)
    head = tape.peek(HEAD)
    compression = recognise(head)
    if compression is None:
        kind = evidence_kind(head, shown)
        if not streamed:
            return Snapshot(given, evidence, status.st_size, status.st_size, kind=kind)
    size = 0 if streamed else status.st_size
    expected = None
    if compression is not None:
        tail = b"" if streamed else os.pread(file.fileno(), 4, max(0, size - 4))
        expected = declared_size(compression, head, tail, size)
    target = stack.enter_context(temporary(shown, spool, expected or 0))
    try:
        kind, remarks = _fill(
            target, tape, compression, salvage, (lambda n: progress(n, size)) if progress and size else None
        )
    except EvidenceError:
        # What looks like damage may come from a writer at work.
        if not streamed:
            _require_unchanged(evidence, status)
        raise
    sha256, count = tape.finish()
    if not streamed:
        _require_unchanged(evidence, status)
    return Snapshot(
        given=given,
        path=target.path,
        size=target.written,
        bytes=count,
        compression=compression,
        streamed=streamed,
        sha256=sha256,
        inner_sha256=target.sha256() if compression else None,
        remarks=remarks,
        kind=kind,
    )


def _fill(
    target: Target, tape: Tape, compression: str | None, salvage: bool, progress: Callable[[int], None] | None
) -> tuple[EvidenceKind, tuple[Remark, ...]]:
    """Spools everything; what it is, and what was odd about the compressed data."""
    pieces: Iterable[bytes] = iter(lambda: tape.read(_BLOCK), b"")
    unpacking = None
    if compression is not None:
        pieces = unpacking = Unpacking(compression, tape)
    first: bytes | None = b""
    kind: EvidenceKind = "rdb"
    remarks = []
    told = 0
    try:
        for piece in pieces:
            if first is not None:
                # Judged before much is written: most bombs are no snapshots.
                first += piece
                if len(first) < HEAD:
                    continue
                kind = evidence_kind(first, tape.shown, compression)
                piece, first = first, None
            target.write(piece)
            if progress is not None and tape.offset - told >= _BLOCK:
                told = tape.offset
                progress(told)
    except Damage as damage:
        message = f"the {compression} data {damage.reason}"
        something = first is None or bool(first)
        if not salvage or not something:
            hint = damage.hint or (_SALVAGE_HINT if something else None)
            raise EvidenceError(message, file=tape.shown, offset=damage.offset, hint=hint) from None
        how = "compression_cut_short" if damage.cut_short else "compression_damaged"
        unpacked = target.written + len(first or b"")
        doubt = "" if damage.cut_short else ", the last of them perhaps wrongly"
        remarks.append(Remark(how, f"{message}; {unpacked:,} bytes could be unpacked{doubt}", damage.offset))
    if first is not None:
        kind = evidence_kind(first, tape.shown, compression)
        target.write(first)
    target.flush()
    if unpacking is not None and unpacking.trailing:
        count = unpacking.trailing
        message = f"{count:,} bytes behind the {compression} data belong to nothing"
        if unpacking.again is not None:
            message += f"; more of it seems to begin in them, at byte {unpacking.again:,}, and was not read"
        remarks.append(Remark("compression_trailing_bytes", message, tape.offset - count, count))
    return kind, tuple(remarks)


class Target:
    """The temporary file while it is written: counted, hashed, and never larger than it may be."""

    def __init__(self, file: IO[bytes], path: Path, shown: str, folder: Path, most: int | None) -> None:
        self.path = path
        self.written = 0
        self._file = file
        self._shown = shown
        self._folder = folder
        self._most = most
        self._until = 0
        self._sha256 = hashlib.sha256()

    def write(self, piece: bytes) -> None:
        if self.written + len(piece) > self._until:
            self.require_room(len(piece))
        self._sha256.update(piece)
        self.written += len(piece)
        try:
            self._file.write(piece)
        except OSError as error:
            raise _unwritable(error, self._folder) from error

    def flush(self) -> None:
        try:
            self._file.flush()
        except OSError as error:
            raise _unwritable(error, self._folder) from error

    def sha256(self) -> str:
        return self._sha256.hexdigest()

    @property
    def room(self) -> int:
        """Bytes that this file may grow to, as things are now."""
        free = max(0, shutil.disk_usage(self._folder).free - RESERVE) + self.written
        return free if self._most is None else min(free, self._most)

    def require_room(self, count: int) -> None:
        """Makes sure that `count` more bytes may be written.

        Raises:
            EvidenceError: they would be more than the user allows, or than the file system can spare.
        """
        needed = self.written + count
        if self._most is not None and needed > self._most:
            raise EvidenceError(
                f"unfolds to {needed:,} bytes or more, and --max-spool-bytes allows {self._most:,}",
                file=self._shown,
                hint="a small file that unfolds to a huge one may be made to fill the disk; else allow more",
            )
        free = shutil.disk_usage(self._folder).free
        if count > free - RESERVE:
            raise EvidenceError(
                f"has no room to be unpacked in {self._folder}: {needed:,} bytes or more are needed, {free:,} are free"
                f" beside {self.written:,} written, and {RESERVE:,} have to stay free",
                file=self._shown,
                hint="name another folder for temporary files: --tmpdir FOLDER",
            )
        room = free - RESERVE if self._most is None else min(free - RESERVE, self._most - self.written)
        # Others write to the disk, too: looked at again and again.
        self._until = self.written + min(room, max(count, _LOOK_AGAIN))


@contextmanager
def temporary(shown: str, spool: SpoolOptions, expected: int) -> Iterator[Target]:
    """A temporary file for `expected` bytes or more; gone when the block ends.

    On Linux it has no name from the start, so that not even a killed process leaves evidence behind.
    """
    folder = spool.tmpdir or Path(tempfile.gettempdir())
    with ExitStack() as stack:
        try:
            number, name = tempfile.mkstemp(prefix="jobsleuth-", suffix=".rdb", dir=folder)
            path = Path(name)
            stack.callback(path.unlink, missing_ok=True)
            file = stack.enter_context(os.fdopen(number, "w+b", buffering=_BLOCK))
            unnamed = Path(f"/proc/self/fd/{number}")
            if sys.platform == "linux" and unnamed.exists():
                path.unlink()
                path = unnamed
        except OSError as error:
            raise _unwritable(error, folder) from error
        target = Target(file, path, shown, folder, spool.max_bytes)
        target.require_room(expected)
        yield target


def _unwritable(error: OSError, folder: Path) -> EvidenceError:
    return EvidenceError(
        f"no temporary file can be written here: {error.strerror or error}",
        file=os.fspath(folder),
        hint="name another folder for temporary files: --tmpdir FOLDER",
    )


def _shown(given: str) -> str:
    return "standard input" if given == STANDARD_INPUT else given


@contextmanager
def _opened(evidence: Path) -> Iterator[BinaryIO]:
    """The evidence, open for reading.

    Raises:
        EvidenceError: no such file, unreadable, or a folder, a device or a terminal.
    """
    given = os.fspath(evidence)
    shown = _shown(given)
    with ExitStack() as stack:
        try:
            if given == STANDARD_INPUT:
                # The descriptor, not `sys.stdin`: nothing may have been read ahead of us.
                file: BinaryIO = stack.enter_context(open(0, "rb", buffering=0, closefd=False))
            else:
                mode = evidence.stat().st_mode
                if stat.S_ISDIR(mode):
                    raise EvidenceError(
                        "is a folder, not a snapshot",
                        file=shown,
                        hint="give the dump.rdb inside it",
                    )
                # `<(command)` is an open pipe; one that lies in a folder may wait for its writer for ever.
                if not stat.S_ISREG(mode) and not (stat.S_ISFIFO(mode) and given.startswith(_OPEN_FILES)):
                    raise EvidenceError(
                        "is not a regular file", file=shown, hint="copy it to a file, or read it through: - < FILE"
                    )
                file = stack.enter_context(evidence.open("rb", buffering=0))
            if os.isatty(file.fileno()):
                raise EvidenceError("is a terminal", file=shown, hint="jobsleuth … - < dump.rdb")
        except FileNotFoundError as error:
            raise EvidenceError("no such file", file=shown) from error
        except OSError as error:
            raise EvidenceError(f"cannot be read: {error.strerror or error}", file=shown) from error
        yield file


def _require_unchanged(evidence: Path, before: os.stat_result) -> None:
    """Raises EvidenceError where the file is no longer what it was when it was opened."""
    try:
        now = evidence.stat()
    except OSError as error:
        raise EvidenceError(f"vanished while it was read: {error.strerror}", file=os.fspath(evidence)) from error
    if (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise EvidenceError(
            "changed while it was read", file=os.fspath(evidence), hint="copy the snapshot first, then analyze the copy"
        )
