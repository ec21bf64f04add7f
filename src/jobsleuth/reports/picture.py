"""Everything a case knows of one job, gathered: record, places, locks, kin, schedule, events, findings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jobsleuth.case import Case
from jobsleuth.reports.document import place
from jobsleuth.reports.rows import jsonable, records

PAYLOAD_SHOWN = 200
"""Bytes of a payload or a result that a picture shows."""
Row = dict[str, Any]
"""One row of a table: column → value; times in Unix ms."""


@dataclass(frozen=True)
class JobRef:
    """What makes a job one job within a case."""

    evidence: int
    db: int
    dialect: str
    namespace: str
    queue: str
    job_id: str

    @property
    def place(self) -> str:
        """`namespace/queue`."""
        return place(self.namespace, self.queue)


@dataclass(frozen=True)
class Picture:
    """One job.

    Attributes:
        ref: which one.
        as_of_ms: the snapshot's time, None when unknown.
        job: its row in `jobs`; times in Unix ms.
        places: its rows in `membership`, each with `size`, the number of entries of that structure.
        holders: locks and leases on it, rows of `workers`.
        parents: its parents with `state`, null where the parent is in no queue of the case.
        children: likewise.
        links: other relations that name it.
        schedules: schedules that made it or will.
        events: what its queue's event stream says of it, oldest first.
        log_lines: lines in its log key.
        findings: findings that speak of it.
    """

    ref: JobRef
    as_of_ms: int | None
    job: Row
    places: list[Row] = field(default_factory=list)
    holders: list[Row] = field(default_factory=list)
    parents: list[Row] = field(default_factory=list)
    children: list[Row] = field(default_factory=list)
    links: list[Row] = field(default_factory=list)
    schedules: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    log_lines: int = 0
    findings: list[Row] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """The picture as JSON holds it: payload and result as size and first bytes."""
        job = dict(self.job)
        for name in ("payload", "result"):
            job[name] = None if job.get(name) is None else job[name][:PAYLOAD_SHOWN]
        return {
            "job": jsonable(job),
            "as_of_ms": self.as_of_ms,
            "places": jsonable(self.places),
            "holders": jsonable(self.holders),
            "parents": jsonable(self.parents),
            "children": jsonable(self.children),
            "links": jsonable(self.links),
            "schedules": jsonable(self.schedules),
            "events": jsonable(self.events),
            "log_lines": self.log_lines,
            "findings": jsonable(self.findings),
        }


def find_jobs(case: Case, job_id: str, queue: str | None = None, namespace: str | None = None) -> list[JobRef]:
    """Every job of the case with this id.

    Args:
        case: an open case.
        job_id: as in the tables.
        queue: queue name, or `namespace/queue`; None: any.
        namespace: None: any.
    """
    rows = _rows(
        case,
        "select evidence, db, dialect, namespace, queue, job_id from jobs where job_id = $id"
        " and ($queue is null or queue = $queue or namespace || '/' || queue = $queue)"
        " and ($namespace is null or namespace = $namespace) order by all",
        {"id": job_id, "queue": queue, "namespace": namespace},
    )
    return [JobRef(**row) for row in rows]


def picture(case: Case, ref: JobRef) -> Picture:
    """Gathers what the tables hold of one job."""
    here = {"e": ref.evidence, "db": ref.db, "ns": ref.namespace, "q": ref.queue}
    it = {**here, "id": ref.job_id}
    queue = "evidence = $e and db = $db and namespace = $ns and queue = $q"
    mine = f"{queue} and job_id = $id"
    job = _rows(case, f"select * from jobs where {mine} limit 1", it)[0]
    info = next((i for i in case.manifest.evidence if i.number == ref.evidence), None)
    kin = (
        "select r.{ns} as namespace, r.{q} as queue, r.{id} as job_id, r.via, j.state from relations r left join jobs j"
        " on j.evidence = r.evidence and j.db = r.db and j.namespace = r.{ns} and j.queue = r.{q} and j.job_id = r.{id}"
        " where r.kind = 'parent' and r.evidence = $e and r.db = $db"
    )
    parents = kin.format(ns="target_namespace", q="target_queue", id="target_id")
    children = kin.format(ns="source_namespace", q="source_queue", id="source_id")
    by_source = " and r.source_namespace = $ns and r.source_queue = $q and r.source_id = $id order by all"
    by_target = " and r.target_namespace = $ns and r.target_queue = $q and r.target_id = $id order by all"
    logs = _rows(
        case,
        "select elements from keys where evidence = $e and db = $db and key = $logs and dialect is not null",
        {"e": ref.evidence, "db": ref.db, "logs": f"{job.get('key')}:logs"},
    )
    return Picture(
        ref=ref,
        as_of_ms=info.as_of_ms if info is not None else None,
        job=job,
        places=_rows(
            case,
            'select structure, kind, position, size, score, due_at, decides_state, "group", key from (select *,'
            f" count(*) over (partition by key, structure) as size from membership where {queue})"
            " where job_id = $id order by decides_state desc, structure, position",
            it,
        ),
        holders=_rows(case, f"select * from workers where {mine} order by kind, worker_id", it),
        parents=_rows(case, parents + by_source, it),
        children=_rows(case, children + by_target, it),
        links=_rows(
            case,
            "select kind, via, source_id, valid_until, key from relations where kind <> 'parent' and evidence = $e"
            " and db = $db and target_namespace = $ns and target_queue = $q and target_id = $id order by all",
            it,
        ),
        schedules=_rows(
            case,
            f"select schedule_id, spec, next_at, last_at, job_id from schedules where {queue}"
            " and (job_id = $id or schedule_id = $schedule) order by schedule_id",
            {**it, "schedule": job.get("schedule_id")},
        ),
        events=_rows(
            case,
            f'select "at", event, stream_id, fields from events where {mine} order by "at",'
            " try_cast(split_part(stream_id, '-', 2) as ubigint)",
            it,
        ),
        log_lines=sum(row["elements"] or 0 for row in logs),
        findings=_rows(
            case, f"select check_id, severity, certainty, message from findings where {mine} order by all", it
        ),
    )


def _rows(case: Case, query: str, values: dict[str, Any]) -> list[Row]:
    table = case.query(query, values)
    return [dict(zip(table.column_names, row, strict=True)) for row in records(table, lambda ms: ms)]
