"""Everything a case knows of one job, gathered: record, places, locks, kin, schedule, events, log, findings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jobsleuth.case import Case
from jobsleuth.reports.document import place
from jobsleuth.reports.rows import jsonable, records

PAYLOAD_SHOWN = 200
"""Bytes of a payload or a result that a picture shows."""
LOG_LINES = 1000
"""Lines of a log that a picture holds, the newest."""
Row = dict[str, Any]
"""One row of a table: column → value; times in Unix ms."""

_OF_QUEUE = "layout, layout_why, library_version, paused, counts, limits"


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
        queue: the row of its queue: layout, version, pause, limits, active jobs.
        places: its rows in `membership`, each with `size`, the number of entries of that structure, and `turn`, the
            number of entries up to it in the order in which a list or zset is taken from.
        holders: locks and leases on it, rows of `workers`.
        parents: its parents with `state`, null where the parent is in no queue of the case; `via` names, comma
            separated, where the link is recorded.
        children: likewise.
        links: other relations that name it.
        schedules: schedules that made it or will.
        events: what its queue's event stream says of it, oldest first.
        log_lines: lines in its log.
        logs: the newest of them, oldest first: `position`, `line`.
        findings: findings that speak of it.
    """

    ref: JobRef
    as_of_ms: int | None
    job: Row
    queue: Row = field(default_factory=dict)
    places: list[Row] = field(default_factory=list)
    holders: list[Row] = field(default_factory=list)
    parents: list[Row] = field(default_factory=list)
    children: list[Row] = field(default_factory=list)
    links: list[Row] = field(default_factory=list)
    schedules: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    log_lines: int = 0
    logs: list[Row] = field(default_factory=list)
    findings: list[Row] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """The picture as JSON holds it: payload and result as size and first bytes."""
        job = dict(self.job)
        for name in ("payload", "result"):
            job[name] = None if job.get(name) is None else job[name][:PAYLOAD_SHOWN]
        return {
            "job": jsonable(job),
            "as_of_ms": self.as_of_ms,
            "queue": jsonable(self.queue),
            "places": jsonable(self.places),
            "holders": jsonable(self.holders),
            "parents": jsonable(self.parents),
            "children": jsonable(self.children),
            "links": jsonable(self.links),
            "schedules": jsonable(self.schedules),
            "events": jsonable(self.events),
            "log_lines": self.log_lines,
            "logs": jsonable(self.logs),
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
    log_lines = _rows(case, f"select count(*) as n from logs where {mine}", it)[0]["n"]
    return Picture(
        ref=ref,
        as_of_ms=info.as_of_ms if info is not None else None,
        job=job,
        queue=next(iter(_rows(case, f"select {_OF_QUEUE} from queues where {queue} limit 1", here)), {}),
        places=_rows(
            case,
            'select structure, kind, position, size, turn, score, due_at, sequence, decides_state, "group", key'
            " from (select *, count(*) over (partition by key, structure) as size, row_number() over (partition by key,"
            " structure order by case kind when 'list' then -position else position end) as turn"
            f" from membership where {queue}) where job_id = $id order by decides_state desc, structure, position",
            it,
        ),
        holders=_rows(case, f"select * from workers where {mine} order by kind, worker_id", it),
        parents=_together(_rows(case, parents + by_source, it)),
        children=_together(_rows(case, children + by_target, it)),
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
        log_lines=log_lines,
        logs=_rows(
            case,
            "select * from (select position, line from logs"
            f" where {mine} order by position desc limit {LOG_LINES}) order by position",
            it,
        ),
        findings=_rows(
            case, f"select check_id, severity, certainty, message from findings where {mine} order by all", it
        ),
    )


def _together(kin: list[Row]) -> list[Row]:
    """One row a relative, however many keys record the link."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in kin:
        place = (row["namespace"], row["queue"], row["job_id"])
        known = found.setdefault(place, {**row, "via": ""})
        known["via"] = f"{known['via']}, {row['via']}" if known["via"] else row["via"]
    return list(found.values())


def _rows(case: Case, query: str, values: dict[str, Any]) -> list[Row]:
    table = case.query(query, values)
    return [dict(zip(table.column_names, row, strict=True)) for row in records(table, lambda ms: ms)]
