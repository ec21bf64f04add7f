"""One reading of one keyspace: what every table needs to know of keys and queues."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from jobsleuth.dialects.base import Options
from jobsleuth.dialects.bullmq.grammar import split_base
from jobsleuth.dialects.bullmq.keytable import KeyTable, chunked, numbers, single, valid
from jobsleuth.dialects.bullmq.states import EARLIEST_MS, LATEST_MS
from jobsleuth.errors import DialectError
from jobsleuth.keyspace import Claims, Keyspace, Rows
from jobsleuth.safetext import from_bytes, inexact

pc: Any = pa.compute

MS = pa.timestamp("ms", tz="UTC")

Queues = npt.NDArray[np.int32]
"""Index into `claims.queues` per row of a batch."""


class Reading:
    """The keyspace, its claims, and arrays per queue.

    Attributes:
        lengths: bytes of each queue's base and its colon.
        prefixes: (db, base and colon) per queue, for :meth:`Keyspace.lookup`.
        job_code: role code of a job's hash.
    """

    def __init__(self, keyspace: Keyspace, claims: Claims, options: Options) -> None:
        if len(claims.role) != keyspace.keys.num_rows:
            raise DialectError("the claims belong to another keyspace")
        self.keyspace = keyspace
        self.claims = claims
        self.options = options
        self.table = KeyTable(keyspace)
        self.as_of = keyspace.as_of.ms
        queues = claims.queues
        self.lengths = np.array([len(q.base) + 1 for q in queues], np.int64)
        self.prefixes = [(q.db, q.base + b":") for q in queues]
        self.whole = [(q.db, b"") for q in queues]
        self.job_code = claims.role_code("job")
        self._db = np.array([q.db for q in queues], np.int64)
        self._by_base = {(q.db, q.base): n for n, q in enumerate(queues)}
        self._namespaces = _Words([from_bytes(q.namespace) for q in queues])
        self._names = _Words([from_bytes(q.queue) for q in queues])
        self._exact = {
            name: pa.array(exact, pa.binary())
            for name, exact in (
                ("namespace_bytes", [inexact(q.namespace) for q in queues]),
                ("queue_bytes", [inexact(q.queue) for q in queues]),
            )
            if any(exact)
        }
        self._bases_by_db: dict[int, list[int]] = {}
        for number, queue in enumerate(queues):
            self._bases_by_db.setdefault(queue.db, []).append(number)

    def rows_of(self, *roles: str) -> Rows:
        """Live keys of the roles, ascending."""
        rows = self.claims.rows_of(*roles)
        return rows[self.table.live[rows]]

    def columns(self, queue: Queues, dialect: bool = True) -> dict[str, Any]:
        """dialect, namespace, queue, db of rows that belong to the queues, and bytes where some name is not UTF-8."""
        out: dict[str, Any] = {"dialect": self.dialect(len(queue))} if dialect else {}
        return out | {
            "namespace": self._namespaces.of(queue),
            "queue": self._names.of(queue),
            "db": pa.array(self._db[queue]),
            **{name: exact.take(pa.array(queue)) for name, exact in self._exact.items()},
        }

    @staticmethod
    def dialect(count: int) -> pa.DictionaryArray:
        """The dialect's name, `count` times."""
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array(["bullmq"]))

    def namespace_text(self, queue: Queues) -> pa.Array:
        """Namespaces as plain strings."""
        return self._namespaces.text(queue)

    def queue_text(self, queue: Queues) -> pa.Array:
        """Queue names as plain strings."""
        return self._names.text(queue)

    def key_text(self, rows: Rows) -> pa.Array:
        """Key names as text, in the order of `rows` (any order)."""
        return self.key_columns(rows)["key"]

    def key_columns(self, rows: Rows) -> dict[str, pa.Array]:
        """Key names as text and, where that is an escape, as bytes, in the order of `rows` (any order)."""
        unique, back = np.unique(rows, return_inverse=True)
        text, exact = self.keyspace.to_text(self.table.names_of(unique))
        place = pa.array(back)
        return {"key": single(text).take(place), "key_bytes": single(exact).take(place)}

    def db_of(self, queue: Queues) -> npt.NDArray[np.int64]:
        """Database of each row's queue."""
        return np.asarray(self._db[queue])

    def remainders(self, rows: Rows, tail: int = 0) -> pa.ChunkedArray:
        """What follows the base in the keys of ascending rows, without the last `tail` bytes."""
        heads = self.lengths[self.claims.queue[rows]]
        return self.keyspace.cut(self.table.names_of(rows), heads, np.full(len(rows), tail, np.int64))

    def text(self, values: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, pa.Array]:
        """(text, exact bytes where the text is not)."""
        text, exact = self.keyspace.to_text(chunked(values))
        return single(text), single(exact)

    def jobs(self, queue: Queues, ids: pa.Array | pa.ChunkedArray) -> Rows:
        """Rows of the live job hashes of the ids, -1 where there is none."""
        found = self.keyspace.lookup(self.prefixes, queue, chunked(ids))
        # A nested queue may own the key that this spells.
        good = found >= 0
        hit = found[good]
        good[good] = (
            (self.claims.role[hit] == self.job_code) & self.table.live[hit] & (self.claims.queue[hit] == queue[good])
        )
        return np.where(good, found, -1)

    def split_keys(self, db: npt.NDArray[np.int64], keys: pa.Array) -> SplitKeys:
        """Job keys (as flows store them) read as prefix, queue and id."""
        queue = np.full(len(keys), -1, np.int32)
        for one in np.unique(db).tolist():
            at = np.flatnonzero(db == one)
            known = self._bases_by_db.get(one)
            if known is None:
                continue
            names = chunked(keys.take(pa.array(at)))
            found = self.keyspace.lookup([(one, b"")], np.zeros(len(at), np.int32), names)
            owned = np.where(found >= 0, self.claims.queue[found], -1)
            numbers_ = np.array([*known, -1], np.int32)
            longest = numbers_[self.keyspace.find_prefix(names, [self.prefixes[n][1] for n in known])]
            queue[at] = np.where(owned >= 0, owned, longest)
        heads = np.where(queue >= 0, self.lengths[queue] if len(self.lengths) else 0, 0)
        ids = self.keyspace.cut(chunked(keys), heads, np.zeros(len(keys), np.int64))
        return self._named(queue, single(ids), np.flatnonzero(queue < 0))

    def split_parents(self, db: npt.NDArray[np.int64], bases: pa.Array, ids: pa.Array) -> SplitKeys:
        """Parents given as base and id, as a job's `parent` gives them."""
        encoded = bases.cast(pa.binary()).dictionary_encode()
        names = encoded.dictionary.to_pylist()
        code = numbers(encoded.indices, np.int64)
        queue = np.full(len(bases), -1, np.int32)
        for one in np.unique(db).tolist():
            known = np.array([self._by_base.get((one, name), -1) for name in names] or [-1], np.int32)
            queue = np.where(db == one, known[code], queue).astype(np.int32)
        foreign = np.flatnonzero(queue < 0)
        split = [split_base(name, self.options.prefixes) for name in names]
        namespace, name = self.namespace_text(queue), self.queue_text(queue)
        if len(foreign):
            pick = pa.array(code[foreign])
            namespace = _put(namespace, foreign, pa.array([from_bytes(s.namespace) for s in split]).take(pick))
            name = _put(name, foreign, pa.array([from_bytes(s.queue) for s in split]).take(pick))
        # These come from JSON, which is text.
        return SplitKeys(queue, namespace, name, ids, pa.nulls(len(ids), pa.binary()))

    def _named(self, queue: Queues, ids: pa.Array, foreign: npt.NDArray[np.int64]) -> SplitKeys:
        namespace, name = self.namespace_text(queue), self.queue_text(queue)
        if len(foreign):
            # No queue of this evidence: the last colon parts base and id, as the library itself does.
            cuts = [key.rpartition(b":") for key in ids.take(pa.array(foreign)).to_pylist()]
            parts = [split_base(base, self.options.prefixes) for base, _, _ in cuts]
            namespace = _put(namespace, foreign, pa.array([from_bytes(p.namespace) for p in parts]))
            name = _put(name, foreign, pa.array([from_bytes(p.queue) for p in parts]))
            ids = _put(ids, foreign, pa.array([i for _, _, i in cuts], pa.binary()))
        return SplitKeys(queue, namespace, name, *self.text(ids))


