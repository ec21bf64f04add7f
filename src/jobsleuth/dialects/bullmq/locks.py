"""Locks of jobs, expired ones included, and nodes of the message relay: rows of `workers`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from jobsleuth.dialects.bullmq.keytable import numbers, valid
from jobsleuth.dialects.bullmq.reading import Reading, ends
from jobsleuth.dialects.bullmq.tally import Tally, milliseconds
from jobsleuth.safetext import from_bytes

_DEFAULT_LOCK_MS = 30_000
"""`lockDuration` unless configured; the duration itself is stored nowhere."""


def locks(reading: Reading, tally: Tally) -> Iterator[tuple[str, pa.Table]]:
    """Rows of kind `lock`; a lock whose key had expired at the snapshot is not valid.

    A lock that ends within the default duration after the snapshot shows that its worker lived one duration before
    that end; a longer lock says nothing of the kind.
    """
    for batch in reading.keyspace.strings(reading.claims.rows_of("lock")):
        row = numbers(batch.column("row"), np.int64)
        queue = reading.claims.queue[row]
        expiry = reading.table.expiry_of(row)
        limited = valid(expiry)
        end_ms = milliseconds(expiry)
        if reading.as_of is None:
            validity = pa.nulls(len(row), pa.bool_())
        else:
            validity = pa.array(~limited | (end_ms > reading.as_of))
            renewed = limited & (end_ms - _DEFAULT_LOCK_MS <= reading.as_of)
            tally.activity(queue[renewed], pa.array(end_ms[renewed] - _DEFAULT_LOCK_MS), worker=True)
        job_id, exact = reading.text(reading.remainders(row, len(b":lock")))
        yield (
            "workers",
            pa.table(
                {
                    **reading.columns(queue),
                    "kind": pa.array(["lock"] * len(row)),
                    "worker_id": reading.text(batch.column("value"))[0],
                    "job_id": job_id,
                    "job_id_bytes": exact,
                    "valid_until": ends(expiry),
                    "valid": validity,
                    "key": reading.key_text(row),
                }
            ),
        )


def relay_nodes(reading: Reading) -> Iterator[tuple[str, pa.Table]]:
    """Rows of kind `server`: nodes of the message relay (6.4+), which belong to no queue."""
    rows = reading.rows_of("relay")
    rows = rows[reading.table.is_type("hash", rows)]
    node_rows = [
        (int(row), name)
        for row, name in zip(rows, reading.table.names_of(rows).to_pylist(), strict=True)
        if name.endswith(b":node")
    ]
    stored: dict[int, dict[bytes, bytes]] = {}
    for batch in reading.keyspace.elements(np.array([row for row, _ in node_rows], np.int64)):
        columns = (batch.column(name).to_pylist() for name in ("row", "member", "value"))
        for row, field, value in zip(*columns, strict=True):
            stored.setdefault(row, {})[field] = value
    for row, name in node_rows:
        fields = stored.get(row, {})
        info = _object(fields.get(b"info", b""))
        pid = info.get("pid")
        yield (
            "workers",
            pa.table(
                {
                    "dialect": reading.dialect(1),
                    "namespace": pa.array([from_bytes(name.partition(b"::relay:")[0])]),
                    "kind": pa.array(["server"]),
                    "worker_id": pa.array([from_bytes(name.rpartition(b":")[0].rpartition(b":")[2])]),
                    "host": pa.array([str(info["host"]) if "host" in info else None], pa.string()),
                    "pid": pa.array([pid if isinstance(pid, int) and abs(pid) < 1 << 62 else None], pa.int64()),
                    "details": pa.array(
                        [[(from_bytes(k), from_bytes(v)) for k, v in sorted(fields.items())]],
                        pa.map_(pa.string(), pa.string()),
                    ),
                    "key": pa.array([from_bytes(name)]),
                    "db": pa.array([int(reading.table.db[row])]),
                }
            ),
        )


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
