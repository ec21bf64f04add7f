"""Which key plays which role in which queue: what a dialect says of a keyspace."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from jobsleuth.keyspace.facts import Remark


@dataclass(frozen=True)
class QueueRef:
    """One queue of one database.

    Attributes:
        db: Redis database number.
        namespace: what stands before the name (BullMQ's prefix; `asynq`), bytes as stored.
        queue: the name the library's user gave, bytes as stored.
        base: what the queue's keys begin with, without the separator, e.g. ``b"bull:emails"``.
    """

    db: int
    namespace: bytes
    queue: bytes
    base: bytes


@dataclass
class Claims:
    """A dialect's reading of all keys.

    `queue` and `role` are aligned with the rows of the keyspace's `keys` table.

    Attributes:
        dialect: the dialect's name.
        queues: the queues found.
        roles: role names; `role` holds indexes into it.
        queue: int32 per key: index into `queues`, -1 where the key belongs to no queue (it may still have a role, as a
            registry of servers has).
        role: int16 per key: index into `roles`, -1 where the dialect does not claim the key.
    """

    dialect: str
    queues: list[QueueRef]
    roles: list[str]
    queue: npt.NDArray[np.int32]
    role: npt.NDArray[np.int16]
    notes: dict[int, list[str]] = field(default_factory=dict)
    """Queue index → sentences on doubts of the claim (ambiguous prefix, nested names)."""
    remarks: list[Remark] = field(default_factory=list)
    """What whoever reads the evidence must know of how it was read; grows while the tables are made."""

    @classmethod
    def empty(cls, dialect: str, rows: int) -> Claims:
        """No claim at all over `rows` keys."""
        return cls(dialect, [], [], np.full(rows, -1, np.int32), np.full(rows, -1, np.int16))

    def settle(self) -> None:
        """To be called when all claims are made: where there is none, the arrays give way to one value for all keys,
        which cannot be written to."""
        if not (self.role >= 0).any():
            self.queue = np.broadcast_to(np.int32(-1), len(self.queue))
            self.role = np.broadcast_to(np.int16(-1), len(self.role))

    def role_code(self, name: str) -> int:
        """Index of the role `name`, added if new."""
        try:
            return self.roles.index(name)
        except ValueError:
            self.roles.append(name)
            return len(self.roles) - 1

    def rows_of(self, *roles: str) -> npt.NDArray[np.int64]:
        """Key rows that play one of the roles, ascending (that is, in file order)."""
        codes = [i for i, name in enumerate(self.roles) if name in roles]
        return np.flatnonzero(np.isin(self.role, codes)).astype(np.int64)
