"""`jobsleuth sql`: any question."""

from __future__ import annotations

from typing import Annotated

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
from jobsleuth.errors import UsageError

EXAMPLE = 'Example:  jobsleuth sql case "select state, count(*) from jobs group by all order by all"'


def command(
    case: CaseArgument,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="SQL in DuckDB's dialect.", show_default=False)],
    fmt: RowFormatOption = RowFormat.TABLE,
    out: OutOption = None,
    redact: RedactOption = False,
    redact_key: RedactKeyOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Ask in SQL: jobs, membership, queues, workers, events, findings and the other tables of the case.

    These are keys, schedules, relations, logs, transitions, checks and causes; evidence and warnings, of the manifest;
    and the signals: signal_depth, signal_oldest_waiting, signal_failure_rate, signal_duration. `describe jobs` tells
    the columns of one.
    """
    lean.without_pandas()
    wanted = row_format(fmt, json)
    if out is not None and wanted is RowFormat.TABLE:
        raise UsageError("a file needs a format", hint="add --format csv, ndjson, json or parquet")
    found = redaction.opened(case, redact, redact_key).stream(query)
    with output.patience("asking", quiet):
        if out is None:
            output.rows(found, wanted, quiet=quiet)
            return
        with output.new_file(out, force=force) as file:
            output.rows(found, wanted, out=file)
