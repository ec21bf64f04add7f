"""Links between jobs that keys of their own record: children of a parent, owners of a deduplication id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from jobsleuth.dialects.bullmq.grammar import SUB_KEYS
from jobsleuth.dialects.bullmq.keytable import numbers
from jobsleuth.dialects.bullmq.reading import MS, Queues, Reading, ends
from jobsleuth.dialects.bullmq.tally import Tally
from jobsleuth.keyspace import Rows

pc: Any = pa.compute

Pieces = Iterator[tuple[str, pa.Table]]
Side = tuple[pa.Array, pa.Array, pa.Array, pa.Array]
"""namespace, queue, id, and the id's bytes where its text is not exact"""

_VIA = {
    "dependencies": "dependencies",
    "processed": "processed",
    "failed-children": "failed",
    "unsuccessful": "unsuccessful",
}
_ENDING = {s.role: s.ending for s in SUB_KEYS}


def relation_table(
    reading: Reading,
    kind: str,
    via: str | pa.Array,
    queue: Queues,
    *,
    source: Side,
    target: Side,
    key: pa.Array,
    valid_until: Any = None,
) -> pa.Table:
    """Rows of `relations`; `queue` says in whose database the link stands."""
    count = len(queue)
    return pa.table(
        {
            "dialect": reading.dialect(count),
            "kind": pa.array([kind] * count),
            "via": pa.array([via] * count) if isinstance(via, str) else via,
            "source_namespace": source[0],
            "source_queue": source[1],
            "source_id": source[2],
            "source_id_bytes": source[3],
            "target_namespace": target[0],
            "target_queue": target[1],
            "target_id": target[2],
            "target_id_bytes": target[3],
            "valid_until": valid_until if valid_until is not None else pa.nulls(count, MS),
            "key": key,
            "db": reading.columns(queue, dialect=False)["db"],
        }
    )


def children(reading: Reading, tally: Tally) -> Iterator[tuple[str, pa.Table]]:
    """Parent relations by `dependencies`, `processed`, `failed` and `unsuccessful`.

    A hash ``<x>:processed`` or ``<x>:failed`` that holds other names than job keys is the job whose id ends so; it gets
    the role of a job here, before ids are looked up.
    """
    claims = reading.claims
    for role, via in _VIA.items():
        tail = len(_ENDING[role])
        sign = {"failed-children": "failed children", "unsuccessful": "unsuccessful"}.get(role, "child map")
        rows = reading.rows_of(role)
        if role == "failed-children":
            rows = np.union1d(rows, _of_job_metrics(reading))
        for batch in reading.keyspace.elements(rows):
            row = numbers(batch.column("row"), np.int64)
            child = batch.column("member")
            named = numbers(pc.match_substring(child, ":"), np.bool_)
            if role in ("processed", "failed-children"):
                other = row[~named]
                claims.role[other[claims.role[other] == claims.role_code(role)]] = reading.job_code
                named &= claims.role[row] != reading.job_code
            some = np.flatnonzero(named)
            if not len(some):
                continue
            row = row[some]
            queue = claims.queue[row]
            tally.sign(sign, queue)
            unique, back = np.unique(row, return_inverse=True)
            parent, exact = (ids.take(pa.array(back)) for ids in reading.text(reading.remainders(unique, tail)))
            split = reading.split_keys(reading.table.db[row], child.take(pa.array(some)))
            yield (
                "relations",
                relation_table(
                    reading,
                    "parent",
                    via,
                    queue,
                    source=split.side,
                    target=(reading.namespace_text(queue), reading.queue_text(queue), parent, exact),
                    key=reading.key_text(row),
                ),
            )


def _of_job_metrics(reading: Reading) -> Rows:
    """Hashes ``metrics:failed``: ignored children of a job called `metrics` stand among the queue's own counters."""
    rows = reading.rows_of("metrics")
    rows = rows[reading.table.is_type("hash", rows)]
    same = pc.equal(reading.remainders(rows), pa.scalar(b"metrics:failed", pa.binary()))
    return np.asarray(rows[numbers(same, np.bool_)])


def deduplications(reading: Reading, tally: Tally) -> Pieces:
    """Owners of deduplication ids (``de:<id>``)."""
    for batch in reading.keyspace.strings(reading.rows_of("dedup")):
        row = numbers(batch.column("row"), np.int64)
        queue = reading.claims.queue[row]
        tally.sign("dedup", queue)
        heads = reading.lengths[queue] + len(b"de:")
        name = reading.keyspace.cut(reading.table.names_of(row), heads, np.zeros(len(row), np.int64))
        names = reading.namespace_text(queue), reading.queue_text(queue)
        yield (
            "relations",
            relation_table(
                reading,
                "deduplication",
                "de",
                queue,
                source=(*names, *reading.text(name)),
                target=(*names, *reading.text(batch.column("value"))),
                key=reading.key_text(row),
                valid_until=ends(reading.table.expiry_of(row)),
            ),
        )


def parked(reading: Reading) -> Pieces:
    """Jobs that were added while the owner of their deduplication id was active (``dn:<id>``): no jobs yet.

    Their fields are in no other table; `data` is a payload, and kept as far as payloads are.
    """
    limit = reading.options.payload_limit
    for batch in reading.keyspace.records(reading.rows_of("dedup-next"), ()):
        row = numbers(batch.column("row"), np.int64)
        if not len(row):
            continue
        queue = reading.claims.queue[row]
        heads = reading.lengths[queue] + len(b"dn:")
        name = reading.keyspace.cut(reading.table.names_of(row), heads, np.zeros(len(row), np.int64))
        fields = batch.column("rest")
        job_id = pc.map_lookup(fields, pa.scalar("jid"), "first").cast(pa.binary())
        names = reading.namespace_text(queue), reading.queue_text(queue)
        table = relation_table(
            reading,
            "parked",
            "dn",
            queue,
            source=(*names, *reading.text(name)),
            target=(*names, *reading.text(job_id)),
            key=reading.key_text(row),
        )
        kept = (
            fields if limit is None else pa.array([_cut(dict(own), limit) for own in fields.to_pylist()], fields.type)
        )
        yield "relations", table.append_column("rest", kept)


def _cut(fields: dict[str, bytes], limit: int) -> list[tuple[str, bytes]]:
    return [(name, value[:limit] if name == "data" else value) for name, value in fields.items()]
