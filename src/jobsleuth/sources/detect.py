"""What kind of evidence some bytes are."""

from __future__ import annotations

from jobsleuth import safetext
from jobsleuth.errors import EvidenceError
from jobsleuth.sources.compression import recognise

_OTHER_KINDS: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"\x02\x21\x4c\x18", "LZ4-compressed in its old format", "unpack it first: unlz4 --keep FILE"),
    (0, b"\x1f\x9d", "compressed by `compress`", "unpack it first: gunzip --keep FILE"),
    (0, b"PK", "a ZIP archive", "take the snapshot out of it: unzip FILE"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", "take the snapshot out of it: 7z x FILE"),
    (0, b"VCS", "a compressed envelope of a Valkey development version", "let the server that wrote it save it plain"),
    (257, b"ustar", "a tar archive", "take the snapshot out of it: tar -xf FILE"),
    (
        0,
        b"*",
        "probably an append-only file",
        "take a snapshot (BGSAVE) or load the file into a scratch server and save it",
    ),
    (0, b"{", "JSON, not a snapshot", "give the RDB file itself"),
    (0, b"PAR1", "a Parquet file", "give the RDB file itself"),
)


def require_rdb(head: bytes, file: str, inside: str | None = None) -> None:
    """Makes sure that bytes begin an RDB file, bare or in the frame of a replication stream.

    Args:
        head: the first bytes, 512 or all there are.
        file: the evidence as errors name it.
        inside: name of the compression that `head` was unpacked from; None: it is the evidence itself.

    Raises:
        EvidenceError: they do not; the message says what they look like instead.
    """
    where = f"what is in the {inside} file " if inside else ""
    if not head:
        raise EvidenceError(f"{where}is empty", file=file, offset=0, hint="the copy may have failed; compare its size")
    if head.startswith((b"REDIS", b"VALKEY", b"$")):
        return
    again = recognise(head)
    if again is not None:
        raise EvidenceError(
            f"{where}is {again}-compressed once more",
            file=file,
            offset=0,
            hint="unpack it first, and give what is in it",
        )
    for at, magic, looks_like, hint in _OTHER_KINDS:
        if head[at:].startswith(magic):
            raise EvidenceError(f"{where}is no RDB file: it is {looks_like}", file=file, offset=0, hint=hint)
    seen = safetext.terminal(safetext.from_bytes(head[:9]))
    raise EvidenceError(
        f"{where}is no RDB file: it begins with {seen!r}, not REDIS or VALKEY",
        file=file,
        offset=0,
        hint="give a dump.rdb",
    )
