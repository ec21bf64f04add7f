"""Everything a case knows of one job, gathered: record, places, locks, kin, schedule, events, log, findings."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jobsleuth.case import Case
from jobsleuth.reports.findings import place
from jobsleuth.reports.rows import Row, jsonable, records, with_moments
from jobsleuth.safetext import from_bytes

PAYLOAD_SHOWN = 200
"""Bytes of a payload or a result that a picture shows."""
OF_APPLICATION = ("data", "returnvalue")
"""Fields of BullMQ's events that hold what the application stored: progress and results."""
LOG_LINES = 1000
"""Lines of a log that a picture holds, the newest."""

_OF_QUEUE = "layout, layout_why, library_version, paused, counts, limits"


@dataclass(frozen=True)
class JobRef:
    """What makes a job one job within a case: names as text, and their bytes where the text is not exact.

    A text with `\\xff` in it may be just that or stand for the byte; the bytes tell the two apart.
    """

    evidence: int
    db: int
    dialect: str
    namespace: str
    queue: str
    job_id: str
    namespace_bytes: bytes | None = None
    queue_bytes: bytes | None = None
    job_id_bytes: bytes | None = None

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
        parents: its parents with `state`, null where the parent is in no queue of the case, and `has_record`; `via`
            names, comma separated, where the link is recorded.
        children: likewise.
        links: other relations that name it.
        schedules: schedules that made it or will.
        events: what its queue's event stream says of it, oldest first.
        log_lines: lines in its log.
        logs: the newest of them, oldest first: `position`, `line`.
        findings: findings that speak of it.
        namesakes: other jobs of its queue whose ids read the same as text.
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
    namesakes: int = 0

    def facts(self, shown: int | None = PAYLOAD_SHOWN) -> dict[str, Any]:
        """The picture as JSON holds it, times as ISO 8601.

        Args:
            shown: so many first bytes of payload and result; None: of all that the application stored size and digest.
        """
        job, events, logs = dict(self.job), self.events, self.logs
        for name in ("payload", "result"):
            job[name] = _kept(job.get(name), shown)
        if shown is None:
            logs = []
            for name in ("progress", "stacktrace", "message_rest", "undecoded"):
                job[name] = _kept(job.get(name), shown)
            job["rest"] = {name: _kept(value, shown) for name, value in (job.get("rest") or {}).items()}
            events = [
                {
                    **e,
                    "fields": {k: _kept(v, None) if k in OF_APPLICATION else v for k, v in (e["fields"] or {}).items()},
                }
                for e in events
            ]
        return {
            "job": jsonable(with_moments(job)),
            "as_of_ms": self.as_of_ms,
            "queue": jsonable(self.queue),
            "places": _for_machines(self.places),
            "holders": _for_machines(self.holders),
            "parents": _for_machines(self.parents),
            "children": _for_machines(self.children),
            "links": _for_machines(self.links),
            "schedules": _for_machines(self.schedules),
            "events": _for_machines(events),
            "log_lines": self.log_lines,
            "logs": _for_machines(logs),
            "findings": _for_machines(self.findings),
        }


def _for_machines(rows: Sequence[Row]) -> Any:
    return jsonable([with_moments(row) for row in rows])


def _kept(value: Any, shown: int | None) -> Any:
    if value is None or shown is not None:
        return value if value is None else value[:shown]
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def find_jobs(
    case: Case, job_id: str | bytes, queue: str | None = None, namespace: str | None = None, db: int | None = None
) -> list[JobRef]:
    """Every job of the case with this id.

    Args:
        case: an open case.
        job_id: as in the tables; bytes: just these, where a text might be an escape or mean what it says.
        queue: queue name, or `namespace/queue`; None: any.
        namespace: None: any.
        db: Redis database number; None: any.
    """
    text = from_bytes(job_id) if isinstance(job_id, bytes) else job_id
    rows = _rows(
        case,
        "select evidence, db, dialect, namespace, queue, job_id, namespace_bytes, queue_bytes, job_id_bytes from jobs"
        " where job_id = $id and ($queue is null or queue = $queue or namespace || '/' || queue = $queue)"
        " and ($namespace is null or namespace = $namespace) and ($db is null or db = $db) order by all",
        {"id": text, "queue": queue, "namespace": namespace, "db": db},
    )
    refs = [JobRef(**row) for row in rows]
    if isinstance(job_id, bytes):
        refs = [ref for ref in refs if (text.encode() if ref.job_id_bytes is None else ref.job_id_bytes) == job_id]
    return refs


