"""The keys table: what the index found, with what the dialects made of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jobsleuth import safetext
from jobsleuth.keyspace import Claims, Keyspace, Remark

_LAST_MS = 253_402_300_799_999
"""End of the year 9999: the latest time that a case holds."""
_PLAIN = ("db", "type", "encoding", "offset", "nbytes", "elements")


def unclaimed(rows: int, claims: Sequence[Claims]) -> npt.NDArray[np.bool_]:
    """Per key: no dialect claims it."""
    free = np.ones(rows, dtype=np.bool_)
    for made in claims:
        free &= made.role < 0
    return free


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
    """One dictionary column over all dialects: codes per key, -1 for null."""

    def __init__(self, rows: int) -> None:
        self._known: dict[str, int] = {}
        self.codes = np.full(rows, -1, np.int32)

    def put(self, where: npt.NDArray[np.bool_], code: npt.NDArray[np.integer], names: Sequence[str]) -> None:
        if names:
            shared = np.array([self._code(name) for name in names], np.int32)
            self.codes[where] = shared[code[where]]

    def _code(self, name: str) -> int:
        return self._known.setdefault(name, len(self._known))

    def column(self, at: int, rows: int) -> pa.DictionaryArray:
        codes = self.codes[at : at + rows]
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), pa.array(list(self._known), pa.string()))


def key_batches(keyspace: Keyspace, claims: Sequence[Claims]) -> Iterator[pa.RecordBatch]:
    """Rows of the keys table, in file order, a bounded batch at a time."""
    keys = keyspace.keys
    labels = {name: _Labels(keys.num_rows) for name in ("dialect", "namespace", "queue", "role")}
    for made in claims:
        placed = made.role >= 0
        owned = placed & (made.queue >= 0)
        labels["dialect"].put(placed, np.zeros(keys.num_rows, np.int32), [made.dialect])
        labels["role"].put(placed, made.role, made.roles)
        labels["namespace"].put(owned, made.queue, [safetext.from_bytes(q.namespace) for q in made.queues])
        labels["queue"].put(owned, made.queue, [safetext.from_bytes(q.queue) for q in made.queues])
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
        for name, label in labels.items():
            columns[name] = label.column(at, batch.num_rows)
        yield pa.RecordBatch.from_pydict(columns)
        at += batch.num_rows
