"""Rows as a table that fits the terminal: what cannot be read when cut is whole or not there at all."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_GAP = 3
_FIRM = 40
"""Cells up to which ids and keys stay whole (in a narrow window half of it): half a number, time or UUID tells nothing,
and cannot be typed."""
_SOFT = 12
"""Cells that are left of other texts."""


def draw(
    out: Console,
    names: Sequence[Text],
    rows: Sequence[Sequence[Text]],
    *,
    firm: Collection[int],
    right: Collection[int],
    empty: Collection[int],
    width: int | None,
) -> tuple[list[int], list[int]]:
    """Prints a table; gives the columns that were left out because they are empty, and those for want of room.

    Args:
        out: where to.
        names: heads of the columns.
        rows: cells, escaped already.
        firm: columns that stay whole.
        right: columns that stand to the right.
        empty: columns that have no value in any row.
        width: cells to fill; None: as many as it takes.
    """
    from rich import box
    from rich.table import Table

    natural = [max(text.cell_len for text in column) for column in zip(names, *rows, strict=True)]
    kept, bare = list(range(len(names))), []
    crowded: list[int] = []
    widths = dict(enumerate(natural))
    if width is not None and sum(natural) + _GAP * (len(natural) - 1) > width:
        bare = [nth for nth in kept if nth in empty]
        kept = [nth for nth in kept if nth not in empty]
        most = max(_SOFT, min(_FIRM, width // 2))
        least = {nth: min(natural[nth], most if nth in firm else _SOFT) for nth in kept}
        while len(kept) > 1 and sum(least[nth] for nth in kept) + _GAP * (len(kept) - 1) > width:
            crowded.insert(0, kept.pop())
        widths = _fitted({nth: natural[nth] for nth in kept}, least, width - _GAP * (len(kept) - 1))
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="dim")
    for nth in kept:
        justify: Any = "right" if nth in right else "left"
        grid.add_column(names[nth], justify=justify, width=widths[nth], no_wrap=True, overflow="ellipsis")
    for row in rows:
        grid.add_row(*(row[nth] for nth in kept))
    if width is None:
        out.width = sum(natural) + _GAP * len(natural)
    out.print(grid, soft_wrap=False)
    return bare, crowded


def _fitted(widths: dict[int, int], least: dict[int, int], available: int) -> dict[int, int]:
    """The widest columns give way first, none below what it needs; a single one that is too wide is cut."""
    fitting = dict(widths)
    while sum(fitting.values()) > available:
        spare = [nth for nth in fitting if fitting[nth] > least[nth]]
        widest = max(spare or fitting, key=lambda nth: fitting[nth])
        if fitting[widest] <= 1:
            break
        fitting[widest] -= 1
    return fitting
