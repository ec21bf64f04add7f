"""What a dialect is: queue knowledge in two steps, claim and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jobsleuth.dialects.description import Layout
from jobsleuth.keyspace import Claims, Keyspace


@dataclass(frozen=True)
class Options:
    """What the user decided about a run, as far as dialects care.

    Attributes:
        payload_limit: bytes of each payload kept; None: all, 0: none.
        prefixes: namespaces the user settled (BullMQ `--prefix`), bytes.
        acknowledged: whether entries of streams that their group is done with become rows of `jobs` too.
        layouts: home-made layouts that the user described.
        lists: layouts of plain lists that the user gave in place of the built-in ones; None: those.
    """

    payload_limit: int | None = None
    prefixes: tuple[bytes, ...] = ()
    acknowledged: bool = False
    layouts: tuple[Layout, ...] = ()
    lists: tuple[Layout, ...] | None = None


@dataclass(frozen=True)
class RecordKey:
    """A key that stands for one job: what the steps call it, and where the id stands in its name.

    Attributes:
        name: the place's name in `transitions`, e.g. `record`.
        infix: what stands between the queue's base and the id.
        suffix: what follows the id.
    """

    name: str
    infix: bytes
    suffix: bytes = b""


@dataclass(frozen=True)
class Story:
    """How a dialect's keys tell the moves of its jobs, for evidence that holds every command.

    A dialect that has one offers it as its attribute `story`.

    Attributes:
        structures: role → structure, where the members of the key are ids.
        records: role → key of one job, which comes and goes.
        moving: structures that a job moves between; leaving one and entering another at once is one step.
        markers: members that are no ids; with `:` at the end, all that begin so.
    """

    structures: Mapping[str, str]
    records: Mapping[str, RecordKey]
    moving: frozenset[str]
    markers: tuple[bytes, ...] = ()

    def is_marker(self, members: pa.Array) -> npt.NDArray[np.bool_]:
        """Per member, whether it is no id."""
        found = np.zeros(len(members), np.bool_)
        for marker in self.markers:
            if marker.endswith(b":"):
                same = pc.starts_with(members, pattern=marker)
            else:
                same = pc.equal(members, pa.scalar(marker, members.type))
            found |= same.to_numpy(zero_copy_only=False)
        return found


class Dialect(Protocol):
    """One queue library's way of storing jobs.

    A dialect sees the whole keyspace, never bytes of the evidence, and never another dialect.
    """

    name: str
    """Stable short name, the value of the `dialect` column."""
    title: str
    """The library's name for people."""

    def claim(self, keyspace: Keyspace, free: npt.NDArray[np.bool_], options: Options) -> Claims:
        """Names queue and role of every key that is the dialect's own.

        Args:
            keyspace: all keys of one piece of evidence.
            free: per key, whether no earlier dialect claimed it; only these may be claimed.
            options: the user's decisions.
        """
        ...

    def tables(
        self, keyspace: Keyspace, claims: Claims, options: Options
    ) -> Iterator[tuple[str, pa.Table | pa.RecordBatch]]:
        """Rows for the case tables, as (table name, columns the dialect knows), in any order, in bounded pieces.

        `evidence` is filled in by the caller. May refine `claims.role` while it runs (a hash turns out to be a
        scheduler): the keys table is written last.
        """
        ...
