"""What an append-only file tells of one job: every step in order, and who removed its record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jobsleuth.case import Case
from jobsleuth.reports.findings import place
from jobsleuth.reports.rows import Row, records

NO_PLACES = ("record", "lock", "lease", "deadlines", "stalled", "priority", "limited")
"""Words of `from_structure` and `to_structure` that are no place where a job waits for what comes next."""
_COLUMNS = (
    '"at", from_structure, to_structure, command, "file", file_offset, step, transaction_number, evidence, db,'
    " dialect, namespace, queue, job_id"
)


@dataclass(frozen=True)
class Timeline:
    """The steps of one job.

    Attributes:
        evidence: number of the evidence file.
        db: Redis database number.
        dialect: the queue library.
        namespace: what stands before the queue's name.
        queue: the queue's name.
        job_id: the id.
        steps: rows of `transitions`, in order; times in Unix ms.
    """

    evidence: int
    db: int
    dialect: str
    namespace: str
    queue: str
    job_id: str
    steps: tuple[Row, ...]

    @property
    def place(self) -> str:
        """`namespace/queue`."""
        return place(self.namespace, self.queue)

    def removals(self) -> list[Row]:
        """The steps that deleted the job's record, each with `was_in`: where the job was until that command or
        transaction, null for nowhere, and `came_back`: the record was there again later."""
        found = []
        for number, step in enumerate(self.steps):
            if step["from_structure"] == "record" and step["to_structure"] is None:
                later = self.steps[number + 1 :]
                came_back = any(s["to_structure"] == "record" for s in later)
                found.append({**step, "was_in": self._place_before(number), "came_back": came_back})
        return found

    def _place_before(self, number: int) -> str | None:
        unit = self.steps[number]["transaction_number"]
        where = None
        for step in self.steps[:number]:
            if unit is not None and step["transaction_number"] == unit:
                break
            for name, value in (("from", None), ("to", step["to_structure"])):
                moved = step[f"{name}_structure"]
                if moved is not None and moved not in NO_PLACES:
                    where = value
        return where


def timelines(case: Case, job_id: str, queue: str | None = None, namespace: str | None = None) -> list[Timeline]:
    """Every job of the case with this id of which there are steps, also one that has vanished.

    Args:
        case: an open case.
        job_id: as in the tables.
        queue: queue name, or `namespace/queue`; None: any.
        namespace: None: any.
    """
    found = case.query(
        f"select {_COLUMNS} from transitions where job_id = $id"
        " and ($queue is null or queue = $queue or namespace || '/' || queue = $queue)"
        " and ($namespace is null or namespace = $namespace)"
        " order by evidence, db, namespace, queue, step, from_structure nulls last, to_structure nulls last",
        {"id": job_id, "queue": queue, "namespace": namespace},
    )
    jobs: dict[tuple[Any, ...], list[Row]] = {}
    names = ("evidence", "db", "dialect", "namespace", "queue", "job_id")
    for values in records(found, int):
        row = dict(zip(found.column_names, values, strict=True))
        jobs.setdefault(tuple(row[name] for name in names), []).append(row)
    return [Timeline(**dict(zip(names, who, strict=True)), steps=tuple(steps)) for who, steps in jobs.items()]
