"""Which queue `--queue` means: by its name, or as `namespace/queue`, which is how every list shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from jobsleuth.errors import UsageError

if TYPE_CHECKING:
    from jobsleuth.case import Case

QueueOption = Annotated[str | None, typer.Option("--queue", help="Queue name, or namespace/queue.", show_default=False)]
IS_QUEUE = "? in (queue, namespace || '/' || queue)"
"""Condition on a row of any table with these columns; takes the queue as a parameter."""


def require(case: Case, queue: str | None) -> None:
    """Whether there is such a queue at all: a list that is empty because of a slip reads like good news.

    Raises:
        UsageError: the case has no queue and no job of that name.
    """
    if queue is None:
        return
    query = f"select 1 from queues where {IS_QUEUE} union all select 1 from jobs where {IS_QUEUE} limit 1"
    if not case.query(query, [queue, queue]).num_rows:
        raise UsageError(f"no queue {queue} in the case", file=str(case.path), hint="jobsleuth queues lists them")
