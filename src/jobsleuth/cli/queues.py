"""`jobsleuth queues`: one row a queue."""

from __future__ import annotations

from jobsleuth.cli import output
from jobsleuth.cli.options import CaseArgument, JsonOption, RowFormat, RowFormatOption, row_format

EXAMPLE = "Example:  jobsleuth queues case"

_QUERY = "from queues order by evidence, db, dialect, namespace, queue"


def command(case: CaseArgument, fmt: RowFormatOption = RowFormat.TABLE, json: JsonOption = False) -> None:
    """Show the queues: jobs by state, oldest waiting job, findings; the other formats have every column."""
    from jobsleuth.case import open_case
    from jobsleuth.reports import document, queue_lines

    opened = open_case(case)
    wanted = row_format(fmt, json)
    if wanted is RowFormat.TABLE:
        output.show(queue_lines(document(opened), output.width()))
    else:
        output.rows(opened.query(_QUERY), wanted)
