"""What streams say of their groups, pending entries and consumers, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jobsleuth.keyspace import Keyspace, Rows

STREAM, GROUP, PENDING, CONSUMER = range(4)
"""What a row of :meth:`jobsleuth.keyspace.Keyspace.stream_groups` speaks of."""
UNKNOWN = -1
"""A count that the file does not tell."""

_U64 = npt.NDArray[np.uint64]
_I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Ids:
    """Entry ids, each two numbers."""

    ms: _U64
    seq: _U64

    def take(self, at: npt.NDArray[Any]) -> Ids:
        """The ids at these places."""
        return Ids(self.ms[at], self.seq[at])

    def after(self, other: Ids) -> npt.NDArray[np.bool_]:
        """Per id, whether it is larger than the other."""
        return np.asarray((self.ms > other.ms) | ((self.ms == other.ms) & (self.seq > other.seq)))

    def zero(self) -> npt.NDArray[np.bool_]:
        """Per id, whether it is 0-0."""
        return np.asarray((self.ms == 0) & (self.seq == 0))


@dataclass(frozen=True)
class Streams:
    """Per stream with a group: its key's row, last id, first id and largest deleted id, entries there and ever added.

    Before Redis 7.0 a file has neither first nor deleted id (0-0), nor `added` (:data:`UNKNOWN`).
    """

    row: Rows
    last: Ids
    first: Ids
    deleted: Ids
    length: _I64
    added: _I64


@dataclass(frozen=True)
class Groups:
    """Per group: number of its stream in :class:`Streams`, name, last id delivered, entries read or UNKNOWN."""

    stream: _I64
    name: pa.Array
    last: Ids
    read: _I64


@dataclass(frozen=True)
class Pending:
    """Per pending entry, by group and id: its group, id, consumer (null: handed back), latest delivery (Unix ms) and
    number of deliveries."""

    group: _I64
    id: Ids
    consumer: pa.Array
    time: _I64
    count: _I64


@dataclass(frozen=True)
class Consumers:
    """Per consumer: its group, name, when last seen and active (Unix ms, UNKNOWN: never or not told), entries held."""

    group: _I64
    name: pa.Array
    seen: _I64
    active: _I64
    count: _I64


@dataclass(frozen=True)
class Facts:
    """All of it, streams in file order."""

    streams: Streams
    groups: Groups
    pending: Pending
    consumers: Consumers

    @classmethod
    def read(cls, keyspace: Keyspace, rows: Rows) -> Facts:
        """Reads the streams of these key rows; those without a group are left out."""
        table = pa.Table.from_batches(reader := keyspace.stream_groups(rows), reader.schema)
        part = table.column("part").to_numpy()
        key_row = table.column("row").to_numpy()
        number = np.where(part == GROUP, 1, 0).cumsum() - 1
        at = {code: np.flatnonzero(part == code) for code in (STREAM, GROUP, PENDING, CONSUMER)}
        grouped = np.unique(key_row[at[GROUP]])
        at[STREAM] = at[STREAM][np.isin(key_row[at[STREAM]], grouped)]

        def numbers(name: str, places: npt.NDArray[Any]) -> _I64:
            values = table.column(name).take(pa.array(places)).fill_null(pa.scalar(UNKNOWN, pa.int64()))
            return np.asarray(values.to_numpy(), np.int64)

        def ids(name: str, places: npt.NDArray[Any]) -> Ids:
            pair = [table.column(f"{name}{half}").take(pa.array(places)).fill_null(0) for half in ("ms", "seq")]
            return Ids(*(np.asarray(half.to_numpy(), np.uint64) for half in pair))

        def words(places: npt.NDArray[Any]) -> pa.Array:
            return table.column("name").take(pa.array(places)).combine_chunks()

        added = table.column("added").take(pa.array(at[STREAM]))
        # More than a signed number holds is no count but damage.
        counted = np.where(added.is_valid().to_numpy(), np.minimum(added.fill_null(0).to_numpy(), 1 << 62), 0)
        return cls(
            Streams(
                key_row[at[STREAM]],
                ids("", at[STREAM]),
                ids("first_", at[STREAM]),
                ids("deleted_", at[STREAM]),
                numbers("count", at[STREAM]),
                np.where(added.is_valid().to_numpy(), counted.astype(np.int64), UNKNOWN),
            ),
            Groups(
                np.searchsorted(key_row[at[STREAM]], key_row[at[GROUP]]).astype(np.int64),
                words(at[GROUP]),
                ids("", at[GROUP]),
                numbers("count", at[GROUP]),
            ),
            Pending(
                number[at[PENDING]],
                ids("", at[PENDING]),
                words(at[PENDING]),
                numbers("time", at[PENDING]),
                numbers("count", at[PENDING]),
            ),
            Consumers(
                number[at[CONSUMER]],
                words(at[CONSUMER]),
                numbers("time", at[CONSUMER]),
                numbers("active", at[CONSUMER]),
                numbers("count", at[CONSUMER]),
            ),
        )
