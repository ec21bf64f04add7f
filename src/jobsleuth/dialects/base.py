"""What a dialect is: queue knowledge in two steps, claim and tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jobsleuth.keyspace import Claims, Keyspace


@dataclass(frozen=True)
class Options:
    """What the user decided about a run, as far as dialects care.

    Attributes:
        payload_limit: bytes of each payload kept; None: all, 0: none.
        prefixes: namespaces the user settled (BullMQ `--prefix`), bytes.
    """

    payload_limit: int | None = None
    prefixes: tuple[bytes, ...] = ()


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
