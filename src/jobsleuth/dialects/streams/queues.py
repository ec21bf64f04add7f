"""Rows of `queues`: what groups and their streams count, and what follows from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jobsleuth.dialects.rows import COUNTS, Places, constant, times
from jobsleuth.dialects.streams.entries import STATES, Entries, sortable
from jobsleuth.dialects.streams.facts import UNKNOWN, Facts, Ids

_Ints = npt.NDArray[np.int64]


def queues(facts: Facts, places: Places, entries: Entries) -> pa.Table:
    """One row a group; after the entries were read."""
    groups, streams = facts.groups, facts.streams
    of = groups.stream
    number = np.arange(len(of))
    seen = _most(facts.consumers.group, np.maximum(facts.consumers.seen, facts.consumers.active), len(of))
    delivered = _most(facts.pending.group, facts.pending.time, len(of))
    lost, certain = lost_unread(facts, entries.lag)
    behind, witnessed = _behind_first(facts)
    columns: dict[str, _Ints] = {
        "length": streams.length[of],
        "entries_added": streams.added[of],
        "entries_read": groups.read,
        "lag": entries.lag,
        "lost_unread": np.where(certain, lost, UNKNOWN),
        "pending": np.bincount(facts.pending.group, minlength=len(of)),
        "pending_deleted": entries.deleted,
        "oldest_pending_ms": _least(*_held_since(facts), len(of)),
        "consumers": np.bincount(facts.consumers.group, minlength=len(of)),
        # Facts of ids that no count can tell, 1 or not there.
        "behind_first": np.where(behind, 1, UNKNOWN),
        "unread_existed": np.where(behind & witnessed, 1, UNKNOWN),
        "deleted": np.where(streams.deleted.zero()[of], UNKNOWN, 1),
        "unread_deleted": np.where(_by_command(facts), 1, UNKNOWN),
        "beyond_end": np.where(groups.last.after(streams.last.take(of)), 1, UNKNOWN),
        "never_read": np.where(groups.last.zero(), 1, UNKNOWN),
    }
    since_7 = streams.added[of] != UNKNOWN
    return pa.table(
        {
            **places.columns(number),
            "layout": constant("redis stream", len(of)),
            "layout_why": pa.array(["a consumer group" + ("" if s else ", before Redis 7.0") for s in since_7]),
            "paused": pa.array(np.zeros(len(of), np.bool_)),
            "counts": pa.array([_pairs(STATES, row) for row in entries.counts.tolist()], COUNTS),
            "oldest_waiting_at": times(entries.oldest),
            "last_activity_at": times(np.maximum.reduce([entries.newest, seen, delivered])),
            "last_worker_sign_at": times(np.maximum(seen, delivered)),
            "counters": pa.array(
                [
                    [(name, value) for name, value in zip(columns, row, strict=True) if value != UNKNOWN]
                    for row in np.column_stack(list(columns.values())).tolist()
                ],
                COUNTS,
            ),
        }
    )


def lost_unread(facts: Facts, lag: _Ints) -> tuple[_Ints, npt.NDArray[np.bool_]]:
    """(entries that were removed before the group read them, whether that is known) per group.

    What was added and not read is either still there, after the last id delivered, or gone. The server keeps `read`
    itself since 7.0, and forgets it where a deletion makes it doubtful.
    """
    added = facts.streams.added[facts.groups.stream]
    known = (added != UNKNOWN) & (facts.groups.read != UNKNOWN) & (facts.groups.read <= added)
    lost = added - facts.groups.read - lag
    return np.maximum(lost, 0), known & (lost >= 0)


def _behind_first(facts: Facts) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Per group, whether something may have been removed between the last id it was delivered and the first one there,
    and whether an id between them is known.

    A group may be put anywhere (``$``), so that entries were removed says nothing of those after its last id. Where
    entries were deleted and none after that id, what is gone was deleted behind the group, as by consumers that delete
    what they finished. Only ids that other groups were given, or that were deleted, show that there was something, and
    the stream's own last id where nothing is there any more. A group that was never given an entry stands before all
    that was ever there; was nothing deleted by command, something was trimmed away.
    """
    streams, of = facts.streams, facts.groups.stream
    last, first, deleted = facts.groups.last, streams.first.take(of), streams.deleted.take(of)
    removed = (streams.added[of] != UNKNOWN) & (streams.added[of] > streams.length[of])
    empty = streams.length[of] == 0
    gap = removed & np.where(empty, streams.last.take(of).after(last), first.after(last))
    witnessed = gap & (empty | (deleted.after(last) & first.after(deleted)))
    if gap.any():
        pending = facts.pending
        given = Ids(np.concatenate([last.ms, pending.id.ms]), np.concatenate([last.seq, pending.id.seq]))
        known = np.sort(sortable(np.concatenate([of, of[pending.group]]), given))
        # Ids of the stream up to the last one, against those before the first: one more is in between.
        up_to = np.searchsorted(known, sortable(of, last), side="right")
        witnessed |= gap & (np.searchsorted(known, sortable(of, first), side="left") > up_to)
    witnessed = np.where(last.zero(), gap & deleted.zero(), witnessed)
    behind: npt.NDArray[np.bool_] = gap & (witnessed | deleted.zero() | last.zero())
    return behind, witnessed


def _by_command(facts: Facts) -> npt.NDArray[np.bool_]:
    """Per group, whether all that it did not read and that is gone may have been deleted by command: what was deleted
    lies after its last id, or the stream does not begin after that id, so that nothing need have been trimmed."""
    streams, of = facts.streams, facts.groups.stream
    deleted, first = streams.deleted.take(of), streams.first.take(of)
    return deleted.after(facts.groups.last) | (~deleted.zero() & ~first.after(facts.groups.last))


def _held_since(facts: Facts) -> tuple[_Ints, _Ints]:
    """Group and time of the latest delivery of pending entries that somebody holds."""
    held = facts.pending.consumer.is_valid().to_numpy(zero_copy_only=False)
    return facts.pending.group[held], facts.pending.time[held]


def _most(group: _Ints, values: _Ints, groups: int) -> _Ints:
    out = np.full(groups, UNKNOWN, np.int64)
    np.maximum.at(out, group, values)
    return out


def _least(group: _Ints, values: _Ints, groups: int) -> _Ints:
    never = np.iinfo(np.int64).max
    out = np.full(groups, never, np.int64)
    real = values >= 0
    np.minimum.at(out, group[real], values[real])
    return np.where(out == never, UNKNOWN, out)


def _pairs(words: Any, counts: list[int]) -> list[tuple[str, int]]:
    return [(word, count) for word, count in zip(words, counts, strict=True) if count]
