"""Evidence that is no snapshot, as the temporary snapshot that was made of it.

There is one reader of values. An export or a file of commands is first written as an RDB file that lives as long as the
run; what it says of itself, and what got lost on the way, comes from the conversion and not from that file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Literal

import pyarrow as pa

from jobsleuth.errors import UsageError
from jobsleuth.keyspace import AsOf, EvidenceFacts, Remark
from jobsleuth.sources import _native
from jobsleuth.sources.aof import History, part_facts, part_names, replayed
from jobsleuth.sources.detect import EvidenceKind
from jobsleuth.sources.rdb import RdbKeyspace, evidence_error
from jobsleuth.sources.reading import PlainSnapshot, ReadOptions, remarks
from jobsleuth.sources.spool import Snapshot, temporary

_ORIGINS = ("offset", "nbytes", "encoding")
_LAYOUTS: dict[EvidenceKind, Literal["records", "typed", "bare"]] = {
    "records-json": "records",
    "typed-json": "typed",
    "bare-json": "bare",
}


_TIMES = ("started_at_ms", "finished_at_ms", "seen_at_ms", "as_of_ms")
_LAST_MS = 1 << 50
"""No time of an export is later, Unix ms: the year is 37,648."""


class ConvertedKeyspace(RdbKeyspace):
    """A keyspace read from a temporary snapshot; its description is that of the evidence it was made of."""

    def __init__(self, source: Snapshot, index: _native.Index, plain: PlainSnapshot, options: ReadOptions) -> None:
        super().__init__(source, index, threads=options.threads)
        self.facts = _facts(source, plain, self.facts)
        self._as_of = _as_of(plain, options.as_of_ms)
        self._plain = plain
        self.history: History | None = None

    @cached_property
    def keys(self) -> pa.Table:
        """As :attr:`Keyspace.keys`; `offset` and `nbytes` are those of the key in the evidence, `encoding` what the
        evidence says of it; null where it has no place, or says nothing."""
        keys = pa.table(self._index.keys())
        if self._plain.made is None:
            return keys
        origins = pa.table(self._plain.made.origins())
        for name in _ORIGINS:
            at = keys.schema.get_field_index(name)
            place = keys.schema.field(at).with_nullable(True)
            told = origins.column(name) if origins.num_rows else pa.nulls(keys.num_rows, place.type)
            keys = keys.set_column(at, place, told)
        return keys


@contextmanager
def as_snapshot(
    source: Snapshot, options: ReadOptions, progress: Callable[[int, int], None] | None = None
) -> Iterator[PlainSnapshot]:
    """Any evidence as an RDB file, for the time of the block.

    Raises:
        EvidenceError: it is damaged or of an unknown version, or there is no room for the temporary file.
    """
    if source.kind not in ("aof", "commands") and (options.until_ms is not None or options.until_offset is not None):
        raise UsageError(
            "is no append-only file, so --until has no meaning",
            file=source.shown,
            hint="a snapshot shows one moment; a file of commands can be replayed up to any",
        )
    if source.kind == "rdb":
        yield PlainSnapshot(source.path)
        return
    with ExitStack() as stack:
        target = stack.enter_context(temporary(source.shown, options.spool, source.size))
        try:
            if source.kind in ("aof", "commands"):
                plain = replayed(source, target, options, stack, progress)
            elif layout := _LAYOUTS.get(source.kind):
                made = _native.convert_foreign(
                    os.fspath(source.path),
                    os.fspath(target.path),
                    layout,
                    options.salvage,
                    options.max_value_bytes,
                    target.room,
                    progress,
                )
                plain = PlainSnapshot(target.path, made, json.loads(made.info())["tool"])
            else:
                made = _native.convert_ndjson(
                    os.fspath(source.path),
                    os.fspath(target.path),
                    options.salvage,
                    options.max_value_bytes,
                    target.room,
                    progress,
                )
                plain = PlainSnapshot(target.path, made, source.kind)
        except _native.Fault as fault:
            raise evidence_error(fault, source) from None
        yield plain


@contextmanager
def open_keyspace(
    source: Snapshot,
    options: ReadOptions | None = None,
    *,
    progress: Callable[[str, int, int], None] | None = None,
) -> Iterator[RdbKeyspace]:
    """The keyspace of any evidence, for the time of the block.

    Args:
        source: what :func:`jobsleuth.sources.snapshot` made readable.
        options: how to read it.
        progress: called now and then with (`convert` or `index`, bytes done, bytes in all).

    Raises:
        EvidenceError: it is damaged, cut short (an export that is cut short is read as far as it goes), of an unknown
            version, or there is no room for the temporary snapshot.
    """
    options = options or ReadOptions()

    def stage(name: str) -> Callable[[int, int], None] | None:
        return None if progress is None else lambda done, total: progress(name, done, total)

    with as_snapshot(source, options, stage("convert")) as plain:
        if plain.made is None:
            yield RdbKeyspace.open(
                source,
                salvage=options.salvage,
                as_of_ms=options.as_of_ms,
                max_value_bytes=options.max_value_bytes,
                threads=options.threads,
                progress=stage("index"),
            )
            return
        try:
            index = _native.index(os.fspath(plain.path), False, options.max_value_bytes, stage("index"))
        except _native.Fault as fault:
            raise evidence_error(fault, source) from None
        keyspace = ConvertedKeyspace(source, index, plain, options)
        if plain.history is not None and plain.moves is not None:
            every = _native.index(os.fspath(plain.history), False, options.max_value_bytes, None)
            keyspace.history = History(
                RdbKeyspace(source, every, threads=options.threads), plain.moves, part_names(source)
            )
        yield keyspace


def _facts(source: Snapshot, plain: PlainSnapshot, spooled: EvidenceFacts) -> EvidenceFacts:
    """What the evidence says of itself, with the counts of the snapshot that was made of it."""
    told = plain.told
    kept = [r for r in spooled.remarks if r.kind in ("empty_key", "odd_database")]
    hints = ("hint_keys", "hint_expires")
    impossible = [ms for ms in (told.get(name) for name in _TIMES) if ms is not None and _possible(ms) is None]
    if impossible:
        kept.append(Remark("impossible_time", "times that no clock shows were left out", count=len(impossible)))
    version = told.get("redis_version")
    aux = told.get("aux", {} if version is None else {"redis-ver": version})
    counted = ("commands", "replayed", "transactions", "library_commands")
    return replace(
        spooled,
        format=plain.format,
        format_version=1 if plain.format == "keyspace-ndjson" else None,
        family=None,
        magic=None,
        aux=aux,
        counts={**spooled.counts, **{name: told[name] for name in counted if name in told}},
        parts=part_facts(source),
        checksum={"status": "absent", "stored": None, "computed": None},
        databases={
            db: {name: count for name, count in found.items() if name not in hints}
            for db, found in spooled.databases.items()
        },
        remarks=[*source.remarks, *remarks(told["warnings"]), *(replace(r, offset=None) for r in kept)],
        fault=told["fault"],
        functions=told.get("functions", []),
    )


def _possible(ms: int | None) -> int | None:
    return ms if ms is not None and 0 < ms < _LAST_MS else None


def _as_of(plain: PlainSnapshot, as_of_ms: int | None) -> AsOf:
    """The moment the evidence shows: the one it tells, else the end of the time that an export took."""
    told = plain.told
    atomic = bool(told["atomic"])
    begun, ended, seen, shown = (_possible(told.get(name)) for name in _TIMES)
    if as_of_ms is not None:
        return AsOf(as_of_ms, "option", atomic, None if atomic else begun)
    if atomic:
        return AsOf(shown, "unknown" if shown is None else told.get("as_of_source", "export"))
    last = max((ms for ms in (ended, seen, begun) if ms is not None), default=None)
    moment = last if shown is None else shown
    return AsOf(moment, "unknown" if moment is None else "window", False, begun)
