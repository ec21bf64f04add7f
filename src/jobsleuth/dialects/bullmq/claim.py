"""Which key plays which role in which queue."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from jobsleuth.dialects.base import Options
from jobsleuth.dialects.bullmq.bases import Base, find_bases, relay_rows
from jobsleuth.dialects.bullmq.fields import COMPLETE
from jobsleuth.dialects.bullmq.grammar import FAMILIES, RESERVED, ROLES, SETS_ONCE, SUB_KEYS, split_base
from jobsleuth.dialects.bullmq.keytable import SLICE_ROWS, KeyTable, numbers
from jobsleuth.dialects.bullmq.owners import settle_nested
from jobsleuth.keyspace import Claims, Keyspace, Projected, QueueRef, Rows

pc: Any = pa.compute

NAME = "bullmq"
_WHOLE = tuple(Projected(field, field, "present") for field in COMPLETE)


def claim(keyspace: Keyspace, free: npt.NDArray[np.bool_], options: Options) -> Claims:
    """Claims of all keys under accepted bases, and of the message relay's.

    Queues are found from keys that had not expired; an expired key of a queue keeps its role, so that a lock that ran
    out still reads as a lock.
    """
    table = KeyTable(keyspace)
    claims = Claims.empty(NAME, len(table))
    claims.roles.extend(ROLES)
    relay = relay_rows(table) & free
    claims.role[relay] = claims.role_code("relay")
    free = free & ~relay
    bases = find_bases(keyspace, table, free & table.live)
    if not bases:
        return claims
    _name_queues(claims, bases, options)
    own = _owners(keyspace, table, claims, free)
    place(keyspace, table, claims, own)
    moved, notes = settle_nested(keyspace, table, claims)
    place(keyspace, table, claims, moved)
    for queue, note in notes:
        claims.notes.setdefault(queue, []).append(note)
    return claims


def _name_queues(claims: Claims, bases: list[Base], options: Options) -> None:
    for number, base in enumerate(bases):
        split = split_base(base.name, options.prefixes, base.version)
        claims.queues.append(QueueRef(base.db, split.namespace, split.queue, base.name))
        if split.doubt:
            claims.notes.setdefault(number, []).append(split.doubt)


def _owners(keyspace: Keyspace, table: KeyTable, claims: Claims, free: npt.NDArray[np.bool_]) -> Rows:
    """Fills `claims.queue` by the longest base; returns the rows claimed, ascending."""
    by_db: dict[int, list[int]] = {}
    for number, queue in enumerate(claims.queues):
        by_db.setdefault(queue.db, []).append(number)
    prefixes = {db: [claims.queues[n].base + b":" for n in numbers_] for db, numbers_ in by_db.items()}
    for start in range(0, len(table), SLICE_ROWS):
        here = table.db[start : start + SLICE_ROWS]
        for db in np.unique(here).tolist():
            if db in prefixes:
                rows = np.flatnonzero(here == db) + start
                queue_of = np.array([*by_db[db], -1], np.int32)
                claims.queue[rows] = queue_of[keyspace.find_prefix(table.names_of(rows), prefixes[db])]
    claims.queue[~free] = -1
    return np.flatnonzero(claims.queue >= 0)


def place(keyspace: Keyspace, table: KeyTable, claims: Claims, rows: Rows) -> None:
    """Sets the role of rows whose queue is known."""
    lengths = np.array([len(q.base) + 1 for q in claims.queues] or [0], np.int64)
    for start in range(0, len(rows), SLICE_ROWS):
        part = rows[start : start + SLICE_ROWS]
        rest = keyspace.cut(table.names_of(part), lengths[claims.queue[part]], np.zeros(len(part), np.int64))
        claims.role[part] = _roles(keyspace, table, claims, part, rest)


def _roles(
    keyspace: Keyspace, table: KeyTable, claims: Claims, rows: Rows, rest: pa.ChunkedArray
) -> npt.NDArray[np.int16]:
    role = np.full(len(rows), claims.role_code("unplaced"), np.int16)
    is_hash = table.is_type("hash", rows)
    # A hash under no better name is a job until its fields say otherwise.
    role[is_hash] = claims.role_code("job")

    ending = keyspace.find_suffix(rest, [s.ending for s in SUB_KEYS])
    is_sub = np.zeros(len(rows), np.bool_)
    for code, sub in enumerate(SUB_KEYS):
        match = (ending == code) & table.is_type(sub.type, rows)
        role[match] = claims.role_code(sub.role)
        is_sub |= match

    odd = np.flatnonzero(~is_hash)
    some = rest.take(pa.array(odd))
    for family in FAMILIES:
        match = table.is_type(family.type, rows[odd]) & numbers(pc.starts_with(some, pattern=family.head), np.bool_)
        if family.ending:
            match &= numbers(pc.ends_with(some, pattern=family.ending), np.bool_)
        match[match] = ~_has_job(keyspace, table, claims, rows[odd[match]], is_sub[odd[match]], ending[odd[match]])
        role[odd[match]] = claims.role_code(family.role)

    exact = numbers(pc.index_in(rest, value_set=pa.array([r.suffix for r in RESERVED], pa.binary())), np.int64, null=-1)
    for code, reserved in enumerate(RESERVED):
        fits = table.is_type(reserved.type, rows)
        if reserved.role in SETS_ONCE:
            fits |= table.is_type("set", rows)
        role[(exact == code) & fits] = claims.role_code(reserved.role)
    hashes = np.flatnonzero(is_hash & (exact >= 0) & (role != claims.role_code("job")))
    role[hashes[_are_jobs(keyspace, rows[hashes])]] = claims.role_code("job")
    return role


def _are_jobs(keyspace: Keyspace, rows: Rows) -> npt.NDArray[np.bool_]:
    """Per hash, whether it is a whole job: one called `meta` or ``metrics:failed`` takes the place of the queue's."""
    whole = np.zeros(len(rows), np.bool_)
    for batch in keyspace.records(rows, _WHOLE, rest=False) if len(rows) else ():
        at = np.searchsorted(rows, numbers(batch.column("row"), np.int64))
        whole[at] = np.logical_and.reduce([numbers(batch.column(p.name), np.bool_) for p in _WHOLE])
    return whole


def _has_job(
    keyspace: Keyspace,
    table: KeyTable,
    claims: Claims,
    rows: Rows,
    is_sub: npt.NDArray[np.bool_],
    ending: npt.NDArray[np.int32],
) -> npt.NDArray[np.bool_]:
    """Per key that reads as a job's sub-key too (``de:x:lock``), whether that job's hash exists."""
    out = is_sub.copy()
    some = np.flatnonzero(is_sub)
    if len(some):
        tails = np.array([len(s.ending) for s in SUB_KEYS], np.int64)[ending[some]]
        job_key = keyspace.cut(table.names_of(rows[some]), np.zeros(len(some), np.int64), tails)
        found = whole_keys(keyspace, claims, claims.queue[rows[some]], job_key)
        out[some] = (found >= 0) & table.is_type("hash", found)
    return out


def whole_keys(keyspace: Keyspace, claims: Claims, queue: npt.NDArray[np.int32], names: pa.ChunkedArray) -> Rows:
    """Row of the key with just that name in the queue's database, -1 where there is none."""
    return keyspace.lookup([(q.db, b"") for q in claims.queues], queue, names)
