"""The keys table: what the index found, with what the dialects made of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jobsleuth import safetext
from jobsleuth.keyspace import Claims, Keyspace, Remark

_LAST_MS = 253_402_300_799_999
"""End of the year 9999: the latest time that a case holds."""
_PLAIN = ("db", "type", "encoding", "offset", "nbytes", "elements")


def timeless(keyspace: Keyspace) -> Remark | None:
    """What to say of expiry times that no calendar has, and that the table therefore shows as none."""
    times = keyspace.keys.column("expire_at")
    bad = pc.or_(pc.less(times, 0), pc.greater(times, _LAST_MS))
    count = pc.sum(bad).as_py()
    if not count:
        return None
    first = keyspace.keys.column("offset")[pc.index(bad, True).as_py()].as_py()
    message = (
        f"{count:,} keys expire before 1970 or after the year 9999; what is off the calendar is null in the tables"
    )
    return Remark("expiry_out_of_range", message, first, count)


class _Labels:
    """One dictionary column over all dialects, made for some rows at a time.

    Args:
        names: the words that each dialect numbers, in the order of the dialects.
    """

    def __init__(self, names: Sequence[Sequence[str]]) -> None:
        known: dict[str, int] = {}
        self._shared = [np.array([known.setdefault(n, len(known)) for n in own], np.int32) for own in names]
        self._words = pa.array(list(known), pa.string())

    def column(self, codes: Iterable[tuple[npt.NDArray[np.bool_], npt.NDArray[np.integer]]], rows: int) -> pa.Array:
        """Per dialect the rows that it labels and the numbers of its words."""
        out = np.full(rows, -1, np.int32)
        for (where, code), shared in zip(codes, self._shared, strict=True):
            if where.any():
                out[where] = shared[code[where]]
        return pa.DictionaryArray.from_arrays(pa.array(out, mask=out < 0), self._words)


def key_batches(keyspace: Keyspace, claims: Sequence[Claims]) -> Iterator[pa.RecordBatch]:
    """Rows of the keys table, in file order, a bounded batch at a time."""
    keys = keyspace.keys
    dialects = _Labels([[made.dialect] for made in claims])
    roles = _Labels([made.roles for made in claims])
    namespaces = _Labels([[safetext.from_bytes(q.namespace) for q in made.queues] for made in claims])
    names = _Labels([[safetext.from_bytes(q.queue) for q in made.queues] for made in claims])
    live = keyspace.live
    timed = keyspace.as_of.ms is not None
    at = 0
    for batch in keys.to_batches():
        text, exact = keyspace.to_text(pa.chunked_array([batch.column("key")]))
        columns: dict[str, pa.Array | pa.ChunkedArray] = {name: batch.column(name) for name in _PLAIN}
        columns["key"] = text.combine_chunks()
        columns["key_bytes"] = exact.combine_chunks()
        columns["expire_at"] = batch.column("expire_at").view(pa.timestamp("ms", tz="UTC"))
        columns["expired"] = (
            pa.array(~live[at : at + batch.num_rows]) if timed else pa.nulls(batch.num_rows, pa.bool_())
        )
        here = slice(at, at + batch.num_rows)
        placed = [(made.role[here] >= 0, made.role[here]) for made in claims]
        owned = [
            (with_role & (made.queue[here] >= 0), made.queue[here])
            for made, (with_role, _) in zip(claims, placed, strict=True)
        ]
        columns["dialect"] = dialects.column(((rows, np.zeros_like(role)) for rows, role in placed), batch.num_rows)
        columns["role"] = roles.column(placed, batch.num_rows)
        columns["namespace"] = namespaces.column(owned, batch.num_rows)
        columns["queue"] = names.column(owned, batch.num_rows)
        yield pa.RecordBatch.from_pydict(columns)
        at += batch.num_rows
