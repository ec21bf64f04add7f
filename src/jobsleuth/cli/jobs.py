"""`jobsleuth jobs`: filter, sort, export."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from jobsleuth.cli import output
from jobsleuth.cli.options import CaseArgument, JsonOption, RowFormat, RowFormatOption, row_format
from jobsleuth.errors import UsageError

EXAMPLE = "Example:  jobsleuth jobs case --queue emails --state active --sort started_at"

_FOR_PEOPLE = (
    "namespace || '/' || queue as queue, job_id, state, name, attempts, created_at, scheduled_at, started_at,"
    " finished_at, error"
)
_SHOWN = 50


def command(
    case: CaseArgument,
    queue: Annotated[str | None, typer.Option("--queue", help="Queue name.")] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", help="BullMQ prefix, or asynq.")] = None,
    state: Annotated[list[str] | None, typer.Option("--state", help="State; may be repeated.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Job name or task type holds this text.")] = None,
    error: Annotated[str | None, typer.Option("--error", help="Error text holds this text.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=0, help="At most so many rows.")] = None,
    sort: Annotated[
        str | None, typer.Option("--sort", metavar="COLUMN", help="Sort by this column; -COLUMN: largest first.")
    ] = None,
    fmt: RowFormatOption = RowFormat.TABLE,
    json: JsonOption = False,
) -> None:
    """List jobs. Payloads and results are left out; `jobsleuth job` and `jobsleuth sql` show them."""
    from jobsleuth.case import TABLES, open_case

    wanted = row_format(fmt, json)
    small = next(t for t in TABLES if t.name == "jobs").small_columns
    conditions: list[str] = []
    values: list[Any] = []
    for condition, value in (
        ("queue = ?", queue),
        ("namespace = ?", namespace),
        ("list_contains(?, state)", list(state) if state else None),
        ("contains(lower(name), lower(?))", name),
        ("contains(lower(error), lower(?))", error),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    where = f" where {' and '.join(conditions)}" if conditions else ""
    order = f" order by {_order(sort, small)}evidence, db, dialect, namespace, queue, job_id"
    columns = _FOR_PEOPLE if wanted is RowFormat.TABLE else ", ".join(f'"{column}"' for column in [*small, "error"])
    opened = open_case(case)
    total: int | None = None
    if wanted is RowFormat.TABLE:
        total = opened.query(f"select count(*) from jobs{where}", values).column(0)[0].as_py()
        limit = _SHOWN if limit is None else limit
    cut = f" limit {limit}" if limit is not None else ""
    found = opened.query(f"select {columns} from jobs{where}{order}{cut}", values)
    output.rows(found, wanted, total=total, more="--limit N shows more")


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
