"""One job told: a paragraph first, then the picture it rests on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from jobsleuth.reports.commands import explain_command
from jobsleuth.reports.picture import OF_APPLICATION, PAYLOAD_SHOWN, Picture
from jobsleuth.reports.rows import Row
from jobsleuth.reports.sentences import late, own_words, priority_of, story, turn
from jobsleuth.reports.text import WIDTH, Line, flow
from jobsleuth.reports.words import moment, number
from jobsleuth.safetext import from_bytes, terminal

__all__ = ["picture_lines", "sections", "story"]

_AGAIN = {"unsafe": "may do its work twice", "safe": "safe", "unknown": "not known whether that is safe"}
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


def picture_lines(picture: Picture, width: int = WIDTH, shown: int | None = PAYLOAD_SHOWN) -> Iterator[Line]:
    """Story and picture, line by line; everything from the evidence escaped."""
    ref, job = picture.ref, picture.job
    title = (
        (f"{terminal(ref.job_id)} ", "strong"),
        (f"(bytes {ref.job_id_bytes.hex()}) " if ref.job_id_bytes is not None else "", "plain"),
        (f"in {terminal(ref.place)} (db {ref.db}): ", "plain"),
        (terminal(str(job.get("state"))), "strong"),
    )
    yield from flow(title, width)
    yield from flow(((story(picture), "plain"),), width)
    for heading, rows in sections(picture, shown):
        yield ()
        yield ((heading, "strong"),)
        for row in rows:
            yield from flow(((f"  {row}", "plain"),), width, hang=2)


def sections(picture: Picture, shown: int | None = PAYLOAD_SHOWN) -> Iterator[tuple[str, list[str]]]:
    """The picture in parts: heading and lines, everything from the evidence escaped.

    Args:
        picture: of which job.
        shown: so many first bytes of what the application stored (payload, result, progress, log, fields that jobsleuth
            has no column for); None: of all these no byte, but size and digest.
    """
    has_record = picture.job.get("has_record")
    found: tuple[tuple[str, Iterable[str], bool], ...] = (
        ("Record" if has_record else "Record: none", _record(picture, shown), True),
        ("Where the id is" if picture.places else "Where the id is: nowhere", _places(picture), True),
        ("Held by", _holders(picture), False),
        ("Parents", (_kin(p) for p in picture.parents), False),
        (f"Children: {len(picture.children):,}", (_kin(c) for c in picture.children[:_KIN]), False),
        ("Linked by", map(_link, picture.links), False),
        ("Schedule", map(_schedule, picture.schedules), False),
        ("Events, oldest first", _events(picture, shown), False),
        ("Log, oldest first", _log(picture, shown), False),
        (
            "Findings",
            (f"{f['severity']} {f['check_id']} ({f['certainty']}): {f['message']}" for f in picture.findings),
            False,
        ),
        ("What next", _next(picture), False),
    )
    for heading, rows, always in found:
        lines = [terminal(row) for row in rows]
        if lines or (always and ":" in heading):
            yield heading, lines


def _next(picture: Picture) -> Iterator[str]:
    """Whether it may run again and on what that rests, what repairs it, and where it stands what to do."""
    told = picture.findings
    for verdict, why in dict.fromkeys((f.get("retry"), f.get("retry_why")) for f in told if f.get("retry")):
        yield f"run again: {_AGAIN.get(str(verdict), verdict)}{f': {why}' if why else ''}"
    remedies = ((f.get("heals"), f.get("heals_at"), f.get("heals_basis")) for f in told if f.get("heals"))
    for heals, at, basis in dict.fromkeys(remedies):
        by = f", by {moment(at)} UTC" if at is not None else ""
        yield f"heals by itself: {heals}{by} ({basis or 'derived'})"
    for check_id, own in dict.fromkeys((f["check_id"], f.get("help_url") is None) for f in told):
        yield f"what to do: {explain_command(check_id, own)}"


def _record(picture: Picture, shown: int | None) -> Iterator[str]:
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
        shape = f", {job['payload_format']}" if job.get("payload_format") else ""
        yield from _value("payload", job.get("payload"), shown, shape, job["payload_bytes"])
    for label in ("result", "progress"):
        if job.get(label) not in (None, "", b""):
            yield from _value(label, job[label], shown)
    for name, value in (job.get("rest") or {}).items():
        yield from _value(f"also stored, {name}", value or b"", shown)
    if job.get("unknown_fields"):
        # As number:wire type, or, where messages are JSON, as name:json with the value among what is also stored.
        unread = job.get("message_rest")
        size = f" ({number(len(unread), 'byte')}, shown by --decode-raw)" if unread else ""
        yield f"fields that no known release writes: {', '.join(job['unknown_fields'])}{size}"
    if job.get("undecoded"):
        yield f"stored message: {number(len(job['undecoded']), 'byte')}, shown by --decode-raw"


def _value(
    label: str, value: bytes | str | None, shown: int | None, shape: str = "", size: int | None = None
) -> Iterator[str]:
    """What the application stored: its size, and its beginning or its digest. `size` is that of the whole value."""
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value or b""
    whole = len(data) if size is None else size
    text = f"{label}: {number(whole, 'byte')}{shape}"
    if shown is not None:
        yield text
        if data:
            yield f"  {from_bytes(data[:shown])}{'…' if len(data) > shown else ''}"
    elif data:
        of = "" if len(data) == whole else f" of the first {len(data):,}"
        yield f"{text}, sha256{of} {hashlib.sha256(data).hexdigest()[:16]}"
    else:
        yield text


def _places(picture: Picture) -> Iterator[str]:
    for row in picture.places:
        # Of a backup only its key says what it is the backup of.
        more = row["key"] if row["structure"] == "backup" else row.get("group")
        name = row["structure"] if more is None else f"{row['structure']} {more}"
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


def _log(picture: Picture, shown: int | None) -> Iterator[str]:
    if shown is None:
        if picture.log_lines:
            yield f"{number(picture.log_lines, 'line')}, not shown here"
        return
    newest = picture.logs[-_LOG:]
    if picture.log_lines > len(newest):
        yield f"({number(picture.log_lines - len(newest), 'older line')} not shown)"
    for row in newest:
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


def _events(picture: Picture, shown: int | None) -> Iterator[str]:
    left = len(picture.events) - _EVENTS
    if left > 0:
        yield f"({left:,} older ones not shown)"
    for row in picture.events[-_EVENTS:]:
        given = ((k, v) for k, v in (row.get("fields") or {}).items() if v is not None)
        fields = ", ".join(
            next(_value(k, v, None)) if shown is None and k in OF_APPLICATION else f"{k} {v}" for k, v in given
        )
        when = moment(row["at"]) if row.get("at") is not None else row["stream_id"]
        yield f"{when}  {row['event']}{'  ' + terminal(fields, 160) if fields else ''}"
