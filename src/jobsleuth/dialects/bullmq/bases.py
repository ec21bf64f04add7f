"""Where the queues are: bases found by key suffix and type, and accepted by what their keys hold.

A suffix such as ``:id`` or ``:active`` alone proves nothing in a shared Redis. A base counts as a queue with one strong
sign (a `meta` hash of the library's fields, an `events` stream of its events, a structure whose members are its job
hashes, Bull's `meta-paused`) or with two medium ones (integer `id`, integer `stalled-check`, a `marker` zset, a `wait`
list, a `waiting-children` zset, a `meta` hash with nothing but general words).

Schedules and deduplication ids are free text as well: an id called `meta-paused` makes a key ``<base>:de:meta-paused``.
What looks like a queue under such a head of another needs a sign that such keys cannot give.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from jobsleuth.dialects.bullmq.grammar import DECIDING, RELAY_MARKS, RESERVED, STRUCTURES, version_of
from jobsleuth.dialects.bullmq.keytable import SLICE_ROWS, KeyTable, chunked, numbers, single
from jobsleuth.keyspace import Keyspace, Projected, Rows

pc: Any = pa.compute

_NAMING = tuple(r for r in RESERVED if r.names_base)
_META_WORDS = [b"version", b"paused", b"concurrency", b"max", b"duration"]
_META_FIELDS_AT_MOST = 64
_MARKER_MEMBERS_AT_MOST = 2
_QUEUE_EVENTS = [b"drained", b"paused", b"resumed", b"cleaned"]
_JOB_EVENTS = [
    b"added",
    b"waiting",
    b"active",
    b"delayed",
    b"waiting-children",
    b"progress",
    b"completed",
    b"failed",
    b"retries-exhausted",
    b"stalled",
    b"removed",
    b"duplicated",
    b"debounced",
    b"deduplicated",
]
_HEADS = (b":de", b":limiter", b":repeat", b":dn", b":metrics")
"""Heads under which a queue keeps keys of any name."""
_HASHES_TRIED = 16
"""Job hashes read per structure to see whether its members are jobs of this library."""

_ID, _CHECK, _MARKER, _META, _WAIT, _PARENTS = 1, 2, 4, 8, 16, 32


@dataclass(frozen=True)
class Base:
    """One accepted base.

    Attributes:
        db: Redis database number.
        name: the base's bytes, e.g. ``b"bull:emails"``.
        version: version that a `Queue` object recorded in `meta.version`, None where none did.
    """

    db: int
    name: bytes
    version: tuple[int, ...] | None


def relay_rows(table: KeyTable) -> npt.NDArray[np.bool_]:
    """Per key, whether it belongs to the message relay of 6.4+."""
    found = np.zeros(len(table), np.bool_)
    for start in range(0, len(table), SLICE_ROWS):
        names = table.names.slice(start, SLICE_ROWS)
        mark = numbers(pc.match_substring(names, "::relay:"), np.bool_)
        if mark.any():
            some = np.flatnonzero(mark)
            kept = names.take(pa.array(some))
            open_ = numbers(pc.match_substring(kept, RELAY_MARKS[0]), np.bool_)
            registry = numbers(pc.ends_with(kept, pattern=RELAY_MARKS[1]), np.bool_)
            found[start + some] = open_ | registry
    return found


def find_bases(keyspace: Keyspace, table: KeyTable, usable: npt.NDArray[np.bool_]) -> list[Base]:
    """Accepted bases, sorted by database and name.

    Args:
        keyspace: the evidence.
        table: its keys.
        usable: per key, whether it may speak for a queue (free, not expired, not the relay's).
    """
    candidates = _Candidates.collect(keyspace, table, usable)
    if not len(candidates.rows):
        return []
    return _Judge(keyspace, table, candidates).accepted()


@dataclass
class _Candidates:
    """Keys with a queue-level suffix and the right type, and the base each speaks for."""

    rows: Rows
    kind: npt.NDArray[np.int32]
    """Index into `_NAMING` per row."""
    base: npt.NDArray[np.int64]
    """Index of the base per row."""
    dbs: npt.NDArray[np.int64]
    names: pa.Array
    """Database and name per base."""

    @classmethod
    def collect(cls, keyspace: Keyspace, table: KeyTable, usable: npt.NDArray[np.bool_]) -> _Candidates:
        suffixes = [b":" + r.suffix for r in _NAMING]
        lengths = np.array([len(s) for s in suffixes], np.int64)
        rows_parts, kind_parts, name_parts = [], [], []
        for start in range(0, len(table), SLICE_ROWS):
            part = slice(start, start + SLICE_ROWS)
            kind = keyspace.find_suffix(table.names.slice(start, SLICE_ROWS), suffixes)
            fits = np.zeros(len(kind), np.bool_)
            for code, reserved in enumerate(_NAMING):
                fits |= (kind == code) & table.is_type(reserved.type, part)
            rows = np.flatnonzero(fits & usable[part])
            if len(rows):
                kind = kind[rows]
                rows = rows + start
                names = table.names_of(rows)
                name_parts += keyspace.cut(names, np.zeros(len(rows), np.int64), lengths[kind]).chunks
                rows_parts.append(rows)
                kind_parts.append(kind)
        if not rows_parts:
            none = np.empty(0, np.int64)
            return cls(none, np.empty(0, np.int32), none, none, pa.array([], pa.binary()))
        rows = np.concatenate(rows_parts)
        encoded = single(pa.chunked_array(name_parts)).dictionary_encode()
        codes = numbers(encoded.indices, np.int64)
        pairs = np.stack([table.db[rows], codes], axis=1)
        unique, base = np.unique(pairs, axis=0, return_inverse=True)
        return cls(
            rows,
            np.concatenate(kind_parts),
            base.reshape(-1),
            unique[:, 0],
            encoded.dictionary.take(pa.array(unique[:, 1])),
        )

    def of(self, *suffixes: bytes) -> npt.NDArray[np.int64]:
        """Positions of the candidates with one of the suffixes, in row order."""
        wanted = [i for i, r in enumerate(_NAMING) if r.suffix in suffixes]
        return np.flatnonzero(np.isin(self.kind, wanted))


class _Judge:
    """Weighs the signs of each candidate base."""

    def __init__(self, keyspace: Keyspace, table: KeyTable, candidates: _Candidates) -> None:
        self.keyspace = keyspace
        self.table = table
        self.c = candidates
        self.strong = np.zeros(len(candidates.dbs), np.bool_)
        self.medium = np.zeros(len(candidates.dbs), np.uint8)
        self.solid = np.zeros(len(candidates.dbs), np.bool_)
        self.doubted = self._under_heads()
        self.versions: dict[int, tuple[int, ...]] = {}

    def accepted(self) -> list[Base]:
        self._meta()
        self._integers(b"id", _ID)
        self._integers(b"stalled-check", _CHECK)
        self._markers()
        self.medium[self.c.base[self.c.of(b"wait")]] |= _WAIT
        self.medium[self.c.base[self.c.of(b"waiting-children")]] |= _PARENTS
        self.strong[self.c.base[self.c.of(b"meta-paused")]] = True
        if not self._settled().all():
            self._structures()
        if not self._settled().all():
            self._events()
        chosen = np.flatnonzero(self._settled())
        names = self.c.names.take(pa.array(chosen)).to_pylist()
        bases = [
            Base(int(self.c.dbs[i]), name, self.versions.get(int(i)))
            for i, name in zip(chosen, names, strict=True)
            if name
        ]
        return sorted(bases, key=lambda b: (b.db, b.name))

    def _settled(self) -> npt.NDArray[np.bool_]:
        enough = self.strong | (np.bitwise_count(self.medium) >= 2)
        return np.asarray(self.solid | (enough & ~self.doubted))

    def _under_heads(self) -> npt.NDArray[np.bool_]:
        """Per base, whether its keys may be parts of another candidate's queue."""
        out = np.zeros(len(self.c.dbs), np.bool_)
        for head in _HEADS:
            some = np.flatnonzero(numbers(pc.ends_with(self.c.names, pattern=head), np.bool_))
            if len(some):
                outer = [name[: -len(head)] for name in self.c.names.take(pa.array(some)).to_pylist()]
                out[some] |= numbers(pc.is_in(pa.array(outer, pa.binary()), value_set=self.c.names), np.bool_)
        return out

    def _base_by_row(self, positions: npt.NDArray[np.int64]) -> tuple[Rows, npt.NDArray[np.int64]]:
        return self.c.rows[positions], self.c.base[positions]

    def _undecided(self, positions: npt.NDArray[np.int64]) -> tuple[Rows, npt.NDArray[np.int64]]:
        return self._base_by_row(positions[~self._settled()[self.c.base[positions]]])

    def _meta(self) -> None:
        rows, bases = self._base_by_row(self.c.of(b"meta"))
        few = self.table.elements_of(rows) <= _META_FIELDS_AT_MOST
        rows, bases = rows[few], bases[few]
        alien = np.zeros(len(rows), np.bool_)
        named = np.zeros(len(rows), np.bool_)
        for batch in self.keyspace.elements(rows):
            at = np.searchsorted(rows, numbers(batch.column("row"), np.int64))
            field = batch.column("member")
            option = numbers(pc.starts_with(field, pattern=b"opts."), np.bool_)
            word = numbers(pc.is_in(field, value_set=pa.array(_META_WORDS, pa.binary())), np.bool_)
            alien[at[~option & ~word]] = True
            named[at[option]] = True
            version = np.flatnonzero(numbers(pc.equal(field, pa.scalar(b"version", pa.binary())), np.bool_))
            for i, value in zip(at[version], batch.column("value").take(pa.array(version)).to_pylist(), strict=True):
                # `<library>:<semver>`; any other version is somebody else's.
                found = version_of(value or b"") if b":" in (value or b"") else None
                alien[i] |= found is None
                named[i] |= found is not None
                if found:
                    self.versions[int(bases[i])] = found
        self.solid[bases[named & ~alien]] = True
        self.medium[bases[~named & ~alien]] |= _META

    def _integers(self, suffix: bytes, sign: int) -> None:
        rows, bases = self._base_by_row(self.c.of(suffix))
        for batch in self.keyspace.strings(rows, 24):
            at = np.searchsorted(rows, numbers(batch.column("row"), np.int64))
            good = numbers(pc.match_substring_regex(batch.column("value"), r"^-?[0-9]+(\.[0-9]+)?$"), np.bool_)
            self.medium[bases[at[good]]] |= sign

    def _markers(self) -> None:
        rows, bases = self._base_by_row(self.c.of(b"marker"))
        few = self.table.elements_of(rows) <= _MARKER_MEMBERS_AT_MOST
        rows, bases = rows[few], bases[few]
        alien = np.zeros(len(rows), np.bool_)
        members = pa.array([b"0", b"1"], pa.binary())
        for batch in self.keyspace.elements(rows):
            at = np.searchsorted(rows, numbers(batch.column("row"), np.int64))
            alien[at[~numbers(pc.is_in(batch.column("member"), value_set=members), np.bool_)]] = True
        self.medium[bases[~alien]] |= _MARKER

    def _structures(self) -> None:
        """Structures of undecided bases whose members name job hashes; a set of foreign ids must not pass for one."""
        deciding = [r.suffix for r in RESERVED if r.role in STRUCTURES[:DECIDING]]
        rows, bases = self._undecided(self.c.of(*deciding))
        prefixes = [(int(db), name + b":") for db, name in zip(self.c.dbs, self.c.names.to_pylist(), strict=True)]
        tried = np.zeros(len(rows), np.int64)
        hashes: dict[int, int] = {}
        for batch in self.keyspace.elements(rows):
            at = np.searchsorted(rows, numbers(batch.column("row"), np.int64))
            found = self.keyspace.lookup(prefixes, bases[at].astype(np.int32), chunked(batch.column("member")))
            good = found >= 0
            good[good] = self.table.is_type("hash", found[good]) & self.table.live[found[good]]
            at, found = at[good], found[good]
            rank = np.arange(len(at)) - np.searchsorted(at, at) + tried[at]
            first = rank < _HASHES_TRIED
            tried += np.bincount(at, minlength=len(tried))
            hashes.update(zip(found[first].tolist(), bases[at[first]].tolist(), strict=True))
        jobs = np.array(sorted(hashes), np.int64)
        # No byte of them is kept: a payload may be huge.
        probe = tuple(
            Projected(name, name, "bytes", limit=0)
            for name in ("name", "data", "opts", "timestamp", "processedOn", "ats")
        )
        for batch in self.keyspace.records(jobs, probe, rest=False):
            has = {p.name: numbers(batch.column(p.name).is_valid(), np.bool_) for p in probe}
            whole = has["timestamp"] & has["opts"] & has["data"] & has["name"]
            scar = ~has["timestamp"] & has["processedOn"] & has["ats"]
            for row in numbers(batch.column("row"), np.int64)[whole | scar].tolist():
                self.solid[hashes[row]] = True

    def _events(self) -> None:
        rows, bases = self._undecided(self.c.of(b"events"))
        known = np.zeros(len(rows), np.bool_)
        alien = np.zeros(len(rows), np.bool_)
        names = self.c.names.take(pa.array(bases))
        of_queue_itself = np.zeros(len(rows), np.bool_)
        fields = (Projected("event", "event", "bytes"), Projected("job", "jobId", "bytes"))
        for batch in self.keyspace.stream_entries(rows, fields):
            at = np.searchsorted(rows, numbers(batch.column("row"), np.int64))
            event = batch.column("event")
            of_job = numbers(pc.is_in(event, value_set=pa.array(_JOB_EVENTS, pa.binary())), np.bool_)
            of_queue = numbers(pc.is_in(event, value_set=pa.array(_QUEUE_EVENTS, pa.binary())), np.bool_)
            job = batch.column("job")
            known[at[(of_job & numbers(job.is_valid(), np.bool_)) | of_queue]] = True
            alien[at[~numbers(event.is_valid(), np.bool_)]] = True
            released = numbers(pc.fill_null(pc.equal(event, pa.scalar(b"active", event.type)), False), np.bool_)
            released[released] = _end_in(names, at[released], job.take(pa.array(np.flatnonzero(released))))
            of_queue_itself[at[~released]] = True
        # `<parent>:events` of 1.16 to 1.24 tells of that parent's release only; the parent is a job, no queue.
        self.solid[bases[known & ~alien & of_queue_itself]] = True


def _end_in(names: pa.Array, at: npt.NDArray[np.int64], ids: pa.Array) -> npt.NDArray[np.bool_]:
    """Per id, whether the name at its place ends in a colon and just that id."""
    pairs = zip(names.take(pa.array(at)).to_pylist(), ids.to_pylist(), strict=True)
    return np.array([job_id is not None and name.endswith(b":" + job_id) for name, job_id in pairs], np.bool_)
