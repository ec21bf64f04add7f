"""The one printer: reports, rows, errors and progress, to a terminal or a pipe.

Text from the evidence is escaped here at the latest and never read as markup. Colour and width are rich's business and
obey NO_COLOR; a pipe gets plain lines of any length.
"""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from jobsleuth.cli.options import RowFormat
from jobsleuth.errors import JobsleuthError
from jobsleuth.safetext import csv_cell, from_bytes, terminal

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from jobsleuth.pipeline import Progress
    from jobsleuth.reports import Line

_STYLES = {
    "plain": "",
    "strong": "bold",
    "dim": "dim",
    "ok": "green",
    "error": "bold red",
    "warning": "yellow",
    "info": "cyan",
    "command": "cyan",
}
_GAP = 3
_LEAST = 4
_CELL = 200
_STAGES = {
    "unpack": "unpacking",
    "index": "reading keys",
    "extract": "decoding jobs",
    "check": "checking",
    "compare": "comparing",
}


def console(stream: TextIO | None = None) -> Console:
    """A console that takes text as it is: no markup, no emoji codes, no guessed highlights."""
    from rich.console import Console

    return Console(file=stream or sys.stdout, highlight=False, markup=False, emoji=False, soft_wrap=True)


def width() -> int:
    """Columns to fill: the terminal's, or COLUMNS, or a comfortable number for a file."""
    from jobsleuth.reports import WIDTH

    return max(40, console().width) if _has_width() else WIDTH


def _has_width() -> bool:
    return sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()


def show(lines: Iterable[Line]) -> None:
    """Styled lines on standard output."""
    from rich.text import Text

    out = console()
    for line in lines:
        out.print(Text.assemble(*((text, _STYLES[style]) for text, style in line)), soft_wrap=True)


def write(pieces: Iterable[str]) -> None:
    """Ready-made text on standard output."""
    for piece in pieces:
        sys.stdout.write(piece)


def dump(value: Any) -> None:
    """One JSON value, ASCII only, so that no terminal obeys what is in it."""
    sys.stdout.write(json.dumps(value, indent=1) + "\n")


def rows(found: pa.Table, fmt: RowFormat, *, total: int | None = None, more: str = "") -> None:
    """Rows in the format wanted.

    Args:
        found: the rows.
        fmt: table, CSV, NDJSON or JSON.
        total: rows there are in all, where `found` holds only the first of them; a table says so.
        more: how to see the rest.
    """
    from jobsleuth.reports import jsonable, moment, records

    names = _distinct(found.column_names)
    if fmt is RowFormat.TABLE:
        _table(names, list(records(found, moment)), total, more)
        return
    values = records(found, lambda ms: moment(ms, iso=True))
    if fmt is RowFormat.CSV:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow([csv_cell(name) for name in names])
        writer.writerows([_csv(value) for value in row] for row in values)
        return
    objects = (dict(zip(names, map(jsonable, row), strict=True)) for row in values)
    write((f"{json.dumps(item)}\n" for item in objects) if fmt is RowFormat.NDJSON else _array(objects))


def table(names: Sequence[str], found: Sequence[Sequence[Any]]) -> None:
    """A small table of ready values."""
    _table(names, found, None, "")


def error(problem: JobsleuthError) -> None:
    """One line that says what, where and why; one that says what to do."""
    lines = [f"jobsleuth: {terminal(str(problem))}"]
    if problem.hint:
        lines.append(f"  {terminal(problem.hint[:1].upper() + problem.hint[1:])}")
    sys.stderr.write("\n".join(lines) + "\n")


def note(message: str) -> None:
    """One line beside the result, for what is odd but no error."""
    sys.stderr.write(f"jobsleuth: note: {terminal(message)}\n")


@contextmanager
def progress(quiet: bool) -> Iterator[Progress | None]:
    """A progress bar on standard error while the block runs, and only where somebody watches."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console(sys.stderr), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(_STAGES.get(stage, stage), total=total)
            bar.update(tasks[stage], completed=done, total=total)

        yield report


def _csv(value: Any) -> str | int | float | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, int | float):
        return value
    # For spreadsheets: exact bytes are in the JSON formats.
    return csv_cell(terminal(_text(value)))


def _distinct(names: Sequence[str]) -> list[str]:
    """Names that an object can have as members: a repeated one gets a number."""
    given: dict[str, int] = {}
    out = []
    for name in names:
        given[name] = given.get(name, 0) + 1
        out.append(name if given[name] == 1 else f"{name}:{given[name]}")
    return out


def _text(value: Any) -> str:
    from jobsleuth.reports import jsonable

    if isinstance(value, bytes):
        return from_bytes(value)
    return value if isinstance(value, str) else json.dumps(jsonable(value), ensure_ascii=False)


def _array(objects: Iterable[Any]) -> Iterator[str]:
    yield "["
    comma = ""
    for item in objects:
        yield f"{comma}\n {json.dumps(item)}"
        comma = ","
    yield "\n]\n"


def _table(names: Sequence[str], found: Sequence[Sequence[Any]], total: int | None, more: str) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from jobsleuth.reports import number

    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="dim")
    shown = [[Text(_cell(value)) for value in row] for row in found]
    heads = [Text(terminal(name)) for name in names]
    widths = [max(text.cell_len for text in column) for column in zip(heads, *shown, strict=True)]
    out = console()
    if _has_width():
        widths = _fitting(widths, out.width - _GAP * (len(widths) - 1))
    else:
        out.width = sum(widths) + _GAP * len(widths)
    for nth, (head, width) in enumerate(zip(heads, widths, strict=True)):
        kinds = {type(row[nth]) for row in found} - {type(None)}
        numeric = bool(kinds) and kinds <= {int, float}
        grid.add_column(head, justify="right" if numeric else "left", width=width, no_wrap=True, overflow="ellipsis")
    for texts in shown:
        grid.add_row(*texts)
    out.print(grid, soft_wrap=False)
    told = number(len(found), "row") if total in (None, len(found)) else f"{len(found):,} of {total:,} rows; {more}"
    out.print(Text(told, "dim"))


def _fitting(widths: list[int], available: int) -> list[int]:
    """The widest columns give way first, down to a few letters."""
    fitting = list(widths)
    while sum(fitting) > available and max(fitting) > _LEAST:
        fitting[fitting.index(max(fitting))] -= 1
    return fitting


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if not value.is_integer() or abs(value) > 1e15 else str(int(value))
    return terminal(_text(value), _CELL)
