"""Which streams are queues: those with a consumer group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from jobsleuth.dialects.rows import take
from jobsleuth.dialects.streams.facts import Facts
from jobsleuth.keyspace import Claims, Keyspace, QueueRef, Rows

ROLE = "stream"


@dataclass
class StreamClaims(Claims):
    """Claims with the facts they rest on, so that streams are not read for them twice."""

    facts: Facts | None = None


def claim(dialect: str, keyspace: Keyspace, rows: Rows) -> StreamClaims:
    """One queue a group, in file order. A stream with one group belongs to its queue; with several, to none alone."""
    facts = Facts.read(keyspace, rows)
    keys = keyspace.keys
    nothing: npt.NDArray[np.int32] = np.full(keys.num_rows, -1, np.int32)
    claims = StreamClaims(dialect, [], [], nothing, np.full(keys.num_rows, -1, np.int16), facts=facts)
    streams, groups = facts.streams, facts.groups
    if not len(streams.row):
        return claims
    name = take(keys.column("key"), streams.row).to_pylist()
    db = take(keys.column("db"), streams.row).to_pylist()
    for stream, group in zip(groups.stream.tolist(), groups.name.to_pylist(), strict=True):
        claims.queues.append(QueueRef(db[stream], name[stream], group, name[stream]))
    claims.role[streams.row] = claims.role_code(ROLE)
    size = np.bincount(groups.stream, minlength=len(streams.row))
    alone = size[groups.stream] == 1
    claims.queue[streams.row[groups.stream[alone]]] = np.flatnonzero(alone)
    return claims
