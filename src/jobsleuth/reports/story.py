"""One job told: a paragraph first, then the picture it rests on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jobsleuth.reports.picture import PAYLOAD_SHOWN, Picture, Row
from jobsleuth.reports.sentences import late, own_words, priority_of, story, turn
from jobsleuth.reports.text import WIDTH, Line, flow
from jobsleuth.reports.words import moment, number
from jobsleuth.safetext import from_bytes, terminal

__all__ = ["picture_lines", "story"]

_AWAITED = ("delayed", "scheduled", "retry")
_EVENTS = 50
_LOG = 50
_KIN = 20
_RECORD = (
    ("name", "name"),
    ("created_at", "added"),
    ("scheduled_at", "due"),
    ("started_at", "started"),
    ("finished_at", "finished"),
    ("last_failed_at", "last failed"),
    ("pending_since", "pending since"),
    ("deadline", "deadline"),
    ("priority", "priority"),
    ("delay_ms", "delay (ms)"),
    ("timeout_s", "timeout (s)"),
    ("retention_s", "kept after success (s)"),
    ("stalled_count", "recovered after a lost lock"),
    ("worker_name", "worker"),
    ("schedule_id", "schedule"),
    ("deduplication_id", "deduplication id"),
    ("group", "group"),
    ("progress", "progress"),
    ("error", "error"),
    ("deferred_failure", "will fail with"),
    ("decode_error", "cannot be decoded"),
    ("key", "key"),
)
_VIA = {
    "dependencies": "pending",
    "processed": "its result is taken",
    "failed": "its failure is ignored",
    "unsuccessful": "its failure fails the parent",
}
"""Where BullMQ records a child → what that means to the parent."""
_TIMES = frozenset(n for n, _ in _RECORD if n.endswith("_at")) | {"pending_since", "deadline"}


def picture_lines(picture: Picture, width: int = WIDTH) -> Iterator[Line]:
    """Story and picture, line by line; everything from the evidence escaped."""
    ref, job = picture.ref, picture.job
    title = (
        (f"{terminal(ref.job_id)} ", "strong"),
        (f"in {terminal(ref.place)} (db {ref.db}): ", "plain"),
        (terminal(str(job.get("state"))), "strong"),
    )
    yield from flow(title, width)
    yield from flow(((story(picture), "plain"),), width)
    yield from _section("Record" if job.get("has_record") else "Record: none", _record(picture), width)
    yield from _section("Where the id is" if picture.places else "Where the id is: nowhere", _places(picture), width)
    yield from _section("Held by", _holders(picture), width)
    yield from _section("Parents", (_kin(p) for p in picture.parents), width)
    yield from _section(f"Children: {len(picture.children):,}", (_kin(c) for c in picture.children[:_KIN]), width)
    yield from _section("Linked by", map(_link, picture.links), width)
    yield from _section("Schedule", map(_schedule, picture.schedules), width)
    yield from _section("Events, oldest first", _events(picture), width)
    yield from _section("Log, oldest first", _log(picture), width)
    yield from _section(
        "Findings",
        (f"{f['severity']} {f['check_id']} ({f['certainty']}): {f['message']}" for f in picture.findings),
        width,
    )


def _record(picture: Picture) -> Iterator[str]:
    job = picture.job
    for column, label in _RECORD:
        value = job.get(column)
        if value is not None and value not in ("", 0):
            yield f"{label}: {moment(value) + ' UTC' if column in _TIMES else value}"
    claimed = job.get("claimed_state") or own_words(picture)
    if claimed is not None:
        yield f"by its own record: {claimed}"
    if job.get("attempts") is not None:
        limit = f" of {job['max_attempts']:,}" if job.get("max_attempts") else ""
        yield f"attempts: {job['attempts']:,}{limit}"
    if job.get("parent_id") is not None:
        yield f"parent: {job['parent_id']} in {job.get('parent_namespace')}/{job.get('parent_queue')}"
    if job.get("payload_bytes") is not None:
        kept = job.get("payload")
        shape = f", {job['payload_format']}" if job.get("payload_format") else ""
        yield f"payload: {number(job['payload_bytes'], 'byte')}{shape}"
        if kept:
            yield f"  {_head(kept)}"
    if job.get("result") is not None:
        yield f"result: {number(len(job['result']), 'byte')}"
        yield f"  {_head(job['result'])}"
    for name, value in (job.get("rest") or {}).items():
        yield f"also stored, {name}: {_head(value or b'')}"


def _head(value: bytes) -> str:
    return from_bytes(value[:PAYLOAD_SHOWN]) + ("…" if len(value) > PAYLOAD_SHOWN else "")


def _places(picture: Picture) -> Iterator[str]:
    for row in picture.places:
        name = f"{row['structure']} {row['group']}" if row.get("group") is not None else row["structure"]
        text = f"{name} ({row['kind']} of {row['size']:,})"
        if row.get("position") is not None:
            text += f", position {row['position']:,}"
        when = turn(row)
        text += f", {when}" if when else ""
        if row.get("score") is not None:
            text += f", score {row['score']!r}"
        if row.get("due_at") is not None:
            # What is over is not late, and a parent waits for no time.
            due = row["structure"] in _AWAITED
            text += f" = {moment(row['due_at'])} UTC{late(picture, row['due_at']) if due else ''}"
        text += _packed(row)
        yield text + _rule(picture, row)


def _rule(picture: Picture, row: Row) -> str:
    """Which of several structures decides the state: the library serves one of them first."""
    if not row.get("decides_state"):
        return ", does not decide the state"
    decider, others = picture.job.get("decided_by"), [p for p in picture.places if p.get("decides_state")]
    if decider is None or len({p["structure"] for p in others}) < 2:
        return ""
    return ", decides the state" if row["structure"] == decider else ", is served later and does not decide the state"


def _packed(row: Row) -> str:
    """What BullMQ packs into a score besides the time."""
    if row.get("sequence") is None:
        return ""
    priority = priority_of(row)
    if priority is not None:
        return f" = priority {priority:,}, counter {row['sequence']:,}"
    return f", tie-breaker {row['sequence']:,}"


def _log(picture: Picture) -> Iterator[str]:
    shown = picture.logs[-_LOG:]
    if picture.log_lines > len(shown):
        yield f"({number(picture.log_lines - len(shown), 'older line')} not shown)"
    for row in shown:
        yield str(row["line"])


def _holders(picture: Picture) -> Iterator[str]:
    for row in picture.holders:
        until = row.get("valid_until")
        text = f"{row['kind']} {row.get('worker_id') or ''}".rstrip()
        if row.get("host") is not None:
            text += f" on {row['host']}{' pid ' + str(row['pid']) if row.get('pid') is not None else ''}"
        if row.get("started_at") is not None:
            text += f", since {moment(row['started_at'])} UTC"
        if until is not None:
            text += f", valid until {moment(until)} UTC"
        elif row["kind"] == "lock":
            text += ", never runs out"
        valid = row.get("valid")
        yield text + ("" if valid is None else " (valid at the snapshot)" if valid else " (run out)")


def _kin(row: Row) -> str:
    via = [_VIA.get(v, v) for v in str(row["via"]).split(", ")]
    if "parentKey" in via and len(via) > 1:
        via.remove("parentKey")
    state = row["state"] or "not in this case"
    return f"{row['job_id']} in {row['namespace']}/{row['queue']}: {state} ({', '.join(dict.fromkeys(via))})"


def _link(row: Row) -> str:
    until = f", until {moment(row['valid_until'])} UTC" if row.get("valid_until") is not None else ""
    return f"{row['kind']} {row['source_id']}{until}"


def _schedule(row: Row) -> str:
    due = f", next {moment(row['next_at'])} UTC" if row.get("next_at") is not None else ""
    return f"{row['schedule_id']}: {row.get('spec') or 'spec unknown'}{due}"


def _events(picture: Picture) -> Iterator[str]:
    left = len(picture.events) - _EVENTS
    if left > 0:
        yield f"({left:,} older ones not shown)"
    for row in picture.events[-_EVENTS:]:
        fields = ", ".join(f"{k} {v}" for k, v in (row.get("fields") or {}).items() if v is not None)
        when = moment(row["at"]) if row.get("at") is not None else row["stream_id"]
        yield f"{when}  {row['event']}{'  ' + terminal(fields, 160) if fields else ''}"


def _section(title: str, rows: Any, width: int) -> Iterator[Line]:
    found = list(rows)
    if not found and ":" not in title:
        return
    if title.startswith("Children") and not found:
        return
    yield ()
    yield ((title, "strong"),)
    for row in found:
        yield from flow(((f"  {terminal(row)}", "plain"),), width, hang=2)
