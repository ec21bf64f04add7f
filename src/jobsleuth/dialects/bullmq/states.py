"""What the library's own `getState` would answer, from the structures an id is in; and scores decoded."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from jobsleuth.dialects.bullmq.grammar import DECIDING, STRUCTURES

STATES: tuple[str, ...] = (
    "completed",
    "failed",
    "delayed",
    "prioritized",
    "active",
    "waiting",
    "waiting-children",
    "unknown",
    "paused",
    "stuck",
)
"""Words of every release; the last two are Bull's own."""

Order = tuple[tuple[str, str], ...]

BULLMQ_ORDER: Order = (
    ("completed", "completed"),
    ("failed", "failed"),
    ("delayed", "delayed"),
    ("prioritized", "prioritized"),
    ("active", "active"),
    ("wait", "waiting"),
    ("paused", "waiting"),
    ("waiting-children", "waiting-children"),
)
"""(structure, answer) in the order of getState-8.lua and getStateV2-8.lua of 4.0.0 to 6.7.0: first match wins.

Earlier releases ask in the same order and know no `prioritized` (before 4.0.0) nor `waiting-children` (before 1.17.0),
structures that do not exist in their data; but 1.16 has `waiting-children` and answers `unknown` for its members.
"""

BULL_ORDER: Order = (
    ("completed", "completed"),
    ("failed", "failed"),
    ("delayed", "delayed"),
    ("active", "active"),
    ("wait", "waiting"),
    ("paused", "paused"),
)
"""The order of Bull 3 and 4, whose `paused` is a state of its own and whose word for none is `stuck`."""


def bit(structure: str) -> int:
    """The structure's bit in a membership mask."""
    return 1 << STRUCTURES.index(structure)


def _answers(order: Order, otherwise: str) -> list[int]:
    out = []
    for mask in range(1 << DECIDING):
        answer = next((state for structure, state in order if mask & bit(structure)), otherwise)
        out.append(STATES.index(answer))
    return out


_TABLE: npt.NDArray[np.int8] = np.array(
    [_answers(BULLMQ_ORDER, "unknown"), _answers(BULL_ORDER, "stuck")], dtype=np.int8
)
_DECIDING_MASK = (1 << DECIDING) - 1


def state_codes(mask: npt.NDArray[np.uint16], bull: npt.NDArray[np.bool_]) -> npt.NDArray[np.int8]:
    """Index into :data:`STATES` per id, from its membership mask and whether its queue is Bull's."""
    return np.asarray(_TABLE[bull.astype(np.int8), mask & _DECIDING_MASK])


EARLIEST_MS = -62_135_596_800_000
LATEST_MS = 253_402_300_799_999
"""Years 1 to 9999, what other programs can show as a date; no column of a case holds another moment."""

Moments = tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]


def moments(value: npt.NDArray[np.float64]) -> Moments:
    """(milliseconds, whether it is a moment a calendar has), fractions cut downwards."""
    with np.errstate(invalid="ignore"):
        floor = np.floor(value)
        good = (floor >= EARLIEST_MS) & (floor <= LATEST_MS)
    return np.where(good, floor, 0.0).astype(np.int64), good


def decode_scores(
    structure: npt.NDArray[np.int8], score: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """(due ms, due known, sequence, sequence known) per element.

    `delayed`: due = floor(score / 4096), the low 12 bits are the tie-breaker, in every release. Above 2^53 (due after
    2039-09-07) the stored double has lost its lowest bits: the due time is exact still, the tie-breaker approximate.
    `prioritized`: priority * 2^32 + counter; the low 32 bits are the counter. `completed`, `failed`,
    `waiting-children`, `repeat`, `marker`: plain milliseconds. `priority`: no time.
    """
    packed = structure == STRUCTURES.index("delayed")
    ranked = structure == STRUCTURES.index("prioritized")
    plain = np.isin(structure, [STRUCTURES.index(s) for s in ("completed", "failed", "waiting-children", "repeat")])
    marker = structure == STRUCTURES.index("marker")
    # Score 0 of a marker means "a job is ready", not a moment.
    plain |= marker & (score > 0)
    value = np.where(packed, np.floor(score / 4096.0), np.where(plain, score, np.nan))
    due, due_known = moments(value)
    with np.errstate(invalid="ignore"):
        low = np.where(packed, np.mod(score, 4096.0), np.where(ranked, np.mod(score, 4294967296.0), np.nan))
    sequence_known = np.isfinite(low)
    sequence = np.where(sequence_known, np.floor(low), 0.0).astype(np.int64)
    return due, due_known, sequence, sequence_known
