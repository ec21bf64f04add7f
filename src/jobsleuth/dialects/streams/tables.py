"""Rows of all tables, in the order in which one pass needs another's findings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from jobsleuth.dialects.base import Options
from jobsleuth.dialects.rows import Places, constant, names, text, times
from jobsleuth.dialects.streams.claim import StreamClaims
from jobsleuth.dialects.streams.entries import Entries
from jobsleuth.dialects.streams.facts import Facts
from jobsleuth.dialects.streams.queues import queues
from jobsleuth.errors import DialectError
from jobsleuth.keyspace import Claims, Keyspace


def tables(keyspace: Keyspace, claims: Claims, options: Options) -> Iterator[tuple[str, pa.Table]]:
    """Jobs and membership entry by entry, then consumers, then what adds up over all of them."""
    if not isinstance(claims, StreamClaims) or claims.facts is None or len(claims.role) != keyspace.keys.num_rows:
        raise DialectError("the claims belong to another keyspace")
    facts, places = claims.facts, Places(claims)
    entries = Entries(keyspace, facts, places, options)
    yield from entries.tables()
    yield "workers", consumers(keyspace, facts, places)
    yield "queues", queues(facts, places, entries)


def consumers(keyspace: Keyspace, facts: Facts, places: Places) -> pa.Table:
    """Rows of `workers`: consumers with what they hold."""
    known = facts.consumers
    return pa.table(
        {
            **places.columns(known.group),
            "kind": constant("consumer", len(known.group)),
            "worker_id": text(keyspace, known.name)[0],
            "seen_at": times(known.seen),
            "active_at": times(known.active),
            "holds": pa.array(known.count),
            "key": names(keyspace, facts.streams.row[facts.groups.stream[known.group]])
            if len(known.group)
            else pa.array(np.array([], str), pa.string()),
        }
    )
