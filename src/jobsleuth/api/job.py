"""One job for people and programs: printed it tells its story, its attributes are the rows behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jobsleuth.case import TABLES
from jobsleuth.reports import Picture, picture_lines, story

if TYPE_CHECKING:
    import pandas as pd

_TIMES = frozenset(c.name for table in TABLES for c in table.columns if str(c.type).startswith("timestamp"))
"""Columns that hold a moment; pictures have it as Unix ms."""


class Job:
    """One job of a case; use :meth:`jobsleuth.Case.job`.

    `print(job)` tells what `jobsleuth job` tells. Moments are pandas Timestamps in UTC.
    """

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def __repr__(self) -> str:
        ref = self._picture.ref
        return f"Job({ref.job_id!r}, queue={ref.place!r}, state={self.state!r})"

    def __str__(self) -> str:
        return "\n".join("".join(text for text, _ in line).rstrip() for line in picture_lines(self._picture))

    @property
    def id(self) -> str:
        """As in the tables."""
        return self._picture.ref.job_id

    @property
    def queue(self) -> str:
        """Name of its queue."""
        return self._picture.ref.queue

    @property
    def state(self) -> str:
        """BullMQ: what the library's getState answers. Asynq: the structure the id is in."""
        return str(self._picture.job["state"])

    @property
    def story(self) -> str:
        """What happened to it, in a few sentences."""
        return story(self._picture)

    @property
    def record(self) -> dict[str, Any]:
        """Its row in `jobs`, payload and result included."""
        return _row(self._picture.job)

    @property
    def payload(self) -> bytes | None:
        """As stored; None where there is none, or the case was made without."""
        return self._picture.job.get("payload")

    @property
    def places(self) -> pd.DataFrame:
        """Its rows in `membership`; `size`: entries of that structure, `turn`: entries up to it."""
        return _frame(self._picture.places)

    @property
    def holders(self) -> pd.DataFrame:
        """Locks and leases on it: rows of `workers`."""
        return _frame(self._picture.holders)

    @property
    def parents(self) -> pd.DataFrame:
        """Its parents in flows, with their state."""
        return _frame(self._picture.parents)

    @property
    def children(self) -> pd.DataFrame:
        """Its children in flows, with their state."""
        return _frame(self._picture.children)

    @property
    def events(self) -> pd.DataFrame:
        """What its queue's event stream says of it, oldest first."""
        return _frame(self._picture.events)

    @property
    def logs(self) -> list[str]:
        """The newest lines of its log, oldest first."""
        return [str(row["line"]) for row in self._picture.logs]

    @property
    def findings(self) -> pd.DataFrame:
        """Findings that speak of it."""
        return _frame(self._picture.findings)


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _moment(value) if name in _TIMES and value is not None else value for name, value in row.items()}


def _moment(ms: int) -> pd.Timestamp:
    import numpy as np
    import pandas as pd

    # Of plain numbers pandas makes nanoseconds, which end in the year 2262; a forged score may be later.
    return pd.Timestamp(np.datetime64(ms, "ms")).tz_localize("UTC")


def _frame(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame([_row(row) for row in rows])
