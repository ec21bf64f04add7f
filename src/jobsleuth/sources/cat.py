"""Any evidence as keyspace NDJSON, version 1 (see docs/formats.md)."""

from __future__ import annotations

import os
from pathlib import Path

from jobsleuth.errors import EvidenceError
from jobsleuth.sources import _native
from jobsleuth.sources.detect import require_rdb
from jobsleuth.sources.rdb import DEFAULT_MAX_VALUE_BYTES, evidence_error


def write_keyspace(evidence: Path, out: Path | None, *, max_value_bytes: int = DEFAULT_MAX_VALUE_BYTES) -> None:
    """Writes every key of `evidence` as keyspace NDJSON to the new file `out`, or to standard output.

    A fault leaves standard output without the end line, so that its reader sees it was cut short; the file `out` is
    then removed.

    Raises:
        EvidenceError: the evidence is unusable or ends in a fault, or `out` exists or cannot be written.
    """
    require_rdb(evidence)
    partial: Path | None = None
    if out is not None:
        if out.exists():
            raise EvidenceError("exists already", file=os.fspath(out), hint="choose another name for --out")
        partial = out.with_name(f".{out.name}.partial")
    try:
        _native.cat(os.fspath(evidence), None if partial is None else os.fspath(partial), max_value_bytes)
        if partial is not None and out is not None:
            partial.rename(out)
    except _native.Fault as fault:
        raise evidence_error(fault, evidence) from None
    except OSError as error:
        raise EvidenceError(f"cannot be written: {error.strerror or error}", file=os.fspath(out or "-")) from error
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)
