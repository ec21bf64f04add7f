"""`jobsleuth jobs`: filter, sort, export."""

from __future__ import annotations

import codecs
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobsleuth.cli import lean, output, redaction
from jobsleuth.cli.options import (
    CaseArgument,
    ForceOption,
    JsonOption,
    OutOption,
    QuietOption,
    RedactKeyOption,
    RedactOption,
    RowFormat,
    RowFormatOption,
    row_format,
)
from jobsleuth.cli.places import IS_QUEUE, QueueOption, require
from jobsleuth.errors import UsageError

if TYPE_CHECKING:
    from jobsleuth.case import Case

EXAMPLE = "Example:  jobsleuth jobs case --queue press --state active --sort started_at"

_FOR_PEOPLE = (
    "namespace || '/' || queue as queue, job_id, state, name, attempts, error, created_at, scheduled_at, started_at,"
    " finished_at"
)
_SHOWN = 50
_NAMED = 5
_UNITS = {"ms": 1, "s": 1_000, "min": 60_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGE = "(select as_of_ms from evidence e where e.evidence = jobs.evidence) - epoch_ms(created_at)"


def command(
    case: CaseArgument,
    queue: QueueOption = None,
    namespace: Annotated[str | None, typer.Option("--namespace", help="BullMQ prefix, or asynq.")] = None,
    state: Annotated[list[str] | None, typer.Option("--state", help="State; may be repeated.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Job name or task type holds this text.")] = None,
    error: Annotated[str | None, typer.Option("--error", help="Error text holds this text.")] = None,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="AGE", help="Added at least so long before the snapshot: 90s, 2h."),
    ] = None,
    newer_than: Annotated[
        str | None, typer.Option("--newer-than", metavar="AGE", help="Added less than so long before the snapshot.")
    ] = None,
    priority: Annotated[
        str | None, typer.Option("--priority", metavar="N|N-M", help="Priority N, or from N to M; 0 is none.")
    ] = None,
    ids: Annotated[
        Path | None,
        typer.Option(
            "--ids", metavar="FILE", help="Only these ids, one a line; - reads standard input.", show_default=False
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="At most so many rows.")] = None,
    sort: Annotated[
        str | None, typer.Option("--sort", metavar="COLUMN", help="Sort by this column; -COLUMN: largest first.")
    ] = None,
    fmt: RowFormatOption = RowFormat.TABLE,
    out: OutOption = None,
    redact: RedactOption = False,
    redact_key: RedactKeyOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """List jobs. Payloads and results are left out; `jobsleuth job` and `jobsleuth sql` show them."""
    lean.without_pandas()
    from jobsleuth.case import TABLES

    wanted = row_format(fmt, json)
    if out is not None and wanted is RowFormat.TABLE:
        raise UsageError("a file needs a format", hint="add --format csv, ndjson, json or parquet")
    small = next(t for t in TABLES if t.name == "jobs").small_columns
    least, most = _priorities(priority)
    listed = None if ids is None else _listed(ids)
    conditions: list[str] = []
    values: list[Any] = []
    for condition, value in (
        (IS_QUEUE, queue),
        ("namespace = ?", namespace),
        ("list_contains(?, state)", list(state) if state else None),
        ("contains(lower(name), lower(?))", name),
        ("contains(lower(error), lower(?))", error),
        (f"{_AGE} >= ?", _span("--older-than", older_than)),
        (f"{_AGE} < ?", _span("--newer-than", newer_than)),
        ("priority >= ?", least),
        ("priority <= ?", most),
        ("job_id in (select unnest(?::varchar[]))", listed),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    where = f" where {' and '.join(conditions)}" if conditions else ""
    order = f" order by {_order(sort, small)}evidence, db, dialect, namespace, queue, job_id"
    columns = _FOR_PEOPLE if wanted is RowFormat.TABLE else ", ".join(f'"{column}"' for column in [*small, "error"])
    opened = redaction.opened(case, redact, redact_key)
    require(opened, queue)
    if state and not quiet:
        _tell_absent(opened, state)
    if listed and not quiet:
        _tell_unknown(opened, listed, named=not redact and redact_key is None)
    with output.patience("reading jobs", quiet):
        total: int | None = None
        if wanted is RowFormat.TABLE:
            total = opened.query(f"select count(*) from jobs{where}", values).column(0)[0].as_py()
            limit = _SHOWN if limit is None else limit
        cut = f" limit {limit}" if limit is not None else ""
        found = opened.stream(f"select {columns} from jobs{where}{order}{cut}", values)
        if out is None:
            output.rows(found, wanted, total=total, more="--limit N shows more", quiet=quiet)
            return
        with output.new_file(out, force=force) as file:
            output.rows(found, wanted, out=file)


def _tell_absent(case: Case, states: list[str]) -> None:
    """A note on states that no job is in: `wait`, say, is a list of BullMQ's, but `waiting` the state."""
    there = [
        row["state"] for row in case.query("select distinct state::varchar as state from jobs order by 1").to_pylist()
    ]
    absent = [state for state in states if state not in there]
    if absent:
        output.note(f"no job is in state {' or '.join(absent)}; there are: {', '.join(s or 'null' for s in there)}")


def _order(sort: str | None, known: list[str]) -> str:
    """The wanted column in front of the order that is always there.

    Raises:
        UsageError: no such column.
    """
    if sort is None:
        return ""
    column = sort.removeprefix("-")
    if column not in known:
        raise UsageError(f"--sort {sort!r}: jobs has no such column", hint=f"one of {', '.join(known)}")
    return f'"{column}" {"desc" if sort.startswith("-") else "asc"} nulls last, '


def _span(option: str, text: str | None) -> int | None:
    """An age in ms.

    Raises:
        UsageError: it is none.
    """
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{1,12})\s*(ms|s|min|m|h|d)", text)
    if found is None:
        raise UsageError(f"{option} {text!r} is not an age", hint=f"e.g. {option} 90s, {option} 2h, {option} 3d")
    return int(found[1]) * _UNITS[found[2]]


def _priorities(text: str | None) -> tuple[int | None, int | None]:
    """Least and greatest priority wanted.

    Raises:
        UsageError: neither a number nor a range.
    """
    if text is None:
        return None, None
    found = re.fullmatch(r"([0-9]{1,15})(?:-([0-9]{1,15}))?", text)
    if found is None:
        raise UsageError(
            f"--priority {text!r} is neither a number nor a range", hint="e.g. --priority 5, --priority 1-10"
        )
    return int(found[1]), int(found[2] or found[1])


def _listed(file: Path) -> list[str]:
    """Ids, one a line; a line ends with a line feed only, since an id may hold whatever else splits lines."""
    data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "backslashreplace")
    return [line for line in (line.removesuffix("\r") for line in text.split("\n")) if line]


def _tell_unknown(case: Case, listed: list[str], *, named: bool) -> None:
    """A note on ids that no queue of the case knows: they would just be missing in the list."""
    query = "select distinct id from (select unnest(?::varchar[]) as id) where id not in (select job_id from jobs)"
    unknown = sorted(row["id"] for row in case.query(query, [listed]).to_pylist())
    if unknown:
        some = ": " + ", ".join(unknown[:_NAMED]) + (", …" if len(unknown) > _NAMED else "") if named else ""
        output.note(f"{len(unknown):,} of {len(set(listed)):,} ids are of no job in this case{some}")