def picture(case: Case, ref: JobRef) -> Picture:
    """Gathers what the tables hold of one job."""
    return pictures(case, [ref])[0]


def pictures(case: Case, refs: Sequence[JobRef], *, payloads: bool = True) -> list[Picture]:
    """Gathers what the tables hold of some jobs, each table read once for all of them.

    Args:
        case: an open case.
        refs: jobs that are in it.
        payloads: whether to read payloads: they may be most of a case, and a few of them cost as much as all.
    """
    if not refs:
        return []
    asked = _Asked(case, refs)
    as_of = {info.number: info.as_of_ms for info in case.manifest.evidence}
    jobs = asked.rows(
        f"select {{a}}, t.*{'' if payloads else ' exclude (payload)'} from jobs t join asked a using ({{it}}) {{same}}"
    )
    schedule_ids = [rows[0].get("schedule_id") if rows else None for rows in jobs]
    queues = asked.rows(f"select {{a}}, {_OF_QUEUE} from queues t join asked a using ({{queue}}) {{same_queue}}")
    places = asked.rows(_PLACES)
    holders = asked.rows("select {a}, t.* from workers t join asked a using ({it}) {same} order by kind, worker_id")
    parents = asked.rows(_KIN.format(mine="source", other="target", a="{a}"))
    children = asked.rows(_KIN.format(mine="target", other="source", a="{a}"))
    links = asked.rows(
        "select {a}, kind, via, source_id, valid_until, key from relations t join asked a on t.evidence = a.evidence"
        " and t.db = a.db and target_namespace = a.namespace and target_queue = a.queue and target_id = a.job_id"
        " where kind <> 'parent' and target_id_bytes is not distinct from a.job_id_bytes order by all"
    )
    schedules = asked.rows(
        "select {a}, t.schedule_id, spec, next_at, last_at, t.job_id from schedules t join asked a using ({queue})"
        " {same_queue} and ((t.job_id = a.job_id and t.job_id_bytes is not distinct from a.job_id_bytes)"
        " or t.schedule_id = ($schedules::varchar[])[a.nth + 1])"
        " order by t.schedule_id",
        schedules=schedule_ids,
    )
    events = asked.rows(
        'select {a}, "at", event, stream_id, fields from events t join asked a using ({it}) {same} order by "at",'
        " try_cast(split_part(stream_id, '-', 2) as ubigint)"
    )
    lines = asked.rows("select {a}, count(*) as n from logs t join asked a using ({it}) {same} group by 1")
    logs = asked.rows(
        "select {a}, position, line from logs t join asked a using ({it}) {same}"
        f" qualify row_number() over (partition by a.nth order by position desc) <= {LOG_LINES} order by position"
    )
    findings = asked.rows(
        "select {a}, check_id, severity, certainty, message, retry, retry_why, heals, heals_at, heals_basis, help_url"
        " from findings t join asked a using ({it})"
        " where t.job_id_bytes is not distinct from a.job_id_bytes order by all"
    )
    alike = asked.rows("select {a}, count(*) as n from jobs t join asked a using ({it}) group by 1")
    return [
        Picture(
            ref=ref,
            as_of_ms=as_of.get(ref.evidence),
            job=jobs[n][0],
            queue=queues[n][0] if queues[n] else {},
            places=places[n],
            holders=holders[n],
            parents=_together(parents[n]),
            children=_together(children[n]),
            links=links[n],
            schedules=schedules[n],
            events=events[n],
            log_lines=lines[n][0]["n"] if lines[n] else 0,
            logs=logs[n],
            findings=findings[n],
            namesakes=alike[n][0]["n"] - 1,
        )
        for n, ref in enumerate(refs)
    ]


