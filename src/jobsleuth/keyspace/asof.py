"""The moment that ages, locks and leases are judged against: the snapshot's, never the clock's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AsOf:
    """When the evidence was taken, in Unix milliseconds.

    Attributes:
        ms: the moment (for an interval its end); None when the evidence does not say and the user did not either.
        source: where it comes from: `ctime` (RDB AUX field, whole seconds), `export` (an export says it), `window` (the
            end of the time that an export took), `annotation` (the last time noted in an append-only file), `until`
            (the moment up to which one was replayed), `option`, or `unknown`.
        atomic: whether the evidence shows one instant (an RDB does).
        from_ms: beginning of the interval where the evidence is smeared over time; else None.
    """

    ms: int | None
    source: str
    atomic: bool = True
    from_ms: int | None = None
