"""Bytes to damage: small files of a real server, their checksum, and every way to spoil one byte."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache

THOROUGH = os.environ.get("JOBSLEUTH_THOROUGH") == "1"
"""Every value of every byte instead of two; takes minutes."""

_POLYNOMIAL = 0x95AC9329AC4BC9B5
"""Jones, reflected."""


@cache
def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


def crc64(data: bytes) -> int:
    """As Redis computes it; 0xe9c6d914c4b8d9ca for b"123456789"."""
    table, crc = _table(), 0
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc


def changed_bytes(data: bytes, checked: int) -> Iterator[tuple[int, bytes, bytes]]:
    """Every byte before the checksum changed: its place, the file with its old checksum and with a right one.

    Args:
        data: a file or payload that ends with its checksum.
        checked: number of bytes that the checksum covers.
    """
    stored = int.from_bytes(data[checked : checked + 8], "little")
    table = _table()
    # The checksum is linear: that of the change alone, added to the old one, gives the new one. Each step back
    # through the file is one more byte 0 behind the change.
    basis = [table[1 << bit] for bit in range(8)]
    for at in reversed(range(checked)):
        for mask in range(1, 256) if THOROUGH else (0xFF, 1 << at % 8):
            change = 0
            for bit in range(8):
                if mask >> bit & 1:
                    change ^= basis[bit]
            spoiled = data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]
            yield at, spoiled, spoiled[:checked] + (stored ^ change).to_bytes(8, "little") + spoiled[checked + 8 :]
        basis = [table[crc & 0xFF] ^ crc >> 8 for crc in basis]