_QUEUE = "evidence, db, namespace, queue"
_SAME_QUEUE = (
    "where t.namespace_bytes is not distinct from a.namespace_bytes"
    " and t.queue_bytes is not distinct from a.queue_bytes"
)
_SAME_JOB = f"{_SAME_QUEUE} and t.job_id_bytes is not distinct from a.job_id_bytes"
# A list is taken from at its tail, a zset at its head; a marker that stands in between is no entry.
_PLACES = """
    , mine as materialized (
        select a.nth, t.* from membership t join asked a using ({it}) {same}
    ),
    sized as (
        -- The groups of one stream share its key, and each has its own list of pending entries.
        select t.key, t.structure, t.evidence, t.db, t.namespace, t.queue, count(*) as size from membership t
        semi join mine m using (evidence, db, namespace, queue, key, structure) group by all
    ),
    others as (
        select m.nth, m.key, m.structure, m.position, count(*) as before
        from mine m join membership t on t.evidence = m.evidence and t.db = m.db and t.key = m.key
        where t.structure <> m.structure and t.position < m.position group by all
    )
    select nth, structure, kind, position, size,
        case kind when 'list' then size - (position - coalesce(before, 0)) else position + 1 - coalesce(before, 0) end
            as turn,
        score, due_at, sequence, decides_state, "group", key
    from mine join sized using (evidence, db, namespace, queue, key, structure)
    left join others using (nth, key, structure, position)
    order by decides_state desc, structure, position
"""
_KIN = """
    select {a}, r.{other}_namespace as namespace, r.{other}_queue as queue, r.{other}_id as job_id,
        r.{other}_id_bytes as job_id_bytes, r.via, j.state, j.has_record
    from relations r
    join asked a on r.evidence = a.evidence and r.db = a.db and r.{mine}_namespace = a.namespace
        and r.{mine}_queue = a.queue and r.{mine}_id = a.job_id
        and r.{mine}_id_bytes is not distinct from a.job_id_bytes
    left join jobs j on j.evidence = r.evidence and j.db = r.db and j.namespace = r.{other}_namespace
        and j.queue = r.{other}_queue and j.job_id = r.{other}_id
        and j.job_id_bytes is not distinct from r.{other}_id_bytes
    where r.kind = 'parent'
    order by all
"""


class _Asked:
    """The jobs asked for, as the relation `asked` that queries join with."""

    _WITH = (
        "with asked as materialized (select unnest($nth::int[]) as nth, unnest($e::int[]) as evidence,"
        " unnest($db::bigint[]) as db, unnest($ns::varchar[]) as namespace, unnest($q::varchar[]) as queue,"
        " unnest($id::varchar[]) as job_id, unnest($xns::blob[]) as namespace_bytes,"
        " unnest($xq::blob[]) as queue_bytes, unnest($xid::blob[]) as job_id_bytes) "
    )

    def __init__(self, case: Case, refs: Sequence[JobRef]) -> None:
        self._case = case
        self._values: dict[str, Any] = {
            "nth": list(range(len(refs))),
            "e": [ref.evidence for ref in refs],
            "db": [ref.db for ref in refs],
            "ns": [ref.namespace for ref in refs],
            "q": [ref.queue for ref in refs],
            "id": [ref.job_id for ref in refs],
            "xns": [ref.namespace_bytes for ref in refs],
            "xq": [ref.queue_bytes for ref in refs],
            "xid": [ref.job_id_bytes for ref in refs],
        }

    def rows(self, query: str, **values: Any) -> list[list[Row]]:
        """For each job its rows, in the query's order; `{a}` in it is the column that tells whose they are."""
        query = query.replace("{a}", "a.nth").replace("{it}", f"{_QUEUE}, job_id").replace("{queue}", _QUEUE)
        query = query.replace("{same}", _SAME_JOB).replace("{same_queue}", _SAME_QUEUE)
        out: list[list[Row]] = [[] for _ in self._values["nth"]]
        for row in _rows(self._case, self._WITH + query, {**self._values, **values}):
            out[row.pop("nth")].append(row)
        return out


def _together(kin: list[Row]) -> list[Row]:
    """One row a relative, however many keys record the link."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in kin:
        place = (row["namespace"], row["queue"], row["job_id"], row["job_id_bytes"])
        known = found.setdefault(place, {**row, "via": ""})
        known["via"] = f"{known['via']}, {row['via']}" if known["via"] else row["via"]
    return list(found.values())


def _rows(case: Case, query: str, values: dict[str, Any]) -> list[Row]:
    table = case.query(query, values)
    return [dict(zip(table.column_names, row, strict=True)) for row in records(table, lambda ms: ms)]
