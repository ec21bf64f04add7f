"""What the shared corpus holds: files, the servers' own replies, and the program that compares the two."""

from __future__ import annotations

import base64
import gzip
import importlib.util
import json
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
SERVERS = CORPUS / "servers"
THIRD_PARTY = CORPUS / "rdb"

LABELS = sorted(p.name for p in SERVERS.glob("*/") if p.is_dir())
"""One a server build."""

needs_corpus = [
    pytest.mark.corpus,
    pytest.mark.skipif(
        not LABELS, reason="the corpus of dumps is absent (../shared/corpus): NOTHING was compared with real servers"
    ),
]


@cache
def compare_cat() -> ModuleType:
    """The corpus' own comparison of one output with one truth."""
    spec = importlib.util.spec_from_file_location("compare_cat", CORPUS / "compare_cat.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def truth_of(rdb: Path) -> dict[str, Any]:
    """The server's replies for one file; those for what its replica was sent, where the name says so."""
    variant = rdb.name.removesuffix(".rdb").removesuffix(".psync")
    truth: dict[str, Any] = json.loads(gzip.decompress(rdb.with_name(f"{variant}.json.gz").read_bytes()))
    if rdb.name.endswith(".psync.rdb"):
        truth["databases"] = truth["psync"]["databases"]
    return truth


def keys_of(truth: dict[str, Any]) -> dict[tuple[int, bytes], dict[str, Any]]:
    """(database, key) → what the server said of it."""
    return {(int(db), plain(key["key"])): key for db, keys in truth["databases"].items() for key in keys}


def plain(text: str) -> bytes:
    """Bytes of the truth."""
    return base64.b64decode(text)


def past_ms(truth: dict[str, Any]) -> int:
    """What expired before this may be in the file or not: a server drops it when it likes."""
    saved: int = truth["saved_between_ms"][1]
    return saved + 2000
