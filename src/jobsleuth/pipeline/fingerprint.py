"""Which bytes the evidence was: hashed while they are read, and held against the file afterwards."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from jobsleuth.errors import EvidenceError


@dataclass(frozen=True)
class Fingerprint:
    """SHA-256 of a file, with its size and modification time (ns) when the hashing began."""

    sha256: str
    size: int
    mtime_ns: int


def fingerprint(path: Path) -> Fingerprint:
    """Hashes the file `path`, which is only read.

    Raises:
        EvidenceError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EvidenceError(f"cannot be read: {error.strerror or error}", file=os.fspath(path)) from error
    return Fingerprint(digest, status.st_size, status.st_mtime_ns)


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
