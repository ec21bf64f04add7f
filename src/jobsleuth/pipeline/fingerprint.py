"""Which bytes the evidence was: hashed while they are read, and held against the file afterwards."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from jobsleuth.errors import EvidenceError

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Fingerprint:
    """SHA-256 of a file, with its size and modification time (ns) when the hashing began."""

    sha256: str
    size: int
    mtime_ns: int


@contextmanager
def fingerprint(path: Path) -> Iterator[Future[Fingerprint]]:
    """Hashes the file `path`, which is only read, in a thread of its own; it stops when the block ends.

    The future raises EvidenceError where the file cannot be read.
    """
    stop = Event()
    with ThreadPoolExecutor(1, thread_name_prefix="jobsleuth-hash") as pool:
        try:
            yield pool.submit(_hash, path, stop)
        finally:
            stop.set()


def _hash(path: Path, stop: Event) -> Fingerprint:
    digest = hashlib.sha256()
    block = memoryview(bytearray(_BLOCK))
    try:
        with path.open("rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            while not stop.is_set() and (size := file.readinto(block)):
                digest.update(block[:size])
    except OSError as error:
        raise EvidenceError(f"cannot be read: {error.strerror or error}", file=os.fspath(path)) from error
    return Fingerprint(digest.hexdigest(), status.st_size, status.st_mtime_ns)


def require_unchanged(path: Path, mark: Fingerprint) -> None:
    """Makes sure that the file is still what it was when it was hashed.

    Raises:
        EvidenceError: it has another size or modification time, or is gone.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise EvidenceError(f"vanished while it was read: {error.strerror}", file=os.fspath(path)) from error
    if (status.st_size, status.st_mtime_ns) != (mark.size, mark.mtime_ns):
        raise EvidenceError(
            "changed while it was read", file=os.fspath(path), hint="copy the snapshot first, then analyze the copy"
        )
