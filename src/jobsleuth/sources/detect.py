"""What kind of evidence a file is, by its first bytes."""

from __future__ import annotations

import os
from pathlib import Path

from jobsleuth import safetext
from jobsleuth.errors import EvidenceError

_OTHER_KINDS: tuple[tuple[bytes, str, str], ...] = (
    (b"\x1f\x8b", "gzip-compressed", "unpack it first: gunzip --keep FILE"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed", "unpack it first: unzstd --keep FILE"),
    (b"\x04\x22\x4d\x18", "lz4-compressed", "unpack it first: unlz4 --keep FILE"),
    (b"BZh", "bzip2-compressed", "unpack it first: bunzip2 --keep FILE"),
    (b"\xfd7zXZ\x00", "xz-compressed", "unpack it first: unxz --keep FILE"),
    (
        b"*",
        "probably an append-only file",
        "take a snapshot (BGSAVE) or load the file into a scratch server and save it",
    ),
    (b"{", "JSON, not a snapshot", "give the RDB file itself"),
)


def require_rdb(path: Path) -> int:
    """Size in bytes of the RDB file `path`.

    Raises:
        EvidenceError: no such file, not a regular file, unreadable, empty, or not an RDB file; the message says what it
            looks like instead.
    """
    shown = os.fspath(path)
    try:
        if not path.exists():
            raise EvidenceError("no such file", file=shown)
        if path.is_dir():
            raise EvidenceError("is a folder, not a snapshot", file=shown, hint="give the dump.rdb inside it")
        if not path.is_file():
            raise EvidenceError("is not a regular file", file=shown, hint="copy it to a file first")
        with path.open("rb") as file:
            head = file.read(16)
        size = path.stat().st_size
    except OSError as error:
        raise EvidenceError(f"cannot be read: {error.strerror or error}", file=shown) from error
    if not head:
        raise EvidenceError("is empty", file=shown, offset=0, hint="the copy may have failed; compare its size")
    if head.startswith((b"REDIS", b"VALKEY", b"$")):
        return size
    for magic, looks_like, hint in _OTHER_KINDS:
        if head.startswith(magic):
            raise EvidenceError(f"is no RDB file: it is {looks_like}", file=shown, offset=0, hint=hint)
    seen = safetext.terminal(safetext.from_bytes(head[:9]))
    raise EvidenceError(
        f"is no RDB file: it begins with {seen!r}, not REDIS or VALKEY", file=shown, offset=0, hint="give a dump.rdb"
    )
