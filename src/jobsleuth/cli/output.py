"""The one printer: reports, rows, errors and progress, to a terminal or a pipe.

Text from the evidence is escaped here at the latest and never read as markup. Colour and width are rich's business and
obey NO_COLOR; a pipe gets plain lines of any length.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from jobsleuth.beside import hidden
from jobsleuth.cli.options import RowFormat
from jobsleuth.errors import JobsleuthError, UsageError
from jobsleuth.safetext import as_json, csv_cell, from_bytes, terminal

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
_CELL = 200
_TOLD = 6
"""Columns that a table names of those it does not show."""
_ROOM = "check that its folder is writable and the disk has room, or choose another place with --out"
_PATIENCE = 1.0
"""Seconds of silence before progress is shown."""
_STAGES = {
    "unpack": ("unpacking", "bytes"),
    "convert": ("replaying", "bytes"),
    "index": ("reading keys", "bytes"),
    "extract": ("decoding jobs", "jobs"),
    "check": ("checking", "checks"),
    "compare": ("comparing", "bytes"),
}
"""Stage → what is being done, and what its numbers count."""


def open_streams() -> None:
    """Standard output and error that were closed by the caller take what is written and lose it."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115


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
    sys.stdout.write(as_json(value, 1) + "\n")


def rows(
    found: pa.Table | pa.RecordBatchReader,
    fmt: RowFormat,
    *,
    total: int | None = None,
    more: str = "",
    quiet: bool = False,
    out: BinaryIO | None = None,
) -> None:
    """Rows in the format wanted, on standard output.

    Args:
        found: the rows; a reader gives them piece by piece, so that there may be millions.
        fmt: table, CSV, NDJSON, JSON or Parquet.
        total: rows there are in all, where `found` holds only the first of them; a table says so.
        more: how to see the rest.
        quiet: a table without its last line.
        out: write there instead.

    Raises:
        UsageError: Parquet for a terminal.
    """
    from jobsleuth.reports import jsonable, moment, records

    names = _distinct(found.schema.names)
    if fmt is RowFormat.PARQUET:
        _parquet(found, names, out)
        return
    if fmt is RowFormat.TABLE:
        times = {nth for nth, field in enumerate(found.schema) if str(field.type).startswith("timestamp")}
        _table(names, list(records(found, moment)), total, more, quiet, times)
        return
    values = records(found, lambda ms: moment(ms, iso=True))
    objects = (dict(zip(names, map(jsonable, row), strict=True)) for row in values)
    pieces: Iterable[str]
    if fmt is RowFormat.CSV:
        pieces = _csv_lines(names, values)
    elif fmt is RowFormat.NDJSON:
        pieces = (f"{as_json(item)}\n" for item in objects)
    else:
        pieces = array(objects)
    if out is None:
        write(pieces)
    else:
        out.writelines(piece.encode("utf-8") for piece in pieces)


