"""What still names an id that is no job: it was one once, or never was."""

from __future__ import annotations

from jobsleuth.case import Case
from jobsleuth.reports.rows import records
from jobsleuth.reports.words import moment
from jobsleuth.safetext import terminal

_MOST = 3
_NAMING = """
    select 1 as rank, kind || ' ' || coalesce(source_id, key) as what,
        concat_ws('/', target_namespace, target_queue) as place, valid_until as until, null as since
    from relations where target_id = $id
    union all
    select 2, kind || coalesce(' of ' || host || ':' || pid, ' ' || worker_id, ''), concat_ws('/', namespace, queue),
        valid_until, started_at
    from workers where job_id = $id
    union all
    select 3, 'event ' || event, concat_ws('/', namespace, queue), null, "at" from events where job_id = $id
"""


def traces(case: Case, job_id: str) -> list[str]:
    """Locks, workers and events that name the id, the first few in a line each, safe to print; and how many more.

    A lock outlives its task, and so does the history of a schedule.

    Args:
        case: an open case.
        job_id: as in the tables.
    """
    query = f"select what, place, until, since from ({_NAMING}) order by rank, since desc, what, place, until"
    found = list(records(case.query(query, {"id": job_id}), lambda ms: ms))
    told = []
    for what, place, until, since in found[:_MOST]:
        text = f"{terminal(str(what), 200)} in {terminal(str(place), 60)}"
        text += f", since {moment(since)} UTC" if since is not None else ""
        told.append(text + (f", until {moment(until)} UTC" if until is not None else ""))
    return told + ([f"{len(found) - _MOST:,} more"] if len(found) > _MOST else [])
