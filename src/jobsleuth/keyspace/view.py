"""The keyspace as dialects see it, whatever evidence it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jobsleuth.keyspace.asof import AsOf
from jobsleuth.keyspace.projection import Projected

Rows = npt.NDArray[np.int64]
"""Row numbers of the keys table, ascending."""


class Keyspace(Protocol):
    """All keys of one piece of evidence, and their values on request.

    Byte strings are Arrow `binary`; a *row* is a row number of :attr:`keys`. Values are decoded in parallel, in the
    order of the rows given (ascending), and arrive in batches of bounded size.
    """

    @property
    def as_of(self) -> AsOf:
        """When the evidence was taken."""
        ...

    @property
    def keys(self) -> pa.Table:
        """One row per key in file order: db int64, key binary, type dictionary<string>, encoding dictionary<string>,
        expire_at int64 (Unix ms, null: never), offset uint64, nbytes uint64, elements uint64 (null: not known)."""
        ...

    @property
    def live(self) -> npt.NDArray[np.bool_]:
        """Per key: not expired at the snapshot (all true when its time is not known). Not to be written to."""
        ...

    def find_prefix(self, values: pa.ChunkedArray, prefixes: Sequence[bytes]) -> npt.NDArray[np.int32]:
        """Per value the index of the longest of `prefixes` it starts with, -1 for none."""
        ...

    def find_suffix(self, values: pa.ChunkedArray, suffixes: Sequence[bytes]) -> npt.NDArray[np.int32]:
        """Per value the index of the longest of `suffixes` it ends with, -1 for none."""
        ...

    def cut(self, values: pa.ChunkedArray, head: npt.NDArray[np.int64], tail: npt.NDArray[np.int64]) -> pa.ChunkedArray:
        """Values without their first `head` and last `tail` bytes (per value; what is over the length gives empty)."""
        ...

    def to_text(self, values: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        r"""(text, exact): strings with `\xNN` for bytes that are not UTF-8, and the bytes of just those values."""
        ...

    def lookup(
        self,
        prefixes: Sequence[tuple[int, bytes]],
        code: npt.NDArray[np.int32],
        middle: pa.ChunkedArray,
        suffix: bytes = b"",
    ) -> Rows:
        """Row of the key ``prefixes[code].bytes + middle + suffix`` in database ``prefixes[code].db``, per value; -1
        where no such key exists (or code is -1). Expired keys count as present; see :attr:`live`."""
        ...

    def records(self, rows: Rows, fields: tuple[Projected, ...], rest: bool = True) -> pa.RecordBatchReader:
        """Hashes as one row each: `row` int64, the projected columns, `rest` map<string, binary>.

        Without `rest` only the fields asked for are kept, for a look at hashes that are read whole elsewhere.

        A key of another type gives a row with every column null.
        """
        ...

    def elements(self, rows: Rows) -> pa.RecordBatchReader:
        """Elements of lists, sets, zsets and hashes: `row` int64, `position` int64 (from the head of a list; rank from
        the lowest score of a zset; storage order else), `member` binary, `score` float64 (zset), `value` binary (hash),
        `field_expire_at` int64 (hash field expiry, Unix ms)."""
        ...

    def strings(self, rows: Rows, limit: int | None = None) -> pa.RecordBatchReader:
        """String values: `row` int64, `value` binary (cut to `limit` bytes), `size` int64."""
        ...

    def stream_entries(self, rows: Rows, fields: tuple[Projected, ...]) -> pa.RecordBatchReader:
        """Stream entries, oldest first: `row` int64, `ms` uint64, `seq` uint64, the projected columns, `rest`."""
        ...

    def stream_groups(self, rows: Rows) -> pa.RecordBatchReader:
        """Facts about streams: `row` int64, `part` int8, and what that part has, else null; ids are uint64 pairs.

        0, a stream, before its groups: `ms`, `seq` its last id, `count` entries it holds; since Redis 7.0 also
        `first_ms`, `first_seq`, `deleted_ms`, `deleted_seq` (the largest id deleted by command), `added` (in all).
        1, a group: `group` its number in the stream from 0, `name`, `ms`, `seq` the last id delivered, `count` entries
        read (since 7.0, where the server knew it).
        2, a pending entry of that group, by id: `ms`, `seq`, `name` its consumer (null: handed back, Redis 8.8),
        `time` of the latest delivery (Unix ms), `count` deliveries.
        3, a consumer of that group: `name`, `time` last seen, `active` last active (since 7.2; null: never), `count`
        of its pending entries.
        """
        ...
