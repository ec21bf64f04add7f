"""Append-only files, replayed in the core up to their end, a moment or a place.

The whole keyspace is in memory meanwhile, as it was in the server's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from jobsleuth import safetext
from jobsleuth.errors import EvidenceError, UsageError
from jobsleuth.keyspace import AsOf
from jobsleuth.sources import _native
from jobsleuth.sources.rdb import RdbKeyspace
from jobsleuth.sources.reading import PlainSnapshot, ReadOptions
from jobsleuth.sources.spool import STANDARD_INPUT, Snapshot, Target, temporary

MOVES = pa.schema(
    [
        ("db", pa.int64()),
        ("key", pa.binary()),
        ("type", pa.dictionary(pa.int32(), pa.string())),
        ("member", pa.binary()),
        ("change", pa.dictionary(pa.int32(), pa.string())),
        ("command", pa.dictionary(pa.int32(), pa.string())),
        ("at_ms", pa.int64()),
        ("part", pa.int32()),
        ("offset", pa.uint64()),
        ("step", pa.int64()),
        ("transaction", pa.int64()),
    ]
)
"""One row per change, in order: `added` and `removed` say that a `member` entered or left the list, set or sorted set
`key`; `created` and `deleted` are of the key itself (`member` null). `at_ms` is the last time noted before the command
(null: none), `part` and `offset` its place, `step` its number from 0, `transaction` from 1 (0: none)."""


@dataclass(frozen=True)
class History:
    """What happened on the way.

    Attributes:
        keyspace: every key that ever was; those that were gone in the end with their last value where it was small,
            else with an empty one.
        path: Arrow stream of the moves.
        parts: names of the files that `part` counts.
    """

    keyspace: RdbKeyspace
    path: Path
    parts: tuple[str, ...]

    def moves(self) -> pa.RecordBatchReader:
        """Every change, see :data:`MOVES`."""
        return pa.ipc.open_stream(pa.OSFile(os.fspath(self.path), "rb"))


def part_names(source: Snapshot) -> tuple[str, ...]:
    """Names of the files that are replayed, in order; they say where offsets count in what was unpacked."""
    if source.parts:
        return tuple(part.name for part in source.parts[1:])
    name = source.shown if source.given == STANDARD_INPUT else Path(source.given).name
    return (f"{name} (unpacked)" if source.compression else name,)


def part_facts(source: Snapshot) -> list[dict[str, Any]]:
    """The files of evidence that is a folder, for its description."""
    return [
        {"name": safetext.from_bytes(os.fsencode(part.name)), "bytes": part.bytes, "sha256": part.sha256}
        for part in source.parts
    ]


def replayed(
    source: Snapshot,
    target: Target,
    options: ReadOptions,
    stack: ExitStack,
    progress: Callable[[int, int], None] | None,
) -> PlainSnapshot:
    """Replays an append-only file; the keyspace it gives is written to `target`.

    Args:
        source: the file or the folder.
        target: the temporary file.
        options: how far to replay, and whether moves are recorded.
        stack: closes further temporary files.
        progress: called now and then with (bytes done, bytes in all).

    Raises:
        Fault: a fault in a file other than a cut at the very end.
        UsageError: it cannot be replayed up to the moment or place that is asked for.
    """
    files = [(os.fspath(part.path), part.name, part.kind == "base") for part in source.parts[1:]]
    files = files or [(os.fspath(source.path), source.shown, False)]
    names = [name for _, name, _ in files]
    history = moves = None
    give: Callable[[_native.ArrowStream], None] | None = None
    writer = None
    if options.moves:
        history = stack.enter_context(temporary(source.shown, options.spool, source.size))
        moves = stack.enter_context(temporary(source.shown, options.spool, 0))
        sink = pa.PythonFile(_Sink(moves), mode="w")
        writer = pa.ipc.new_stream(sink, MOVES, options=pa.ipc.IpcWriteOptions(compression="zstd"))

        def record(batches: _native.ArrowStream) -> None:
            writer.write_table(pa.table(batches).cast(MOVES))

        give = record
    made = _native.replay_commands(
        files,
        os.fspath(target.path),
        options.salvage,
        source.kind == "commands",
        options.until_ms,
        _place(options, names, source.shown),
        options.max_value_bytes,
        target.room,
        None if history is None else os.fspath(history.path),
        give,
        progress,
    )
    told = json.loads(made.info())
    _require_time(told, options, source)
    version = told["aux"].get("valkey-ver") or told["aux"].get("redis-ver")
    moment = _replayed_as_of(told, options)
    head: dict[str, Any] = {
        "redis_version": version,
        "atomic": True,
        "as_of_ms": moment.ms,
        "as_of_source": moment.source,
    }
    if _is_export(told, source):
        # No server wrote this: it is what some tool read, one key after the other.
        head |= {"atomic": False, "warnings": _losses(told, source)}
        return PlainSnapshot(target.path, made, "resp", head)
    if history is None or moves is None or writer is None:
        return PlainSnapshot(target.path, made, "aof", head)
    writer.close()
    moves.flush()
    return PlainSnapshot(target.path, made, "aof", head, history.path, moves.path)


_OF_EXPORTS = {"SELECT", "SET", "HSET", "HMSET", "RPUSH", "SADD", "ZADD", "EXPIREAT", "EXPIRE", "PEXPIREAT", "RESTORE"}
_SECONDS = ("EXPIREAT", "EXPIRE")


def _is_export(told: dict[str, Any], source: Snapshot) -> bool:
    """Whether commands are an export and not a server's own file: nothing is ever changed or removed, nothing noted.

    A server writes every expiry as PEXPIREAT, and a rewritten file fills hashes with HMSET.
    """
    if source.kind == "commands":
        return True
    names = set(told["names"])
    if source.parts or told["aux"] or told["first_time_s"] is not None or not names <= _OF_EXPORTS:
        return False
    if names <= {"SELECT"}:
        return False
    return bool(names & {*_SECONDS, "HSET", "RESTORE"}) or names <= {"SELECT", "SET", "RPUSH", "SADD", "ZADD"}


def _losses(told: dict[str, Any], source: Snapshot) -> list[dict[str, Any]]:
    """What an export as commands cannot hold."""
    losses = [
        {
            "kind": "loss_types",
            "message": "exports as commands leave out streams, values of modules and times of hash fields",
        }
    ]
    seconds = told["names"].get("EXPIREAT", 0)
    if seconds:
        losses.append({"kind": "loss_expiry", "message": "times of expiry are whole seconds", "count": seconds})
    if source.kind == "commands":
        message = (
            "plain words do not tell every byte: quotes, line feeds and bytes that are no text may have been changed"
        )
        losses.append({"kind": "loss_binary", "message": message})
    return losses


class _Sink:
    """The temporary file as Arrow wants a file to be."""

    closed = False

    def __init__(self, target: Target) -> None:
        self._target = target

    def write(self, piece: Any) -> int:
        data = bytes(piece)
        self._target.write(data)
        return len(data)

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        """Nothing: the file is settled at the end."""

    def close(self) -> None:
        """Nothing: whoever opened the file closes it."""


def _place(options: ReadOptions, names: list[str], shown: str) -> tuple[int, int] | None:
    """Number of the part and offset that the replay must not pass."""
    if options.until_offset is None:
        return None
    name, offset = options.until_offset
    if name is None:
        return len(names) - 1, offset
    found = [number for number, known in enumerate(names) if name in (known, Path(known).name)]
    if not found:
        raise UsageError(
            f"has no file {safetext.terminal(name, 80)}",
            file=shown,
            hint=f"there are: {', '.join(safetext.terminal(known, 80) for known in names)}",
        )
    return found[0], offset


def _require_time(told: dict[str, Any], options: ReadOptions, source: Snapshot) -> None:
    """Raises where the moment asked for lies before all that is known, or no moment is known at all."""
    if options.until_ms is None:
        return
    begun = told["aux"].get("ctime", "")
    if begun.isdigit() and int(begun) * 1000 > options.until_ms:
        raise EvidenceError(
            "begins with a snapshot that is later than the time given with --until",
            file=source.shown,
            hint="older evidence is needed: an earlier append-only file or snapshot",
        )
    if told["first_time_s"] is None and told["stop"] not in ("time", "offset"):
        raise EvidenceError(
            "notes no times, so it cannot be replayed up to one",
            file=source.shown,
            hint="give a place with --until-offset; servers note times with `aof-timestamp-enabled yes`",
        )


def _replayed_as_of(told: dict[str, Any], options: ReadOptions) -> AsOf:
    """The moment that a replay shows."""
    if options.as_of_ms is not None:
        return AsOf(options.as_of_ms, "option")
    if told["stop"] == "time":
        return AsOf(options.until_ms, "until")
    if told["last_time_s"] is not None:
        return AsOf(told["last_time_s"] * 1000, "annotation")
    return AsOf(None, "unknown")
