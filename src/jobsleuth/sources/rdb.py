"""RDB files: the native core's index and extraction behind the keyspace protocol."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jobsleuth.errors import EvidenceError
from jobsleuth.keyspace import AsOf, EvidenceFacts, Projected, Remark, Rows, projection_json
from jobsleuth.sources import _native
from jobsleuth.sources.detect import require_rdb
from jobsleuth.sources.spool import Snapshot, plain

DEFAULT_MAX_VALUE_BYTES = 2 << 30
"""One decoded string may not be larger than this; the largest a stock server stores is 512 MiB."""
_BATCH_BYTES = 32 << 20
"""Enough for what one decoding task yields, unless it unfolds to much more than it takes in the file."""
_Number = TypeVar("_Number", np.int32, np.int64)
_VALUES_TOLD = 1000
_SALVAGE_HINT = "what came before it can be read: add --salvage"
_ROW_HINT = "without its payload (--payload none) the row may pass; else --salvage reads the others"


def evidence_error(fault: _native.Fault, source: Snapshot) -> EvidenceError:
    """The core's fault as an error that names the evidence."""
    kind, message, offset, salvageable = fault.args
    hint = _SALVAGE_HINT if salvageable else None
    if kind == "limit" and "one string" in message:
        hint = "a larger --max-value-bytes lets it pass, with as much memory"
    return EvidenceError(source.placed(message), file=source.shown, offset=offset, hint=hint)


