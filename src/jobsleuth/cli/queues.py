"""`jobsleuth queues`: one row a queue."""

from __future__ import annotations

from typing import Annotated

import typer

from jobsleuth.cli import lean, output, redaction
from jobsleuth.cli.options import (
    CaseArgument,
    JsonOption,
    QuietOption,
    RedactKeyOption,
    RedactOption,
    RowFormat,
    RowFormatOption,
    row_format,
)

EXAMPLE = "Example:  jobsleuth queues case"

_QUERY = """
    select q.* exclude (scope), d.waiting, d.active, d.delayed, d.retry, d.failed, d.done, d.blocked, d.unknown,
        o.age_ms as oldest_waiting_ms, f.failure_rate, t.p50_ms, t.p95_ms, t.p99_ms
    from (select *, 'queue' as scope from queues) q
    left join signal_depth d using (evidence, db, dialect, namespace, queue, scope)
    left join signal_oldest_waiting o using (evidence, db, dialect, namespace, queue, scope)
    left join signal_failure_rate f using (evidence, db, dialect, namespace, queue, scope)
    left join signal_duration t using (evidence, db, dialect, namespace, queue, scope)
    order by q.evidence, q.db, q.dialect, q.namespace, q.queue
"""
_NAMES = """
    select d.*, o.age_ms as oldest_waiting_ms, f.failure_rate, t.p50_ms, t.p95_ms, t.p99_ms
    from (from signal_depth where scope = 'name') d
    left join signal_oldest_waiting o on {same}
    left join signal_failure_rate f on {same}
    left join signal_duration t on {same}
    order by d.evidence, d.db, d.dialect, d.namespace, d.queue, d.name
"""
_SAME = (
    "{t}.scope = 'name' and {t}.evidence = d.evidence and {t}.db = d.db and {t}.dialect = d.dialect"
    " and {t}.namespace = d.namespace and {t}.queue = d.queue and {t}.name is not distinct from d.name"
)
_SHOWN = 3


def command(
    case: CaseArgument,
    names: Annotated[bool, typer.Option("--names", help="Every job name, not the first of each queue.")] = False,
    fmt: RowFormatOption = RowFormat.TABLE,
    redact: RedactOption = False,
    redact_key: RedactKeyOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show the queues: jobs by state, findings, and the four signals of each queue and job name.

    The signals: jobs waiting, how long the oldest of them waits, the share of finished jobs that failed, and run times
    that 50, 95 and 99 % stay below. The other formats have every column.
    """
    lean.without_pandas()
    from jobsleuth.reports import document, queue_lines, signal_lines

    opened = redaction.opened(case, redact, redact_key)
    wanted = row_format(fmt, json)
    with output.patience("reading queues", quiet):
        if wanted is RowFormat.TABLE:
            output.show(queue_lines(document(opened), output.width()))
            output.show([()])
            output.show(signal_lines(opened, output.width(), None if names else _SHOWN))
        else:
            output.rows(opened.query(_names() if names else _QUERY), wanted)


def _names() -> str:
    query = _NAMES
    for table in ("o", "f", "t"):
        query = query.replace("{same}", _SAME.replace("{t}", table), 1)
    return query
