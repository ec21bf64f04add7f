"""The findings of a report, worst first, made one at a time from Arrow: there may be a million."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

SEVERITIES = ("error", "warning", "info")
"""Worst first."""


@dataclass(frozen=True)
class Finding:
    """One thing that does not add up, as in the table `findings`; times are Unix ms."""

    check_id: str
    severity: str
    certainty: str
    dialect: str | None
    namespace: str | None
    queue: str | None
    job_id: str | None
    key: str | None
    message: str
    details: str | None
    help_url: str | None
    evidence: int | None
    db: int | None
    fingerprint: str | None = None
    cause: str | None = None
    basis: str | None = None
    since_from: int | None = None
    since_to: int | None = None
    since_why: str | None = None
    since_basis: str | None = None
    held_by: str | None = None
    held_by_basis: str | None = None
    heals: str | None = None
    heals_at: int | None = None
    heals_basis: str | None = None
    retry: str | None = None
    retry_why: str | None = None
    retry_basis: str | None = None

    @property
    def place(self) -> str:
        """`namespace/queue`, or the empty string for a finding about no queue."""
        return place(self.namespace, self.queue)

    def facts(self) -> dict[str, Any]:
        """`details` as an object; what is not JSON stays text under `text`, and numbers that JSON has not (a score may
        be infinite) are text, too."""
        try:
            found = json.loads(self.details or "{}", parse_constant=str)
        except ValueError:
            return {"text": self.details}
        return found if isinstance(found, dict) else {"value": found}


TIMES = ("since_from", "since_to", "heals_at")
"""Members of a finding that are Unix ms."""
COLUMNS = tuple(field.name for field in fields(Finding))
"""Columns of the table `findings` that a report reads."""
_OF_JOB = ["evidence", "db", "dialect", "namespace", "queue", "job_id"]


class Findings:
    """All findings of a document; iterating makes them anew, a few thousand at a time."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def jobs(self) -> int:
        """How many jobs they speak of."""
        about = self._table.select(_OF_JOB).filter(pc.is_valid(self._table.column("job_id")))
        return int(about.group_by(_OF_JOB).aggregate([]).num_rows)

    def __iter__(self) -> Iterator[Finding]:
        # Column by column: a dictionary for each row, and a look-up for each word, take seven times as long.
        for batch in self._table.select(COLUMNS).to_batches(max_chunksize=4096):
            plain = (c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in batch.columns)
            yield from map(Finding, *(column.to_pylist() for column in plain))


def place(namespace: str | None, queue: str | None) -> str:
    """`namespace/queue` with what is known of the two."""
    return "/".join(p for p in (namespace, queue) if p is not None)
