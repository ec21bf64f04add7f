"""One job told: a paragraph first, then the picture it rests on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jobsleuth.reports.picture import PAYLOAD_SHOWN, Picture, Row
from jobsleuth.reports.text import WIDTH, Line, flow
from jobsleuth.reports.words import age, moment, number, series
from jobsleuth.safetext import from_bytes, terminal

_FED_AT_HEAD = ("wait", "paused", "pending")
"""Lists that both libraries fill at the head and take from at the tail."""
_EVENTS = 50
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
_TIMES = frozenset(n for n, _ in _RECORD if n.endswith("_at")) | {"pending_since", "deadline"}


def story(picture: Picture) -> str:
    """What happened to the job, as far as the snapshot tells, in one paragraph."""
    job = picture.job
    parts = [_beginning(picture)]
    if job.get("has_record"):
        parts.append(_now(picture))
    elif picture.places:
        parts.append(f"{series(sorted({str(p['structure']) for p in picture.places}))} still names it")
    text = "; ".join(p for p in parts if p) + "."
    text = text[0].upper() + text[1:]
    claimed = job.get("claimed_state")
    if claimed is not None and claimed != job.get("state"):
        text += f" Its record says {claimed}, but where it really is says {job.get('state')}."
    if picture.findings:
        text += f" {number(len(picture.findings), 'finding speaks', 'findings speak')} of it."
    return terminal(text)


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
    yield from _section("Record" if job.get("has_record") else "Record: none", _record(job), width)
    yield from _section("Where the id is" if picture.places else "Where the id is: nowhere", _places(picture), width)
    yield from _section("Held by", _holders(picture), width)
    yield from _section("Parents", (_kin(p) for p in picture.parents), width)
    yield from _section(f"Children: {len(picture.children):,}", (_kin(c) for c in picture.children[:_KIN]), width)
    yield from _section("Linked by", map(_link, picture.links), width)
    yield from _section("Schedule", map(_schedule, picture.schedules), width)
    yield from _section("Events, oldest first", _events(picture), width)
    logs = [f"{number(picture.log_lines, 'line')} in {job.get('key')}:logs"] if picture.log_lines else []
    yield from _section("Log", logs, width)
    yield from _section(
        "Findings",
        (f"{f['severity']} {f['check_id']} ({f['certainty']}): {f['message']}" for f in picture.findings),
        width,
    )


def _beginning(picture: Picture) -> str:
    job = picture.job
    if not job.get("has_record"):
        return "There is no record of this job: only its id is known"
    parts = []
    if job.get("created_at") is not None:
        parts.append(f"added {moment(job['created_at'])}")
    if job.get("started_at") is not None:
        holder = job.get("worker_name") or next((h["worker_id"] for h in picture.holders if h.get("worker_id")), None)
        parts.append(f"last started {moment(job['started_at'])}{f' by {holder}' if holder else ''}")
    attempts, limit = job.get("attempts"), job.get("max_attempts")
    if attempts:
        parts.append(f"{number(attempts, 'attempt')} made{f' of {limit:,}' if limit else ''}")
    return ", ".join(parts)


def _now(picture: Picture) -> str:
    job, state = picture.job, picture.job.get("state")
    if state == "active":
        return _active(picture)
    if state in ("delayed", "scheduled", "retry"):
        due = job.get("scheduled_at")
        text = f"{state}, due at an unknown time" if due is None else f"{state}, due {moment(due)}{_late(picture, due)}"
        return text + _why(job)
    if state in ("failed", "archived"):
        ended = job.get("finished_at")
        return f"{state}{f' {moment(ended)}' if ended is not None else ''}{_why(job)}"
    if state == "completed":
        ended, started = job.get("finished_at"), job.get("started_at")
        took = f", {age(ended - started)} after it started" if ended is not None and started is not None else ""
        return f"completed{f' {moment(ended)}' if ended is not None else ''}{took}"
    if state == "waiting-children":
        states: dict[str, int] = {}
        for child in picture.children:
            name = child["state"] or "gone"
            states[name] = states.get(name, 0) + 1
        told = series([f"{n:,} {name}" for name, n in sorted(states.items())])
        return f"it waits for its children ({told})" if told else "it waits for children, but none is recorded"
    if state == "unknown":
        return "no structure that decides a state holds it, so no worker will find it"
    first = next((p for p in picture.places if p.get("decides_state")), None)
    turn = _turn(first) if first is not None else ""
    return f"{state}{f', {turn}' if turn else ''}"


def _active(picture: Picture) -> str:
    now, holders = picture.as_of_ms, [h for h in picture.holders if h["kind"] in ("lock", "lease")]
    if not holders:
        return "active, but no lock or lease on it exists: nobody is working on it"
    holder = holders[0]
    until = holder.get("valid_until")
    if until is None:
        return f"active under a {holder['kind']} that never runs out"
    if now is None:
        return f"active under a {holder['kind']} valid until {moment(until)}"
    if holder.get("valid"):
        return f"active, its {holder['kind']} is valid for {age(until - now)} more"
    return (
        f"active, but its {holder['kind']} ran out {age(now - until)} before the snapshot and nobody has taken it since"
    )


def _late(picture: Picture, due: int) -> str:
    now = picture.as_of_ms
    if now is None:
        return ""
    return f" ({age(now - due)} overdue)" if due <= now else f" (in {age(due - now)})"


def _why(job: Row) -> str:
    error = job.get("error")
    return f": {error[:200]}" if error else ""


def _turn(row: Row) -> str:
    position, size = row.get("position"), row.get("size")
    if row.get("structure") in _FED_AT_HEAD and position is not None and size:
        left = size - position
        return "next to be taken" if left == 1 else f"number {left:,} to be taken"
    return ""


def _record(job: Row) -> Iterator[str]:
    for column, label in _RECORD:
        value = job.get(column)
        if value is not None and value not in ("", 0):
            yield f"{label}: {moment(value) + ' UTC' if column in _TIMES else value}"
    if job.get("claimed_state") is not None:
        yield f"state by its record: {job['claimed_state']}"
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
        text = f"{row['structure']} ({row['kind']} of {row['size']:,})"
        if row.get("position") is not None:
            text += f", position {row['position']:,}"
        turn = _turn(row)
        text += f", {turn}" if turn else ""
        if row.get("score") is not None:
            text += f", score {row['score']!r}"
        if row.get("due_at") is not None:
            late = _late(picture, row["due_at"]) if row.get("decides_state") else ""
            text += f" = {moment(row['due_at'])} UTC{late}"
        yield text + ("" if row.get("decides_state") else ", does not decide the state")


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
    return (
        f"{row['job_id']} in {row['namespace']}/{row['queue']}: {row['state'] or 'not in this case'} (by {row['via']})"
    )


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
