"""How evidence is read, and the RDB file that is read in the end."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from jobsleuth.keyspace import Remark
from jobsleuth.sources import _native
from jobsleuth.sources.rdb import DEFAULT_MAX_VALUE_BYTES
from jobsleuth.sources.spool import SpoolOptions


@dataclass(frozen=True)
class ReadOptions:
    """How evidence is read.

    Attributes:
        salvage: keep what stands before a fault.
        as_of_ms: the evidence's time, instead of its own, Unix ms.
        max_value_bytes: refuse a string larger than this.
        threads: decoding threads; None: one per core.
        spool: where temporary files go.
        until_ms: of an append-only file, leave out what came after this moment, Unix ms.
        until_offset: of an append-only file, leave out commands that end behind this place: name of a part (None: the
            last) and byte offset in it.
        moves: of an append-only file, record every move on the way.
    """

    salvage: bool = False
    as_of_ms: int | None = None
    max_value_bytes: int = DEFAULT_MAX_VALUE_BYTES
    threads: int | None = None
    spool: SpoolOptions = field(default_factory=SpoolOptions)
    until_ms: int | None = None
    until_offset: tuple[str | None, int] | None = None
    moves: bool = False


@dataclass(frozen=True)
class PlainSnapshot:
    """An RDB file: the evidence itself, or what was made of it.

    Attributes:
        path: the file.
        made: what came of making it; None: it is the evidence itself.
        format: the evidence's format, as its description names it.
        head: what is known of the evidence beside what the conversion tells.
        history: RDB file of every key that ever was, of a replay whose moves were recorded.
        moves: Arrow stream of those moves.
    """

    path: Path
    made: _native.Conversion | None = None
    format: str = "rdb"
    head: dict[str, Any] = field(default_factory=dict)
    history: Path | None = None
    moves: Path | None = None

    @cached_property
    def told(self) -> dict[str, Any]:
        """What the conversion tells, see :meth:`_native.Conversion.info`, and what else is known."""
        told: dict[str, Any] = {} if self.made is None else json.loads(self.made.info())
        losses = self.head.get("warnings", [])
        return {**told, **self.head, "warnings": [*told.get("warnings", []), *losses]}

    @property
    def first_line(self) -> str | None:
        """The first line of its keyspace NDJSON, where the file cannot tell."""
        if self.made is None:
            return None
        members = ("started_at_ms", "finished_at_ms", "redis_version", "atomic", "as_of_ms")
        line = {"format": "jobsleuth-keyspace", "version": 1, **{name: self.told.get(name) for name in members}}
        return json.dumps(line, separators=(",", ":"))

    @property
    def cut_short(self) -> bool:
        """The file is only the beginning of what was."""
        return self.told.get("fault") is not None

    @property
    def remarks(self) -> list[Remark]:
        """What the making found odd."""
        fault = self.told.get("fault")
        ended = [] if fault is None else [Remark(fault["kind"], fault["message"], fault["offset"])]
        return [*remarks(self.told.get("warnings", [])), *ended]


def remarks(told: list[dict[str, Any]]) -> list[Remark]:
    """The core's warnings."""
    return [Remark(w["kind"], w["message"], w.get("offset"), w.get("count") or None) for w in told]
