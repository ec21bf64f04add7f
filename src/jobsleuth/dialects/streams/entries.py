"""Entries of streams as jobs of each group, and where they are."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from jobsleuth.dialects.base import Options
from jobsleuth.dialects.rows import YEAR_2000_MS, YEAR_2100_MS, Places, coded, constant, names, text, times
from jobsleuth.dialects.streams.facts import UNKNOWN, Facts, Ids
from jobsleuth.keyspace import Keyspace

pc: Any = pa.compute

STATES = ("undelivered", "pending", "released", "acknowledged")
UNDELIVERED, PENDING, RELEASED, ACKNOWLEDGED = range(len(STATES))
"""Released: handed back by its consumer, and nobody's until it is read again (Redis 8.8)."""
STRUCTURES = ("stream", "pel")
"""An undelivered entry is found in the stream itself, a delivered one in the group's list of pending entries."""

REST = pa.map_(pa.string(), pa.binary())
_PIECE = 1 << 16
_Ints = npt.NDArray[np.int64]


class Entries:
    """Entries against every group of their stream.

    Attributes:
        counts: entries by group and state, acknowledged ones too; after :meth:`tables`.
        lag: per group, entries after the last one delivered.
        oldest: per group, time in the id of the oldest undelivered entry (Unix ms), UNKNOWN if none.
        newest: per group, time in the id of the newest entry of its stream, UNKNOWN if none.
        deleted: per group, pending entries that are no longer in the stream.
    """

    def __init__(self, keyspace: Keyspace, facts: Facts, places: Places, options: Options) -> None:
        groups = len(facts.groups.stream)
        self._keyspace = keyspace
        self._facts = facts
        self._places = places
        self._options = options
        self.counts: _Ints = np.zeros((groups, len(STATES)), np.int64)
        self.lag: _Ints = np.zeros(groups, np.int64)
        self.oldest: _Ints = np.full(groups, UNKNOWN, np.int64)
        self.newest: _Ints = np.full(groups, UNKNOWN, np.int64)
        self.deleted: _Ints = np.zeros(groups, np.int64)
        pending = facts.pending
        self._sought = sortable(pending.group, pending.id)
        self._found: npt.NDArray[np.bool_] = np.zeros(len(pending.group), np.bool_)
        # Groups of one stream stand together: where they begin, and how many there are.
        self._size: _Ints = np.bincount(facts.groups.stream, minlength=len(facts.streams.row)).astype(np.int64)
        self._first: _Ints = np.concatenate([[0], np.cumsum(self._size)[:-1]]).astype(np.int64)

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """Rows of `jobs` and `membership`, those whose entry is gone last."""
        streams = self._facts.streams
        for batch in self._keyspace.stream_entries(streams.row, ()):
            for start in range(0, batch.num_rows, _PIECE):
                yield from self._piece(batch.slice(start, _PIECE))
        lost = np.flatnonzero(~self._found)
        np.add.at(self.deleted, self._facts.pending.group[lost], 1)
        for start in range(0, len(lost), _PIECE):
            part = lost[start : start + _PIECE]
            group = self._facts.pending.group[part]
            state = self._held_state(part)
            np.add.at(self.counts, (group, state), 1)
            yield from self._rows(group, self._facts.pending.id.take(part), state, part, None)

    def _piece(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Table]]:
        ids = Ids(batch.column("ms").to_numpy(), batch.column("seq").to_numpy())
        stream = np.searchsorted(self._facts.streams.row, batch.column("row").to_numpy())
        size = self._size[stream]
        entry = np.repeat(np.arange(len(stream)), size)
        ends = np.cumsum(size)
        group = self._first[stream][entry] + np.arange(len(entry)) - (ends - size)[entry]

        ids = ids.take(entry)
        held = self._held(group, ids)
        is_held = held >= 0
        self._found[held[is_held]] = True
        unread = ids.after(self._facts.groups.last.take(group))
        state = np.where(unread, UNDELIVERED, ACKNOWLEDGED)
        state[is_held] = self._held_state(held[is_held])
        np.add.at(self.counts, (group, state), 1)
        np.add.at(self.lag, group[unread], 1)
        self._note_times(group, ids, state)
        keep = np.flatnonzero((state != ACKNOWLEDGED) | self._options.acknowledged)
        if len(keep):
            wanted, back = np.unique(entry[keep], return_inverse=True)
            fields = batch.column("rest").take(pa.array(wanted))
            payload = _payloads(fields, self._options.payload_limit)
            yield from self._rows(
                group[keep], ids.take(keep), state[keep], held[keep], [p.take(pa.array(back)) for p in payload]
            )

    def _held(self, group: _Ints, ids: Ids) -> _Ints:
        """Number of the pending entry, -1 where it is not pending."""
        sought = sortable(group, ids)
        at = np.searchsorted(self._sought, sought)
        hit = at < len(self._sought)
        hit[hit] = self._sought[at[hit]] == sought[hit]
        return np.where(hit, at, -1)

    def _held_state(self, held: _Ints) -> _Ints:
        owned = self._facts.pending.consumer.take(pa.array(held)).is_valid().to_numpy(zero_copy_only=False)
        return np.where(owned, PENDING, RELEASED)

    def _note_times(self, group: _Ints, ids: Ids, state: _Ints) -> None:
        known = (ids.ms >= YEAR_2000_MS) & (ids.ms < YEAR_2100_MS)
        at = ids.ms[known].astype(np.int64)
        np.maximum.at(self.newest, group[known], at)
        waits = state[known] == UNDELIVERED
        fresh = np.full(len(self.oldest), YEAR_2100_MS, np.int64)
        np.minimum.at(fresh, group[known][waits], at[waits])
        better = (fresh < YEAR_2100_MS) & ((self.oldest == UNKNOWN) | (fresh < self.oldest))
        self.oldest[better] = fresh[better]

    def _rows(
        self, group: _Ints, ids: Ids, state: _Ints, held: _Ints, payload: list[pa.Array] | None
    ) -> Iterator[tuple[str, pa.Table]]:
        """Rows of both tables. `held` numbers the pending entry (-1: none); no payload: the entry is gone."""
        pending = self._facts.pending
        rows = len(group)
        is_held = held >= 0
        at = pa.array(np.where(is_held, held, 0), mask=~is_held)
        delivered = np.where(is_held, pending.time[held], UNKNOWN) if len(pending.time) else np.full(rows, UNKNOWN)
        tries = pending.count[held] if len(pending.count) else np.zeros(rows, np.int64)
        tries = np.where(is_held, tries, 0)
        job_id = pc.binary_join_element_wise(
            pa.array(ids.ms).cast(pa.string()), pa.array(ids.seq).cast(pa.string()), "-"
        )
        place = self._places.columns(group)
        key = names(self._keyspace, self._facts.streams.row[self._facts.groups.stream[group]])
        columns: dict[str, Any] = {
            **place,
            "job_id": job_id,
            "state": coded(state, STATES),
            "has_record": pa.array(np.full(rows, payload is not None)),
            "created_at": times(np.minimum(ids.ms, YEAR_2100_MS).astype(np.int64)),
            "started_at": times(delivered),
            "attempts": pa.array(tries, mask=state == ACKNOWLEDGED),
            "attempts_started": pa.array(tries, mask=state == ACKNOWLEDGED),
            "worker_name": text(self._keyspace, pending.consumer)[0].take(at),
            "key": key,
        }
        odd = (state == PENDING) & ((delivered < YEAR_2000_MS) | (delivered >= YEAR_2100_MS))
        if odd.any():
            kept = zip(odd.tolist(), delivered.tolist(), strict=True)
            told = [[("delivery_time", str(at_ms).encode())] if is_odd else None for is_odd, at_ms in kept]
            columns["rest"] = pa.array(told, REST)
        if payload is not None:
            columns |= {
                "record_complete": pa.array(np.ones(rows, np.bool_)),
                "payload": payload[0],
                "payload_bytes": payload[1],
                "payload_format": constant("json", rows),
            }
        yield "jobs", pa.table(columns)
        places = np.flatnonzero(state != ACKNOWLEDGED)
        if len(places):
            chosen = pa.array(places)
            yield (
                "membership",
                pa.table(
                    {
                        **{name: values.take(chosen) for name, values in place.items()},
                        "structure": coded((state[places] != UNDELIVERED).astype(np.int32), STRUCTURES),
                        "kind": constant("stream", len(places)),
                        "job_id": job_id.take(chosen),
                        "decides_state": pa.array(np.ones(len(places), np.bool_)),
                        "key": key.take(chosen),
                    }
                ),
            )


def sortable(group: _Ints, ids: Ids) -> npt.NDArray[np.bytes_]:
    """Group and id as one value each that sorts as they do."""
    parts = np.empty((len(group), 3), ">u8")
    parts[:, 0], parts[:, 1], parts[:, 2] = group, ids.ms, ids.seq
    return parts.view("S24").ravel()


def _payloads(fields: pa.MapArray, limit: int | None) -> list[pa.Array]:
    """(payload, its whole size) of entries from their fields.

    JSON: an object of the fields; where a name comes twice or a value is not UTF-8, the list of [name, value] with
    ``{"b64": …}`` for such values.
    """
    whole = [_json(pairs) for pairs in fields.to_pylist()]
    sizes = pa.array([len(value) for value in whole], pa.int64())
    kept = whole if limit is None else [value[:limit] for value in whole]
    return [pa.array(kept, pa.binary()), sizes]


def _json(pairs: list[tuple[str, bytes]]) -> bytes:
    try:
        members: Any = {name: value.decode() for name, value in pairs}
    except UnicodeDecodeError:
        members = {}
    if len(members) != len(pairs):
        members = [[name, _value(value)] for name, value in pairs]
    return json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode()


def _value(value: bytes) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode()}
