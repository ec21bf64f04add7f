"""Where a task is: the structures that decide it, the one that acts first before the others.

An id may stand in several structures of a damaged queue. Background movers trust structures, never the hash's `state`,
so what happens next follows the structure that is served first (NOTES.md, "Two truths").
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

STATES = ("active", "pending", "retry", "scheduled", "aggregating", "archived", "completed", "unknown")
"""State names in the order of precedence; a state's index is its rank."""

UNKNOWN = len(STATES) - 1

STRUCTURES = (
    "active", "pending", "retry", "scheduled", "group", "aggregation_set", "archived", "completed",
    "lease", "deadlines", "backup",
)  # fmt: skip
"""What holds tasks, in the order of precedence; the roles of the keys have the same names."""

IDS = STRUCTURES[: STRUCTURES.index("backup")]
"""Structures whose elements are task ids. A backup of the library's `migrate` command holds whole messages, always."""

_RANK_OF = {
    "active": 0, "pending": 1, "retry": 2, "scheduled": 3, "group": 4, "aggregation_set": 4, "archived": 5,
    "completed": 6, "lease": UNKNOWN, "deadlines": UNKNOWN,
    "backup": UNKNOWN,
}  # fmt: skip

RANKS: npt.NDArray[np.int8] = np.array([_RANK_OF[name] for name in STRUCTURES], np.int8)
"""Structure index → rank of the state that membership makes; `UNKNOWN` where it makes none."""

NOWHERE = STRUCTURES.index("lease")
"""Stands for the structure of a task that none holds: structures before it make the state, the first one wins."""

LISTS = ("active", "pending")
"""Structures that are lists; the others are zsets."""
