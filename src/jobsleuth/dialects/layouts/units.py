"""Whether the units of times are those that are stored."""

from __future__ import annotations

from collections.abc import Sequence

from jobsleuth.dialects.described.records import Times
from jobsleuth.dialects.description import Layout
from jobsleuth.errors import UsageError


def require_units(layouts: Sequence[Layout], times: Sequence[Times]) -> None:
    """Makes sure that most values of each time field are times between 2000 and 2100.

    Raises:
        UsageError: naming the file and the line that describes the field.
    """
    for layout, counted in zip(layouts, times, strict=True):
        for column, read in counted.read.items():
            if counted.odd[column] * 2 <= read:
                continue
            source = layout.fields.get(column)
            unit, line = (source.unit, source.line) if source else _of_structure(layout, column)
            raise UsageError(
                f"line {line}: {counted.odd[column]:,} of {read:,} values of {column} are no times from 2000 to 2100"
                f" in the unit {unit}",
                file=layout.file,
                hint="units are s, ms, us, ns and iso",
            )


def _of_structure(layout: Layout, name: str) -> tuple[str | None, int]:
    found = next(s for s in layout.structures if s.name == name and s.unit is not None)
    return found.unit, found.line
