"""`jobsleuth sql`: any question."""

from __future__ import annotations

from typing import Annotated

import typer

from jobsleuth.cli import output
from jobsleuth.cli.options import CaseArgument, JsonOption, RowFormat, RowFormatOption, row_format

EXAMPLE = 'Example:  jobsleuth sql case "select state, count(*) from jobs group by all order by all"'


def command(
    case: CaseArgument,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="SQL in DuckDB's dialect.", show_default=False)],
    fmt: RowFormatOption = RowFormat.TABLE,
    json: JsonOption = False,
) -> None:
    """Ask in SQL: jobs, membership, queues, workers, schedules, relations, events, keys, checks, findings, evidence."""
    from jobsleuth.case import open_case

    output.rows(open_case(case).query(query), row_format(fmt, json))
