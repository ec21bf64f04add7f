"""A quick start for the process of one command: what costs time and helps no command is left out."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import NoReturn


def trim() -> None:
    """For any command, before anything heavy is imported.

    A command ends soon and makes few reference cycles, while each full collection walks every object that the imports
    made. numpy would start a thread for each core for linear algebra, which nobody here does.
    """
    gc.disable()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def leave(code: int) -> NoReturn:
    """Ends the process at once: everything is written and closed, and taking the heap apart helps nobody."""
    for stream in (sys.stdout, sys.stderr):
        # Nobody is left to be told: :func:`main` has tried.
        with suppress(OSError):
            stream.flush()
    os._exit(code)


class _Hidden:
    """Import hook that lets pandas look absent."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("hidden for a moment", name=name)
        return None


def without_pandas() -> None:
    """For commands that make no data frames: pyarrow loads pandas with the first array that it makes of Python values.

    It asks once whether pandas is there; what really needs it (`to_pandas`) imports it later all the same.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    sys.meta_path.insert(0, _Hidden)
    try:
        pa.array(())
    finally:
        sys.meta_path.remove(_Hidden)
