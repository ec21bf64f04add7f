"""Which queue `--queue` means: by its name, or as `namespace/queue`, which is how every list shows it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from jobsleuth.errors import UsageError
from jobsleuth.safetext import terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

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


class Placed(Protocol):
    """Something that is told of one job in one queue; `place` is the queue as `namespace/queue`."""

    @property
    def namespace(self) -> str: ...

    @property
    def queue(self) -> str: ...

    @property
    def place(self) -> str: ...


def require_one(case: Case, job_id: str, found: Sequence[Placed]) -> None:
    """Whether all that was found of a job is of one queue; it may be there in several databases or files.

    Raises:
        UsageError: several queues have the id; names them, and how to say which.
    """
    if len({(one.namespace, one.queue) for one in found}) > 1:
        places = ", ".join(dict.fromkeys(terminal(one.place, 60) for one in found))
        raise UsageError(
            f"job {terminal(job_id, 80)} is in several queues: {places}",
            file=str(case.path),
            hint=f"say which: --queue {shlex.quote(terminal(found[0].place))}",
        )