class SplitKeys:
    """Job keys read as queue and id: `queue` is -1 where the evidence has no such queue.

    `exact` has the ids' bytes where their text is not.
    """

    def __init__(self, queue: Queues, namespace: pa.Array, name: pa.Array, job_id: pa.Array, exact: pa.Array) -> None:
        self.queue = queue
        self.namespace = namespace
        self.name = name
        self.job_id = job_id
        self.exact = exact

    @property
    def side(self) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array]:
        """As a side of a relation."""
        return self.namespace, self.name, self.job_id, self.exact


class _Words:
    """A word per queue, handed out as dictionary or plain arrays."""

    def __init__(self, words: list[str]) -> None:
        unique = sorted(set(words))
        place = {word: n for n, word in enumerate(unique)}
        self._words = pa.array(unique, pa.string())
        self._code = np.array([*(place[word] for word in words), 0], np.int32)

    def of(self, queue: Queues) -> pa.DictionaryArray:
        return pa.DictionaryArray.from_arrays(pa.array(self._code[queue]), self._words)

    def text(self, queue: Queues) -> pa.Array:
        """Null where `queue` is -1."""
        return self._words.take(pa.array(self._code[queue], mask=queue < 0))


def _put(values: pa.Array, at: npt.NDArray[np.int64], new: pa.Array) -> pa.Array:
    """`values` with those at `at` (ascending) replaced by `new`, in order."""
    mask = np.zeros(len(values), np.bool_)
    mask[at] = True
    return pc.replace_with_mask(values, pa.array(mask), new)


def times(values: npt.NDArray[np.int64], known: npt.NDArray[np.bool_]) -> pa.Array:
    """Millisecond timestamps, null where not known."""
    return pa.array(values, mask=~known).cast(MS)


def ends(expiry: pa.ChunkedArray) -> pa.Array:
    """Expiry of keys as timestamps; null: never, or later than any calendar."""
    values = numbers(expiry, np.int64)
    return times(values, valid(expiry) & (values >= EARLIEST_MS) & (values <= LATEST_MS))


def text_map(reading: Reading, rest: pa.MapArray) -> pa.MapArray:
    """A `rest` map with its values as text."""
    offsets = rest.offsets
    first = offsets[0].as_py() if len(offsets) else 0
    last = offsets[-1].as_py() if len(offsets) else 0
    keys = rest.keys.slice(first, last - first)
    values, _ = reading.text(rest.items.slice(first, last - first))
    return pa.MapArray.from_arrays(pc.subtract(offsets, pa.scalar(first, offsets.type)), keys, values)
