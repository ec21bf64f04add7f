"""Whether the units of times are those that are stored."""

from __future__ import annotations

from collections.abc import Sequence

from jobsleuth.dialects.described.records import Tally
from jobsleuth.dialects.description import Layout
from jobsleuth.errors import UsageError

_ENOUGH = 10
"""From so many values on, one key alone can show that its unit is another; fewer may be what was put there by hand."""


def require_units(layouts: Sequence[Layout], tallies: Sequence[Tally]) -> None:
    """Makes sure that most values of each time are times between 2000 and 2100: of each field of records, of the scores
    of each structure, and of those of each key that has many.

    Raises:
        UsageError: naming the file and the line that describes the unit.
    """
    for layout, tally in zip(layouts, tallies, strict=True):
        whole: dict[int, tuple[int, int]] = {}
        for time, read in tally.read.items():
            odd = tally.odd[time]
            if isinstance(time, str):
                source = layout.fields[time]
                _require(layout, time, source.unit, source.line, odd, read)
                continue
            structure = layout.structures[time[0]]
            before = whole.get(time[0], (0, 0))
            whole[time[0]] = (before[0] + odd, before[1] + read)
            if read >= _ENOUGH:
                _require(layout, f"{structure.name} in one key", structure.unit, structure.unit_line, odd, read)
        for nth, (odd, read) in whole.items():
            structure = layout.structures[nth]
            _require(layout, structure.name, structure.unit, structure.unit_line, odd, read)


def _require(layout: Layout, what: str, unit: str | None, line: int, odd: int, read: int) -> None:
    if odd * 2 > read:
        raise UsageError(
            f"line {line}: {odd:,} of {read:,} values of {what} are no times from 2000 to 2100 in the unit {unit}",
            file=layout.file,
            hint="units are s, ms, us, ns and iso",
        )
