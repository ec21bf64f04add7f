"""What one stage no longer needs goes back to the system before the next one asks for its own."""

from __future__ import annotations

import ctypes
import sys

import pyarrow as pa


def give_back() -> None:
    """Returns freed memory that the allocators keep for later: the reading's is of no use to the judging."""
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        # glibc's; other C libraries have none and need none.
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
