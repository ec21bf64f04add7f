"""Where the frames of zstd and LZ4 files end.

The decoders that unpack them do not tell, and take whatever stands behind the last frame for a damaged one. The lengths
of all that a frame consists of are written in it, in the clear: RFC 8878, section 3.1; LZ4 Frame Format 1.6.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

MAGIC = {"zstd": b"\x28\xb5\x2f\xfd", "lz4": b"\x04\x22\x4d\x18"}
_SKIPPED = b"\x2a\x4d\x18"


class _Bytes(Protocol):
    def peek(self, count: int) -> bytes: ...

    def read(self, count: int) -> bytes: ...


def skipped_bytes(head: bytes) -> int | None:
    """Size of the frame that begins here, if it is one to pass over, of zstd and of LZ4 alike; None: it is not."""
    if len(head) < 8 or head[1:4] != _SKIPPED or head[0] & 0xF0 != 0x50:
        return None
    return 8 + int.from_bytes(head[4:8], "little")


class Frames:
    """A file for a decoder: the bytes of frames one after the other, and none of what stands behind them.

    A frame that is cut short ends where the bytes do. What is wrong within a frame is for the decoder to find.
    """

    closed = False

    def __init__(self, compression: str, tape: _Bytes) -> None:
        self._tape = tape
        self._pieces = _pieces(compression, tape)
        self._left = 0

    def read(self, count: int) -> bytes:
        """At most `count` bytes; none at the end of the last frame."""
        given = []
        while count:
            if not self._left:
                self._left = next(self._pieces, 0)
            piece = self._tape.read(min(count, self._left))
            if not piece:
                break
            self._left -= len(piece)
            count -= len(piece)
            given.append(piece)
        return b"".join(given)

    def readable(self) -> bool:
        """True: Arrow asks."""
        return True

    def close(self) -> None:
        """Nothing: whoever opened the file closes it."""


def _pieces(compression: str, tape: _Bytes) -> Iterator[int]:
    """Lengths of what follows, each asked for when the one before has been read.

    The first frame is one that was recognised; only its head may be cut short.
    """
    body = _zstd if compression == "zstd" else _lz4
    frames = 0
    while True:
        skipped = skipped_bytes(tape.peek(8))
        if skipped is not None:
            yield skipped
        elif not frames or tape.peek(4) == MAGIC[compression]:
            yield from body(tape)
        else:
            return
        frames += 1


def _zstd(tape: _Bytes) -> Iterator[int]:
    flags = int.from_bytes(tape.peek(5)[4:], "little")
    single = bool(flags & 0x20)
    size = (1 if single else 0, 2, 4, 8)[flags >> 6]
    yield 5 + (not single) + (0, 1, 2, 4)[flags & 3] + size
    last = False
    while not last:
        block = int.from_bytes(tape.peek(3), "little")
        last, repeated = bool(block & 1), block >> 1 & 3 == 1
        yield 3 + (1 if repeated else block >> 3)
    if flags & 4:
        yield 4


def _lz4(tape: _Bytes) -> Iterator[int]:
    flags = int.from_bytes(tape.peek(5)[4:], "little")
    yield 7 + (8 if flags & 8 else 0) + (4 if flags & 1 else 0)
    while size := int.from_bytes(tape.peek(4), "little"):
        yield 4 + (size & 0x7FFF_FFFF) + (4 if flags & 16 else 0)
    yield 4 + (4 if flags & 4 else 0)
