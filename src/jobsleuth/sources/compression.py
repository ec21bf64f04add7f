"""Compressed evidence: recognised by its first bytes, unpacked front to back.

Backups are made with whatever was at hand, so a file may hold several members or frames one after the other (`pigz`,
`cat a.gz b.gz`), frames to be passed over (`pzstd`), and padding or other bytes behind the last.
"""

from __future__ import annotations

import bz2
import hashlib
import lzma
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

from jobsleuth.errors import EvidenceError
from jobsleuth.sources.frames import MAGIC, Frames, skipped_bytes

HEAD = 1024
"""First bytes that the judgements of this module need to see."""
_MAGIC: dict[str, bytes] = {
    "gzip": b"\x1f\x8b\x08",
    **MAGIC,
    "bzip2": b"BZh",
    "xz": b"\xfd7zXZ\x00",
}
COMPRESSIONS = tuple(_MAGIC)
_ENVELOPE = b"VCS\x01"
"""Begins what Valkey's development branch (not 9.1) writes with `rdbcompression lz4`: version, codec, flags and kind, a
byte each, then one frame that holds the whole snapshot. The frame itself tells its codec."""
_ENVELOPE_BYTES = 7
_GZIP_MOST = 1032
"""No deflate stream unfolds to more than this many times its size."""
_XZ_MEMORY = 1 << 30
"""`xz -9` needs 65 MB; a dictionary beyond this is refused."""
_LOAD = 1 << 20
_FRAME_STEP = 1 << 13
_FIRST_STEP = 1 << 6
"""Bytes read first of a member behind another: there may be very many, and what is read beyond an end comes again."""
_MOST_AT_ONCE = 1 << 20
"""Bytes that bzip2 and xz may hand out at once: 45 bytes of bzip2 may hold 45 MB."""
_CUT_SHORT = "is cut short: it ends before the compressed data does"


