"""Any evidence as keyspace NDJSON, version 1 (see docs/formats.md)."""

from __future__ import annotations

import json
import os
from pathlib import Path

from jobsleuth.beside import hidden
from jobsleuth.errors import EvidenceError
from jobsleuth.keyspace import Remark
from jobsleuth.sources import _native
from jobsleuth.sources.converted import as_snapshot
from jobsleuth.sources.rdb import DEFAULT_MAX_VALUE_BYTES, evidence_error
from jobsleuth.sources.reading import ReadOptions, remarks
from jobsleuth.sources.spool import SpoolOptions, snapshot


def write_keyspace(
    evidence: Path,
    out: Path | None,
    *,
    max_value_bytes: int = DEFAULT_MAX_VALUE_BYTES,
    spool: SpoolOptions | None = None,
    salvage: bool = False,
    until_ms: int | None = None,
    until_offset: tuple[str | None, int] | None = None,
) -> list[Remark]:
    """Writes every key of `evidence` as keyspace NDJSON to the new file `out`, or to standard output.

    A fault leaves standard output without the end line, so that its reader sees it was cut short; the file `out` is
    then removed.

    Args:
        evidence: path, or `-`.
        out: the new file; None: standard output.
        max_value_bytes: refuse a string larger than this.
        spool: where compressed and streamed evidence is spooled.
        salvage: use what can be unpacked of damaged compressed data, and what stands before the fault of an export.
        until_ms: of an append-only file, leave out what came after this moment.
        until_offset: of an append-only file, leave out commands that end behind this place.

    Returns:
        What was odd about the evidence.

    Raises:
        EvidenceError: the evidence is unusable, ends in a fault or changes meanwhile, or `out` exists or cannot be
            written.
    """
    partial: Path | None = None
    if out is not None:
        if os.path.lexists(out):
            raise EvidenceError("exists already", file=os.fspath(out), hint="choose another name for --out")
        partial = hidden(out, "partial")
    options = ReadOptions(
        salvage=salvage,
        max_value_bytes=max_value_bytes,
        spool=spool or SpoolOptions(),
        until_ms=until_ms,
        until_offset=until_offset,
    )
    try:
        with snapshot(evidence, spool=spool, salvage=salvage) as source, as_snapshot(source, options) as plain:
            try:
                told = _native.cat(
                    os.fspath(plain.path),
                    None if partial is None else os.fspath(partial),
                    max_value_bytes,
                    plain.first_line,
                    plain.cut_short,
                )
            except _native.Fault as fault:
                raise evidence_error(fault, source) from None
            except OSError as error:
                raise _unwritten(error, out) from error
        # Not before the evidence has proved to be what it was at the start.
        if partial is not None and out is not None:
            try:
                partial.rename(out)
            except OSError as error:
                raise _unwritten(error, out) from error
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)
    return [*source.remarks, *plain.remarks, *remarks(json.loads(told)["warnings"])]


def _unwritten(error: OSError, out: Path | None) -> EvidenceError:
    return EvidenceError(f"cannot be written: {error.strerror or error}", file=os.fspath(out or "-"))
