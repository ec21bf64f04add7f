"""One job for people and programs: printed it tells its story, its attributes are the rows behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from jobsleuth.case import TABLES
from jobsleuth.reports import Picture, picture_lines, story

if TYPE_CHECKING:
    import pandas as pd

_TIMES = frozenset(c.name for table in TABLES for c in table.columns if str(c.type).startswith("timestamp"))
"""Columns that hold a moment; pictures have it as Unix ms."""
_COUNTED = {"size": pa.int64(), "turn": pa.int64()}
_PLACES = (
    *("structure", "kind", "position", "size", "turn", "score"),
    *("due_at", "sequence", "decides_state", "group", "key"),
)
_KIN = ("namespace", "queue", "job_id", "job_id_bytes", "via", "state", "has_record")
_EVENTS = ("at", "event", "stream_id", "fields")
_FINDINGS = (
    "check_id",
    "severity",
    "certainty",
    "message",
    "retry",
    "retry_why",
    "heals",
    "heals_at",
    "heals_basis",
    "help_url",
)


class Job:
    """One job of a case; use :meth:`jobsleuth.Case.job`.

    `print(job)` tells what `jobsleuth job` tells. Moments are pandas Timestamps in UTC; frames have Arrow-backed
    columns, and all of them where there is no row.
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
        return _frame(self._picture.places, "membership", _PLACES)

    @property
    def holders(self) -> pd.DataFrame:
        """Locks and leases on it: rows of `workers`."""
        return _frame(self._picture.holders, "workers")

    @property
    def parents(self) -> pd.DataFrame:
        """Its parents in flows, with their state."""
        return _frame(self._picture.parents, "relations", _KIN)

    @property
    def children(self) -> pd.DataFrame:
        """Its children in flows, with their state."""
        return _frame(self._picture.children, "relations", _KIN)

    @property
    def events(self) -> pd.DataFrame:
        """What its queue's event stream says of it, oldest first."""
        return _frame(self._picture.events, "events", _EVENTS)

    @property
    def logs(self) -> list[str]:
        """The newest lines of its log, oldest first."""
        return [str(row["line"]) for row in self._picture.logs]

    @property
    def findings(self) -> pd.DataFrame:
        """Findings that speak of it."""
        return _frame(self._picture.findings, "findings", _FINDINGS)


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _moment(value) if name in _TIMES and value is not None else value for name, value in row.items()}


def _moment(ms: int) -> pd.Timestamp:
    import numpy as np
    import pandas as pd

    # Of plain numbers pandas makes nanoseconds, which end in the year 2262; a forged score may be later.
    return pd.Timestamp(np.datetime64(ms, "ms")).tz_localize("UTC")


def _frame(rows: Sequence[dict[str, Any]], table: str, names: Sequence[str] = ()) -> pd.DataFrame:
    """Rows of a picture with the types of the case's tables; columns are those of `table`, or `names`."""
    import pandas as pd

    of_jobs, own = _types("jobs"), _types(table)
    wanted = rows[0].keys() if rows else names or own
    types = {name: (own | _COUNTED).get(name) or of_jobs[name] for name in wanted}
    columns = {name: pa.array([_stored(row[name]) for row in rows], kind) for name, kind in types.items()}
    frame: pd.DataFrame = pa.table(columns).to_pandas(types_mapper=pd.ArrowDtype)
    return frame


def _types(name: str) -> dict[str, pa.DataType]:
    """Columns of a table of the case and their types, repeated text as plain text."""
    (table,) = (table for table in TABLES if table.name == name)
    return {c.name: c.type.value_type if pa.types.is_dictionary(c.type) else c.type for c in table.columns}


def _stored(value: Any) -> Any:
    return list(value.items()) if isinstance(value, dict) else value
