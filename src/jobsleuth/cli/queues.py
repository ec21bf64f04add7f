"""`jobsleuth queues`: one row a queue."""

from __future__ import annotations

from jobsleuth.cli import output
from jobsleuth.cli.options import CaseArgument, JsonOption, RowFormat, RowFormatOption, row_format

EXAMPLE = "Example:  jobsleuth queues case"

_FOR_PEOPLE = (
    "namespace || '/' || queue as queue, layout, coalesce(library_version, '') as version, paused,"
    " array_to_string(list_transform(map_entries(counts), lambda x: x.key || ' ' || x.value), ', ') as jobs,"
    " oldest_waiting_at, last_worker_sign_at, (select count(*) from findings f where f.evidence = q.evidence"
    " and f.db = q.db and f.namespace = q.namespace and f.queue = q.queue) as findings, db"
)
_ORDER = "order by evidence, db, dialect, namespace, queue"


def command(case: CaseArgument, fmt: RowFormatOption = RowFormat.TABLE, json: JsonOption = False) -> None:
    """Show the queues: layout, jobs by state, oldest waiting job, findings."""
    from jobsleuth.case import open_case

    wanted = row_format(fmt, json)
    columns = _FOR_PEOPLE if wanted is RowFormat.TABLE else "*"
    output.rows(open_case(case).query(f"select {columns} from queues q {_ORDER}"), wanted)