class Damage(Exception):
    """The compressed data cannot be unpacked further.

    Attributes:
        reason: what is wrong, without the file's name.
        offset: byte offset in the compressed data, as near as the decoder tells.
        cut_short: it ends too early; else it is damaged.
    """

    def __init__(self, reason: str, offset: int, *, cut_short: bool = False, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset
        self.cut_short = cut_short
        self.hint = hint


class Tape:
    """The bytes given, once, front to back, counted and hashed on the way.

    Attributes:
        shown: the evidence as errors name it.
        offset: bytes handed out.
    """

    def __init__(self, raw: BinaryIO, shown: str) -> None:
        self.shown = shown
        self._raw = raw
        self._loaded = b""
        self._at = 0
        self._sha256 = hashlib.sha256()
        self.offset = 0

    def _load(self) -> bool:
        try:
            more = self._raw.read(_LOAD)
        except OSError as error:
            raise EvidenceError(
                f"cannot be read: {error.strerror or error}", file=self.shown, offset=self.offset
            ) from error
        self._sha256.update(more)
        self._loaded, self._at = self._loaded[self._at :] + more, 0
        return bool(more)

    def peek(self, count: int) -> bytes:
        """The next bytes, `count` of them or all there are, without passing over them."""
        while len(self._loaded) - self._at < count and self._load():
            pass
        return self._loaded[self._at : self._at + count]

    def read(self, count: int) -> bytes:
        """The next bytes, at most `count`; none at the end."""
        if self._at == len(self._loaded):
            self._load()
        piece = self._loaded[self._at : self._at + count]
        self._at += len(piece)
        self.offset += len(piece)
        return piece

    def put_back(self, count: int) -> None:
        """Takes back the last `count` bytes of the latest :meth:`read`."""
        self._at -= count
        self.offset -= count

    def finish(self) -> tuple[str, int]:
        """Passes over what is left; SHA-256 and size of everything."""
        while self.read(_LOAD):
            pass
        return self._sha256.hexdigest(), self.offset


def recognise(head: bytes) -> str | None:
    """Name of the compression that begins with these bytes, in Valkey's envelope or not; None: none that is known."""
    at = _ENVELOPE_BYTES if head.startswith(_ENVELOPE) else 0
    while skipped := skipped_bytes(head[at : at + 8]):
        at += skipped
    start = head[at : at + 8]
    for name, magic in _MAGIC.items():
        if start.startswith(magic) and (at == 0 or name in ("zstd", "lz4")):
            return name
    return None


def declared_size(compression: str, head: bytes, tail: bytes, size: int) -> int | None:
    """Least number of bytes that the compressed data says it holds; None: it does not say.

    Args:
        compression: a name of :func:`recognise`.
        head: its first bytes.
        tail: its last four bytes; empty where they are not at hand.
        size: its size in bytes.
    """
    if head.startswith(_ENVELOPE):
        head = head[_ENVELOPE_BYTES:]
    if compression == "gzip" and len(tail) == 4:
        # Of the last member only, modulo 4 GiB, and noise when something stands behind the member.
        told = int.from_bytes(tail, "little")
        return told if told <= size * _GZIP_MOST else None
    if compression == "zstd" and head.startswith(_MAGIC["zstd"]) and len(head) > 4:
        flags = head[4]
        single, width = bool(flags & 0x20), (0, 2, 4, 8)[flags >> 6]
        if single and not width:
            width = 1
        at = 5 + (not single) + (0, 1, 2, 4)[flags & 3]
        field = head[at : at + width]
        if not width or len(field) < width:
            return None
        return int.from_bytes(field, "little") + (256 if width == 2 else 0)
    if compression == "lz4" and head.startswith(_MAGIC["lz4"]) and len(head) >= 14 and head[4] & 0x08:
        return int.from_bytes(head[6:14], "little")
    return None


class Unpacking:
    """Iterates over the unpacked bytes of a tape, in pieces of bounded size.

    Attributes:
        trailing: bytes behind the compressed data, once the iteration has ended.
        again: offset where more of the same compression seems to begin in them; None: nowhere.

    Raises:
        Damage: while iterating; all that could be unpacked before has been handed out (of zstd, LZ4, bzip2 and xz: but
            for the last few KB).
    """

    def __init__(self, compression: str, tape: Tape) -> None:
        self._compression = compression
        self._tape = tape
        self.trailing = 0
        self.again: int | None = None
        self._first_step = 0

    def __iter__(self) -> Iterator[bytes]:
        if self._compression in MAGIC:
            if self._tape.peek(len(_ENVELOPE)) == _ENVELOPE:
                self._tape.read(_ENVELOPE_BYTES)
            unpacked = self._frames
        else:
            unpacked = self._members
        yield from unpacked()
        while self._goes_on():
            yield from unpacked()

    def _frames(self) -> Iterator[bytes]:
        import pyarrow as pa

        tape = self._tape
        unpacked = pa.CompressedInputStream(pa.PythonFile(Frames(self._compression, tape), "r"), self._compression)
        while True:
            try:
                piece = unpacked.read(_FRAME_STEP)
            except OSError as error:
                told = str(error)
                if "Truncated" in told:
                    raise Damage(_CUT_SHORT, tape.offset, cut_short=True) from None
                hint = "unpack it first: zstd -d --long=31" if "too much memory" in told else None
                raise Damage(f"is damaged before here ({told})", tape.offset, hint=hint) from None
            if not piece:
                return
            yield piece

    def _members(self) -> Iterator[bytes]:
        tape, magic = self._tape, _MAGIC[self._compression]
        while True:
            decoder: _Deflate | _Blocks = _Deflate() if self._compression == "gzip" else _Blocks(self._compression)
            step = self._first_step or decoder.step
            while not decoder.engine.eof:
                start = tape.offset
                piece = tape.read(step)
                if not piece:
                    raise Damage(_CUT_SHORT, start, cut_short=True)
                yield from decoder.unpack(piece, start)
                step = min(2 * step, decoder.step)
            tape.put_back(len(decoder.engine.unused_data))
            self._first_step = _FIRST_STEP
            if tape.peek(len(magic)) != magic:
                return

    def _goes_on(self) -> bool:
        """Whether more follows behind padding of zeros; if not, all that is left has been counted."""
        tape, magic = self._tape, _MAGIC[self._compression]
        self.trailing = 0
        step, padding, before = _FIRST_STEP, True, b""
        while piece := tape.read(step):
            step = min(2 * step, _LOAD)
            rest = len(piece.lstrip(b"\0")) if padding else len(piece)
            if rest and padding:
                self.trailing += len(piece) - rest
                tape.put_back(rest)
                if tape.peek(len(magic)) == magic:
                    return True
                padding = False
                continue
            self.trailing += len(piece)
            seen = (before + piece).find(magic)
            if seen >= 0 and self.again is None:
                self.again = tape.offset - len(before + piece) + seen
            before = piece[1 - len(magic) :]
        return False


class _Deflate:
    """gzip; zlib can be set back, so that everything before a damage comes out and its place is known."""

    step = 1 << 14

    def __init__(self) -> None:
        self.engine = zlib.decompressobj(wbits=31)

    def unpack(self, piece: bytes, start: int) -> Iterator[bytes]:
        before = self.engine.copy()
        try:
            unpacked = self.engine.decompress(piece)
        except zlib.error as error:
            yield from _up_to_damage(before, piece, start, str(error).rpartition(": ")[2])
            return
        yield unpacked


def _up_to_damage(engine: Any, piece: bytes, start: int, told: str) -> Iterator[bytes]:
    for at in range(len(piece)):
        try:
            unpacked = engine.decompress(piece[at : at + 1])
        except zlib.error:
            raise Damage(f"is damaged here ({told})", start + at) from None
        if unpacked:
            yield unpacked


class _Blocks:
    """bzip2 and xz: what a faulty step would have given is lost, so the steps are small."""

    step = 1 << 10

    def __init__(self, compression: str) -> None:
        self.engine = (
            bz2.BZ2Decompressor()
            if compression == "bzip2"
            else lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
        )

    def unpack(self, piece: bytes, start: int) -> Iterator[bytes]:
        while True:
            try:
                unpacked = self.engine.decompress(piece, _MOST_AT_ONCE)
            except (OSError, lzma.LZMAError) as error:
                raise Damage(f"is damaged before here ({error})", start + len(piece)) from None
            yield unpacked
            if self.engine.eof or self.engine.needs_input:
                return
            piece = b""
