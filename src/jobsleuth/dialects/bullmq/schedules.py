"""Repeatable jobs and job schedulers: members of `repeat` and the hashes that define them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from jobsleuth.dialects.bullmq.keytable import chunked, numbers, valid
from jobsleuth.dialects.bullmq.reading import Queues, Reading, text_map, times
from jobsleuth.dialects.bullmq.relations import relation_table
from jobsleuth.dialects.bullmq.states import moments
from jobsleuth.keyspace import Rows

pc: Any = pa.compute

Pieces = Iterator[tuple[str, pa.Table]]

_TEXT_MAP = pa.map_(pa.string(), pa.string())
_HEAD = b"repeat:"
_TEXT_KEY = re.compile(rb"(?s)(?P<who>.*:.*):(?P<end>\d*):(?P<tz>[^:]*):(?P<spec>[^:]+)")
"""``name:jobId:endDate:tz:pattern or every``: members before definitions had hashes (and Bull's with a cron line).

Name and id may hold colons, what follows them does not.
"""
_BULL_EVERY = re.compile(rb"(?s)(?P<who>.*:.*):(?P<end>\d*):(?P<spec>\d+)")
"""Bull's member of an `every` schedule, without a time zone."""
_DIVISIONS = 16
"""Colons tried for the one between name and id."""


def schedules(reading: Reading, definitions: Rows, bull: npt.NDArray[np.bool_]) -> Pieces:
    """Rows of `schedules`, and the relation of each member of `repeat` to its current job.

    Args:
        reading: the evidence.
        definitions: rows of the hashes that define schedules, ascending.
        bull: of each queue, whether it is Bull's.
    """
    seen: list[Rows] = []
    heads = [(db, base + _HEAD) for db, base in reading.prefixes]
    for batch in reading.keyspace.elements(reading.rows_of("repeat")):
        if not batch.num_rows:
            continue
        row = numbers(batch.column("row"), np.int64)
        queue = reading.claims.queue[row]
        found = reading.keyspace.lookup(heads, queue, chunked(batch.column("member")))
        found = np.where(np.isin(found, definitions), found, -1)
        seen.append(found)
        yield from _members(reading, batch, row, queue, found, bull)
    alone = np.setdiff1d(definitions, np.concatenate(seen)) if seen else definitions
    for batch in reading.keyspace.records(alone, ()):
        row = numbers(batch.column("row"), np.int64)
        queue = reading.claims.queue[row]
        heads_ = reading.lengths[queue] + len(_HEAD)
        name = reading.keyspace.cut(reading.table.names_of(row), heads_, np.zeros(len(row), np.int64))
        details = text_map(reading, batch.column("rest"))
        yield (
            "schedules",
            pa.table(
                {
                    **reading.columns(queue),
                    "schedule_id": reading.text(name)[0],
                    "spec": _spec(details),
                    "details": details,
                    "has_record": pa.array(np.ones(len(row), np.bool_)),
                    "key": reading.key_text(row),
                }
            ),
        )


def _members(
    reading: Reading, batch: pa.RecordBatch, row: Rows, queue: Queues, found: Rows, bull: npt.NDArray[np.bool_]
) -> Pieces:
    member = batch.column("member")
    at, known = moments(numbers(batch.column("score"), np.float64))
    schedule_id, exact_schedule = reading.text(member)
    details = _details(reading, found)
    current = _current_jobs(reading, queue, member, at, known, found, bull)
    job_id, exact = reading.text(current)
    base = pa.array([q.base + b":" + _HEAD for q in reading.claims.queues], pa.binary()).take(pa.array(queue))
    key, _ = reading.text(pc.binary_join_element_wise(base, member, b""))
    spec = _spec(details)
    legacy = np.flatnonzero(found < 0)
    if len(legacy):
        spec = pc.coalesce(spec, _legacy_specs(reading, member, legacy))
    yield (
        "schedules",
        pa.table(
            {
                **reading.columns(queue),
                "schedule_id": schedule_id,
                "spec": spec,
                "next_at": times(at, known),
                "job_id": job_id,
                "job_id_bytes": exact,
                "details": details,
                "has_record": pa.array(found >= 0),
                "key": key,
            }
        ),
    )
    some = np.flatnonzero(valid(job_id))
    pick = pa.array(some)
    names = reading.namespace_text(queue[some]), reading.queue_text(queue[some])
    yield (
        "relations",
        relation_table(
            reading,
            "schedule",
            "repeat",
            queue[some],
            source=(*names, schedule_id.take(pick), exact_schedule.take(pick)),
            target=(*names, job_id.take(pick), exact.take(pick)),
            key=reading.key_text(row[some]),
        ),
    )


def _details(reading: Reading, found: Rows) -> pa.Array:
    """Fields of the defining hashes, in the order of `found`; null where it is -1."""
    unique = np.unique(found[found >= 0])
    parts = [text_map(reading, batch.column("rest")) for batch in reading.keyspace.records(unique, ())]
    stored = pa.concat_arrays([pa.array([], _TEXT_MAP), *(part.cast(_TEXT_MAP) for part in parts)])
    return stored.take(pa.array(np.searchsorted(unique, found), mask=found < 0))


def _spec(details: pa.Array) -> pa.Array:
    """The cron pattern, or ``every <ms>``."""
    pattern = pc.map_lookup(details, pa.scalar("pattern"), "first")
    every = pc.map_lookup(details, pa.scalar("every"), "first")
    return pc.coalesce(pattern, pc.binary_join_element_wise("every ", every, ""))


def _text_keys(member: bytes) -> list[re.Match[bytes]]:
    """How a member without definition may be read: as BullMQ's, as Bull's."""
    return [match for form in (_TEXT_KEY, _BULL_EVERY) if (match := form.fullmatch(member))]


def _legacy_specs(reading: Reading, member: pa.Array, some: npt.NDArray[np.int64]) -> pa.Array:
    specs: list[bytes | None] = [None] * len(member)
    for i, key in zip(some.tolist(), member.take(pa.array(some)).to_pylist(), strict=True):
        for match in _text_keys(key)[:1]:
            spec = match["spec"]
            specs[i] = b"every " + spec if spec.isdigit() else spec
    return reading.text(pa.array(specs, pa.binary()))[0]


def _current_jobs(
    reading: Reading,
    queue: Queues,
    member: pa.Array,
    at: npt.NDArray[np.int64],
    known: npt.NDArray[np.bool_],
    found: Rows,
    bull: npt.NDArray[np.bool_],
) -> pa.Array:
    """Id of each schedule's current job: ``repeat:<member>:<score>``, or the digest of older releases.

    Where the member has no definition the forms of every era are tried and the one whose job exists is taken; if none
    does, the form of the era that writes such members.
    """
    millis = pa.array(at, mask=~known).cast(pa.string()).cast(pa.binary())
    plain = pc.binary_join_element_wise(b"repeat", member, millis, b":")
    legacy = np.flatnonzero((found < 0) & known)
    if not len(legacy):
        return plain
    ids = plain.to_pylist()
    keys = member.take(pa.array(legacy)).to_pylist()
    candidates = [_old_ids(key, int(at[i]), bool(bull[queue[i]])) for i, key in zip(legacy.tolist(), keys, strict=True)]
    open_ = reading.jobs(queue, plain)[legacy] < 0
    for i, olds in zip(legacy.tolist(), candidates, strict=True):
        if olds:
            ids[i] = olds[0]
    chosen = ~open_
    for i in legacy[chosen].tolist():
        ids[i] = plain[i].as_py()
    for form in range(max(map(len, candidates))):
        tries = [n for n, olds in enumerate(candidates) if not chosen[n] and form < len(olds)]
        if not tries:
            continue
        names = pa.array([candidates[n][form] for n in tries], pa.binary())
        exists = reading.jobs(queue[legacy[tries]], names) >= 0
        for n, there in zip(tries, exists.tolist(), strict=True):
            if there:
                chosen[n] = True
                ids[int(legacy[n])] = candidates[n][form]
    return pa.array(ids, pa.binary())


def _old_ids(member: bytes, millis: int, bull: bool) -> list[bytes]:
    """Job ids that releases without definitions would give, likeliest first; none for a member of another shape."""
    digest, tail = _md5(member), str(millis).encode()
    modern, early = [], []
    for match in _text_keys(member):
        who = match["who"]
        colons = [m.start() for m in re.finditer(b":", who)][-_DIVISIONS:]
        # An id with colons is rarer than a name with colons.
        for name, own_id in ((who[:at], who[at + 1 :]) for at in reversed(colons)):
            # Bull digests the id with its colon.
            ends = (b":", b"") if bull else (b"", b":")
            modern += [b"repeat:%s:%s" % (_md5(name + own_id + end + digest), tail) for end in ends]
            if not own_id:
                # 1.0.0 to 1.14.4
                early.append(b"repeat:%s:%s:%s" % (name, digest, tail))
    return list(dict.fromkeys([*modern, *early]))


def _md5(text: bytes) -> bytes:
    return hashlib.md5(text, usedforsecurity=False).hexdigest().encode()