def csv_rows(names: Sequence[str], found: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Lines of CSV that a spreadsheet shows and does not run."""
    return _csv_lines(names, found)


def table(names: Sequence[str], found: Sequence[Sequence[Any]], quiet: bool = False) -> None:
    """A small table of ready values."""
    _table(names, found, None, "", quiet)


def error(problem: JobsleuthError) -> None:
    """One line that says what, where and why; one that says what to do."""
    lines = [f"jobsleuth: {terminal(str(problem))}"]
    if problem.hint:
        lines.append(f"  {terminal(_sentence(problem.hint))}")
    sys.stderr.write("\n".join(lines) + "\n")


def _sentence(hint: str) -> str:
    """The hint with a capital letter, unless it begins with a command to type."""
    return hint if hint.startswith(("jobsleuth ", "pip ")) else hint[:1].upper() + hint[1:]


def unwritten(problem: OSError) -> JobsleuthError:
    """What to say when standard output does not take what is written: the error itself names no file."""
    return JobsleuthError(
        f"standard output cannot be written: {problem.strerror or problem}",
        hint="nothing more was written; what was written before may be cut",
    )


def note(message: str) -> None:
    """One line beside the result, for what is odd but no error."""
    sys.stderr.write(f"jobsleuth: note: {terminal(message)}\n")


@contextmanager
def new_file(path: Path, *, force: bool = False) -> Iterator[BinaryIO]:
    """A file that is at `path` once the block ended well, whole or not at all.

    A link to a file stays a link. A device or a pipe is never replaced: `--force` on /dev/null would break the machine.

    Raises:
        UsageError: there is something, and `force` was not given or it is no file.
    """
    if os.path.lexists(path) and not path.is_file():
        what = "a folder" if path.is_dir() else "a device or a pipe" if path.exists() else "a link to nothing"
        hint = "without --out the result goes to standard output" if path.exists() else "name the file itself"
        raise UsageError(f"the output is {what}", file=str(path), hint=hint)
    if os.path.lexists(path) and not force:
        raise UsageError("the output exists", file=str(path), hint="choose another name, or give --force")
    given, path = path, Path(os.path.realpath(path))
    partial = hidden(path, "partial")
    try:
        with partial.open("xb") as file:
            yield file
        partial.replace(path)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        # A write to an open file does not say which; and of the hidden one nobody has heard.
        if isinstance(error, OSError) and error.filename in (None, str(partial)):
            told = error.strerror or str(error)
            raise UsageError(f"cannot be written: {told}", file=str(given), hint=_ROOM) from error
        raise


@contextmanager
def patience(what: str, quiet: bool = False) -> Iterator[None]:
    """Says on standard error what is being done, and for how long, once it takes more than a second."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from threading import Timer

    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    bar = Bar(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        console=console(sys.stderr),
        transient=True,
    )
    bar.add_task(what, total=None)
    timer = Timer(_PATIENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        bar.stop()


@contextmanager
def progress(quiet: bool) -> Iterator[Progress | None]:
    """A bar a stage on standard error, with rate and time left, for what takes more than a second and is watched."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, ProgressColumn, Task, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(_rate(task.finished_speed or task.speed, str(task.fields["unit"])), "dim")

    bar = Bar(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        Rate(),
        TimeRemainingColumn(),
        console=console(sys.stderr),
        transient=True,
    )
    tasks: dict[str, Any] = {}
    began = monotonic()

    def report(stage: str, done: int, total: int) -> None:
        if stage not in tasks:
            name, unit = _STAGES.get(stage, (stage, ""))
            tasks[stage] = bar.add_task(name, total=total, unit=unit)
        bar.update(tasks[stage], completed=done, total=total)
        if not bar.live.is_started and monotonic() - began > _PATIENCE:
            bar.start()

    try:
        yield report
    finally:
        bar.stop()


def _rate(speed: float | None, unit: str) -> str:
    """`312 MB/s`, `41,000 jobs/s`; nothing while it is not known."""
    if not speed:
        return ""
    if unit != "bytes":
        return f"{speed:,.0f} {unit}/s".replace(" /", "/")
    from jobsleuth.reports import size

    return f"{size(int(speed))}/s"


def _csv_lines(names: Sequence[str], found: Iterable[Sequence[Any]]) -> Iterator[str]:
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\n")
    head: list[Any] = [csv_cell(name) for name in names]
    for row in itertools.chain([head], ([_csv(v) for v in row] for row in found)):
        writer.writerow(row)
        yield line.getvalue()
        line.seek(0)
        line.truncate()


def _parquet(found: pa.Table | pa.RecordBatchReader, names: Sequence[str], out: BinaryIO | None) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if out is None and sys.stdout.isatty():
        raise UsageError("Parquet is nothing for a terminal", hint="--out FILE")
    batches = found.to_batches() if isinstance(found, pa.Table) else found
    schema = pa.schema([field.with_name(name) for field, name in zip(found.schema, names, strict=True)])
    with pq.ParquetWriter(sys.stdout.buffer if out is None else out, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))


def csv_text(text: str) -> str:
    """A text as a cell of CSV shows it."""
    return csv_cell(terminal(text))


def _csv(value: Any) -> str | int | float | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, int | float):
        return value
    # For spreadsheets: exact bytes are in the JSON formats.
    return csv_text(_text(value))


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


def array(objects: Iterable[Any]) -> Iterator[str]:
    """A JSON array, one item a line, never whole in memory."""
    yield "["
    comma = ""
    for item in objects:
        yield f"{comma}\n {as_json(item)}"
        comma = ","
    yield "\n]\n"


def _table(
    names: Sequence[str],
    found: Sequence[Sequence[Any]],
    total: int | None,
    more: str,
    quiet: bool,
    times: Collection[int] = (),
) -> None:
    from rich.text import Text

    from jobsleuth.cli.grid import draw
    from jobsleuth.reports import number

    kinds = [{type(row[nth]) for row in found} - {type(None)} for nth in range(len(names))]
    numbers = {nth for nth, kind in enumerate(kinds) if kind and kind <= {int, float}}
    ids = {nth for nth, name in enumerate(names) if name in ("key", "id") or name.endswith("_id")}
    out = console()
    bare, crowded = draw(
        out,
        [Text(terminal(name)) for name in names],
        [[Text(_cell(value)) for value in row] for row in found],
        firm={*numbers, *ids, *times},
        right=numbers,
        empty={nth for nth, kind in enumerate(kinds) if found and not kind},
        width=out.width if _has_width() else None,
    )
    if quiet:
        return
    told = number(len(found), "row") if total in (None, len(found)) else f"{len(found):,} of {total:,} rows; {more}"
    lines = [told]
    if bare:
        lines.append(f"no value in any row: {_named(names, bare)}")
    if crowded:
        lines.append(f"no room for {_named(names, crowded)}: a wider window, or COLUMNS=250, shows more")
    for line in lines:
        out.print(Text(line, "dim"), soft_wrap=not _has_width())


def _named(names: Sequence[str], which: Sequence[int]) -> str:
    more = f" and {len(which) - _TOLD} more" if len(which) > _TOLD else ""
    return ", ".join(terminal(names[nth], 40) for nth in which[:_TOLD]) + more


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
