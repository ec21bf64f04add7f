"""Hidden names for what is being made: it takes its place by one rename, whole or not at all."""

from __future__ import annotations

import secrets
from pathlib import Path


def hidden(target: Path, suffix: str) -> Path:
    """A hidden name beside `target`, on the same file system, so that a rename is atomic; at random, so that nobody can
    have laid a link or a file under it."""
    return target.parent / f".{target.name}.{secrets.token_hex(4)}.{suffix}"