class RdbKeyspace:
    """One RDB file as a keyspace. See :class:`jobsleuth.keyspace.Keyspace` for the methods' promises."""

    def __init__(
        self, source: Snapshot, index: _native.Index, *, as_of_ms: int | None = None, threads: int | None = None
    ) -> None:
        self._source = source
        self._index = index
        self._threads = threads or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else threads or 2
        self.facts = _facts(source, json.loads(index.info()))
        self._as_of = _as_of(self.facts, as_of_ms)

    @classmethod
    def open(
        cls,
        evidence: Path | Snapshot,
        *,
        salvage: bool = False,
        as_of_ms: int | None = None,
        max_value_bytes: int = DEFAULT_MAX_VALUE_BYTES,
        threads: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> RdbKeyspace:
        """Walks the whole file once (values skipped, checksum verified).

        Args:
            evidence: a plain RDB file, or what :func:`jobsleuth.sources.snapshot` made readable; it is only read.
            salvage: keep what stands before a fault, and values of a file whose checksum is wrong.
            as_of_ms: overrides the snapshot's own time, Unix ms.
            max_value_bytes: refuse a string larger than this.
            threads: decoding threads; default: one per core.
            progress: called now and then with (bytes done, bytes in all).

        Raises:
            EvidenceError: not an RDB file, cut short, corrupt, of an unknown version, or a wrong checksum.
        """
        source = evidence if isinstance(evidence, Snapshot) else plain(evidence)
        require_rdb(source.kind, source.shown)
        try:
            index = _native.index(os.fspath(source.path), salvage, max_value_bytes, progress)
        except _native.Fault as fault:
            raise evidence_error(fault, source) from None
        return cls(source, index, as_of_ms=as_of_ms, threads=threads)

    @property
    def as_of(self) -> AsOf:
        return self._as_of

    @cached_property
    def keys(self) -> pa.Table:
        return pa.table(self._index.keys())

    @cached_property
    def live(self) -> npt.NDArray[np.bool_]:
        expire_at = self.keys.column("expire_at")
        if self._as_of.ms is None or expire_at.null_count == len(expire_at):
            return np.broadcast_to(np.True_, len(expire_at))
        live = np.ones(len(expire_at), dtype=np.bool_)
        at = 0
        for chunk in expire_at.chunks:
            if chunk.null_count < len(chunk):
                known = chunk.is_valid().to_numpy(zero_copy_only=False)
                times = chunk.fill_null(0).to_numpy(zero_copy_only=False)
                live[at : at + len(chunk)] = ~(known & (times <= self._as_of.ms))
            at += len(chunk)
        return live

    def find_prefix(self, values: pa.ChunkedArray, prefixes: Sequence[bytes]) -> npt.NDArray[np.int32]:
        return _numbers(_native.find_prefix(values, list(prefixes)), np.int32)

    def find_suffix(self, values: pa.ChunkedArray, suffixes: Sequence[bytes]) -> npt.NDArray[np.int32]:
        return _numbers(_native.find_suffix(values, list(suffixes)), np.int32)

    def cut(self, values: pa.ChunkedArray, head: npt.NDArray[np.int64], tail: npt.NDArray[np.int64]) -> pa.ChunkedArray:
        return pa.chunked_array(_native.cut(values, _stream(head), _stream(tail)))

    def to_text(self, values: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        table = pa.table(_native.to_text(values))
        return table.column("text"), table.column("exact")

    def lookup(
        self,
        prefixes: Sequence[tuple[int, bytes]],
        code: npt.NDArray[np.int32],
        middle: pa.ChunkedArray,
        suffix: bytes = b"",
    ) -> Rows:
        return _numbers(self._index.lookup(list(prefixes), _stream(code), middle, suffix), np.int64)

    def records(self, rows: Rows, fields: tuple[Projected, ...], rest: bool = True) -> pa.RecordBatchReader:
        return self._reader(
            self._index.records(_stream(rows), projection_json(fields), rest, self._threads, _BATCH_BYTES)
        )

    def elements(self, rows: Rows) -> pa.RecordBatchReader:
        return self._reader(self._index.elements(_stream(rows), self._threads, _BATCH_BYTES))

    def strings(self, rows: Rows, limit: int | None = None) -> pa.RecordBatchReader:
        return self._reader(self._index.strings(_stream(rows), limit, self._threads, _BATCH_BYTES))

    def stream_entries(self, rows: Rows, fields: tuple[Projected, ...]) -> pa.RecordBatchReader:
        return self._reader(
            self._index.stream_entries(_stream(rows), projection_json(fields), self._threads, _BATCH_BYTES)
        )

    def stream_groups(self, rows: Rows) -> pa.RecordBatchReader:
        return self._reader(self._index.stream_groups(_stream(rows), self._threads, _BATCH_BYTES))

    def value_remarks(self) -> list[Remark]:
        """Values decoded so far that turned out damaged or odd, in file order of each kind.

        Of a damaged value what stood before the damage is there, in a salvage; an odd one (a score that is no number, a
        field twice) is there whole.
        """
        found: dict[str, list[dict[str, Any]]] = {}
        for fault in json.loads(self._index.value_faults()):
            found.setdefault("value_damaged", []).append(fault)
        for odd in json.loads(self._index.value_oddities()):
            found.setdefault(odd["kind"], []).append(odd)
        remarks = []
        for kind, values in found.items():
            remarks += [Remark(kind, v["message"], v["offset"]) for v in values[:_VALUES_TOLD]]
            left = len(values) - _VALUES_TOLD
            if left > 0:
                state = "damaged" if kind == "value_damaged" else "odd in this way"
                message = f"{left:,} more values are {state}, or more than that"
                remarks.append(Remark(kind, message, values[_VALUES_TOLD]["offset"], left))
        return remarks

    def _reader(self, stream: _native.ArrowStream) -> pa.RecordBatchReader:
        """A reader whose faults come as :class:`EvidenceError`: the C stream carries only text."""
        inner = pa.RecordBatchReader.from_stream(stream)
        source = self._source

        def batches() -> Any:
            try:
                yield from inner
            except (OSError, pa.ArrowException) as error:
                message, offset = str(error), None
                for fault in json.loads(self._index.value_faults()):
                    if message.endswith(f"{fault['message']} (at byte {fault['offset']})"):
                        message, offset = fault["message"], fault["offset"]
                        break
                hint = _ROW_HINT if "one row of" in message else _SALVAGE_HINT
                raise EvidenceError(source.placed(message), file=source.shown, offset=offset, hint=hint) from None

        return pa.RecordBatchReader.from_batches(inner.schema, batches())


def _stream(values: npt.NDArray[Any]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values)])


def _numbers(stream: _native.ArrowStream, dtype: type[_Number]) -> npt.NDArray[_Number]:
    array = pa.chunked_array(stream)
    if array.num_chunks == 0:
        return np.empty(0, dtype)
    return np.concatenate([c.to_numpy(zero_copy_only=False) for c in array.chunks]).astype(dtype, copy=False)


def _facts(source: Snapshot, info: dict[str, Any]) -> EvidenceFacts:
    read = [Remark(w["kind"], w["message"], w.get("offset"), w.get("count")) for w in info["warnings"]]
    return EvidenceFacts(
        path=source.given,
        bytes=source.bytes,
        format="rdb",
        format_version=info["version"],
        family=info["family"],
        magic=info["magic"],
        aux=info["aux"],
        checksum=info["checksum"],
        counts=info["counts"],
        databases=info["databases"],
        functions=info["functions"],
        modules=info["modules"],
        remarks=[*source.remarks, *read],
        fault=info["fault"],
    )


def _as_of(facts: EvidenceFacts, as_of_ms: int | None) -> AsOf:
    if as_of_ms is not None:
        return AsOf(as_of_ms, "option")
    ctime = facts.aux.get("ctime", "")
    if ctime.isascii() and ctime.isdigit() and 0 < int(ctime) < 1 << 40:
        return AsOf(int(ctime) * 1000, "ctime")
    return AsOf(None, "unknown")
