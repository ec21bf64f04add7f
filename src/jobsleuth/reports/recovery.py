"""What an engineer needs to enqueue lost, stuck or failed jobs again by their own code; never commands for Redis."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from jobsleuth.case import Case
from jobsleuth.reports.rows import jsonable, records
from jobsleuth.reports.words import moment

LOST, STUCK, FAILED = "lost", "stuck", "failed"
COLUMNS = (
    "listed_as",
    "why",
    "may_have_run",
    "may_have_run_why",
    "dialect",
    "namespace",
    "queue",
    "db",
    "evidence",
    "job_id",
    "name",
    "state",
    "data",
    "data_complete",
    "options",
    "error",
    "attempts",
    "max_attempts",
    "created_at",
    "scheduled_at",
    "started_at",
    "finished_at",
    "parent_queue",
    "parent_id",
)
"""Members of an entry, in this order."""

_JOB = "evidence, db, dialect, namespace, queue, job_id"
_EXACT = "coalesce(job_id_bytes, ''::blob) as exact"
"""Two ids may read the same as text."""
_OVER = "('completed', 'failed', 'archived', 'acknowledged')"
# Checks that speak of work that does not go on; what a record or a uniqueness key looks like stops nobody.
_STOPPED = "left(check_id::varchar, 2) in ('LV', 'MB', 'PL', 'RL', 'SC', 'SM', 'ST')"
_WHICH = {
    LOST: f"has_record and state = 'unknown' or not has_record and state not in {_OVER}",
    STUCK: f"has_record and state not in {_OVER} and state <> 'unknown' and told.stops",
    FAILED: "has_record and state in ('failed', 'archived')",
}
_WHY = {
    LOST: "case when has_record then 'no structure of the queue holds it: no worker will find it'"
    " else 'a structure holds its id, but its record is gone: name, data and options are lost' end",
    STUCK: "told.why",
    FAILED: "case when coalesce(error, '') = '' then 'it failed for good' else 'it failed for good: ' || error end",
}
_QUERY = """
    with told as (
        select {job}, {exact},
            array_to_string(list_sort(list_distinct(list(check_id::varchar || ': ' || message))), '; ') as why,
            bool_or({stopped} and severity::varchar <> 'info') as stops,
            min({{'rank': case retry::varchar when 'unsafe' then 0 when 'safe' then 2 else 1 end, 'why': retry_why}})
                filter (retry is not null) as retry
        from findings where job_id is not null group by {job}, exact
    )
    select '{kind}' as listed_as, {why} as why,
        coalesce({own}, case told.retry.rank when 0 then 'yes' when 2 then 'no' end, 'unknown') as may_have_run,
        coalesce({own_why}, told.retry.why, 'nothing in the evidence says whether it was started') as may_have_run_why,
        {job}, name, state::varchar as state, payload as data,
        has_record and coalesce(payload_bytes is null or octet_length(payload) = payload_bytes, false) as data_complete,
        error, attempts, max_attempts, created_at, scheduled_at, started_at, finished_at, parent_queue, parent_id,
        rest['opts'] as opts, timeout_s, epoch_ms(deadline) as deadline_ms, retention_s, deduplication_id, "group"
    from (select *, {exact} from jobs) left join told using ({job}, exact)
    where ({which}) and ($queue is null or $queue in (queue, namespace || '/' || queue))
    order by {job}
"""
_RAN = "attempts > 0 or attempts_started > 0 or started_at is not null or last_failed_at is not null"


def recovery(case: Case, kinds: Sequence[str], queue: str | None = None) -> Iterator[dict[str, Any]]:
    """One entry a job and reason to list it, payload included; `data` is text where it is UTF-8, else `{"b64": …}`.

    Args:
        case: an open case.
        kinds: of :data:`LOST` (no worker will find it), :data:`STUCK` (waiting or active, and a finding says why it
            does not go on) and :data:`FAILED` (for good).
        queue: only of this queue: its name, or `namespace/queue`.
    """
    for kind in kinds:
        failed = kind == FAILED
        query = _QUERY.format(
            job=_JOB,
            exact=_EXACT,
            stopped=_STOPPED,
            kind=kind,
            why=_WHY[kind],
            which=_WHICH[kind],
            own=f"case when {_RAN} then 'yes' end" if failed else "null",
            own_why=f"case when {_RAN} then 'it was started and failed' end" if failed else "null",
        )
        found = case.stream(query, {"queue": queue})
        names = found.schema.names
        for row in records(found, lambda ms: moment(ms, iso=True)):
            entry = dict(zip(names, row, strict=True))
            entry["options"] = _options(entry)
            yield {name: jsonable(entry[name]) for name in COLUMNS}


def _options(entry: dict[str, Any]) -> Any:
    """What the library was told of how to run it; text of BullMQ's that is no JSON stays text."""
    if entry["dialect"] == "asynq":
        given = {
            "max_retry": entry["max_attempts"],
            "timeout_s": entry["timeout_s"],
            "deadline": None if entry["deadline_ms"] is None else moment(entry["deadline_ms"], iso=True),
            "retention_s": entry["retention_s"],
            "unique_key": entry["deduplication_id"],
            "group": entry["group"],
        }
        return {name: value for name, value in given.items() if value not in (None, "", 0)}
    if entry["opts"] is None:
        return None
    try:
        return json.loads(entry["opts"], parse_constant=_refused, parse_float=_number)
    except (ValueError, RecursionError):
        return entry["opts"]


def _refused(word: str) -> None:
    """`NaN` and the like: Python reads them, JSON has them not."""
    raise ValueError(word)


def _number(text: str) -> float | str:
    """Text where the number is beyond what can be written again."""
    value = float(text)
    return value if math.isfinite(value) else text
