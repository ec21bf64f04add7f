"""What happened to one job, in plain sentences: how it began, where it is now, and what does not fit together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from jobsleuth.reports.picture import Picture
from jobsleuth.reports.rows import Row
from jobsleuth.reports.words import age, moment, number, series
from jobsleuth.safetext import terminal

_FED_AT_HEAD = ("wait", "paused", "pending")
"""Lists that both libraries fill at the head and take from at the tail."""
_READY = ("waiting", "prioritized", "paused", "pending")
_OVER = ("completed", "failed")
_RUN_NEXT = ("wait", "paused", "prioritized", "delayed", "active")
"""Structures of BullMQ from which an id is taken to be worked on."""
_STATE_OF_EVENT = {
    "waiting": ("waiting", "prioritized", "paused"),
    "active": ("active",),
    "delayed": ("delayed",),
    "waiting-children": ("waiting-children",),
    "completed": ("completed",),
    "failed": ("failed",),
    "stalled": ("waiting", "prioritized", "paused"),
    "removed": (),
}
"""Event of BullMQ that moves a job → states it leaves the job in."""
_NO_LIMIT = 9007199254740991
"""BullMQ's counter while a queue is limited by hand."""


def story(picture: Picture) -> str:
    """What happened to the job, as far as the snapshot tells, in one paragraph."""
    job = picture.job
    parts = [_beginning(picture)]
    if job.get("has_record"):
        parts.append(now(picture))
    elif picture.places:
        structures = sorted({str(p["structure"]) for p in picture.places})
        parts.append(f"{series(structures)} still {'names' if len(structures) == 1 else 'name'} it")
    text = "; ".join(p for p in parts if p) + "."
    sentences = [text[0].upper() + text[1:], *_more(picture)]
    claimed = job.get("claimed_state")
    if claimed is not None and claimed != job.get("state"):
        sentences.append(f"Its record says {claimed}, but where it really is says {job.get('state')}.")
    if picture.namesakes:
        told = number(picture.namesakes, "other job of its queue reads", "other jobs of its queue read")
        sentences.append(f"{told} the same as text: locks, kin, events and findings may speak of either.")
    if picture.findings:
        sentences.append(f"{number(len(picture.findings), 'finding speaks', 'findings speak')} of it.")
    return terminal(" ".join(sentences))


def turn(row: Row) -> str:
    """When the entry's turn is, as far as its structure has an order of taking; else the empty string."""
    position, size = row.get("position"), row.get("size")
    if row.get("structure") in _FED_AT_HEAD and position is not None and size:
        left = row.get("turn") or size - position
        return "next to be taken" if left == 1 else f"number {left:,} to be taken"
    if row.get("structure") == "prioritized" and row.get("turn"):
        return f"number {row['turn']:,} of {size:,} with a priority"
    return ""


def late(picture: Picture, due: int) -> str:
    """How far the time is from the snapshot, in brackets; the empty string where the snapshot has no time."""
    as_of = picture.as_of_ms
    if as_of is None:
        return ""
    return f" ({age(as_of - due)} overdue)" if due <= as_of else f" (in {age(due - as_of)})"


def priority_of(row: Row) -> int | None:
    """The priority in the score of an entry of BullMQ's `prioritized`, else None."""
    if row.get("structure") != "prioritized" or row.get("sequence") is None:
        return None
    return int((row["score"] - row["sequence"]) // (1 << 32))


def own_words(picture: Picture) -> str | None:
    """What the record of a BullMQ job says of its state, which it keeps in no field of its own."""
    job = picture.job
    if picture.ref.dialect != "bullmq" or not job.get("has_record"):
        return None
    if job.get("finished_at") is not None:
        kind = "completed" if job.get("result") is not None else "failed" if job.get("error") else "with no outcome"
        return f"finished, {kind}"
    if job.get("deferred_failure"):
        return "to be failed when it is taken next"
    return "started, not finished" if job.get("started_at") is not None else "never started"


def _beginning(picture: Picture) -> str:
    job = picture.job
    if not job.get("has_record"):
        return "There is no record of this job: only its id is known"
    parts = []
    if job.get("created_at") is not None:
        # Older releases note the schedule in no job; the schedule names its current one.
        mine = (s["schedule_id"] for s in picture.schedules if s.get("job_id") == picture.ref.job_id)
        maker = job.get("schedule_id") or next(mine, None)
        made = f" by schedule {maker}" if maker else ""
        parts.append(f"added {moment(job['created_at'])}{made}")
    if job.get("started_at") is not None:
        holder = job.get("worker_name") or next((h["worker_id"] for h in picture.holders if h.get("worker_id")), None)
        parts.append(f"last started {moment(job['started_at'])}{f' by {holder}' if holder else ''}")
    attempts, limit = job.get("attempts"), job.get("max_attempts")
    if attempts:
        parts.append(f"{number(attempts, 'attempt')} made{f' of {limit:,}' if limit else ''}")
    if job.get("stalled_count"):
        parts.append(f"recovered {number(job['stalled_count'], 'time')} after its lock was lost")
    return ", ".join(parts)


def now(picture: Picture) -> str:
    """Where the job is, why, and since or until when."""
    job, state = picture.job, picture.job.get("state")
    first = next((p for p in picture.places if p.get("decides_state")), None)
    if state == "active":
        return _active(picture)
    if state in ("delayed", "scheduled", "retry"):
        due = job.get("scheduled_at")
        text = f"{state}, due at an unknown time" if due is None else f"{state}, due {moment(due)}{late(picture, due)}"
        return text + _why(job)
    if state in ("failed", "archived"):
        ended = job.get("finished_at")
        return f"{state}{f' {moment(ended)}' if ended is not None else ''}{_why(job)}"
    if state == "completed":
        ended, started = job.get("finished_at"), job.get("started_at")
        took = f", {age(ended - started)} after it started" if ended is not None and started is not None else ""
        return f"completed{f' {moment(ended)}' if ended is not None else ''}{took}"
    if state == "waiting-children":
        states = Counter(child["state"] or "gone" for child in picture.children)
        told = series([f"{n:,} {name}" for name, n in sorted(states.items())])
        if not told:
            return "it waits for children, but none is recorded, so nothing will release it"
        return f"it waits for its children ({told})"
    if state in ("unknown", "stuck"):
        group = next((p["group"] for p in picture.places if p["structure"] == "group"), None)
        if group is not None:
            return f"it waits in group {group} of the paid edition, which the library's own states do not know"
        return "no structure that decides a state holds it, so no worker will find it"
    where = turn(first) if first is not None else ""
    again = ", after a failed attempt" + _why(job) if state in _READY and job.get("error") else ""
    return f"{state}{f', {where}' if where else ''}{again}"


def _active(picture: Picture) -> str:
    as_of, holders = picture.as_of_ms, [h for h in picture.holders if h["kind"] in ("lock", "lease")]
    if not holders:
        return "active, but no lock or lease on it exists: nobody is working on it"
    holder = holders[0]
    until = holder.get("valid_until")
    if until is None:
        return f"active under a {holder['kind']} that never runs out"
    if as_of is None:
        return f"active under a {holder['kind']} valid until {moment(until)}"
    if holder.get("valid"):
        return f"active, its {holder['kind']} is valid for {age(until - as_of)} more"
    return (
        f"active, but its {holder['kind']} ran out {age(as_of - until)} before the snapshot and nobody has taken it"
        " since"
    )


def _why(job: Row) -> str:
    error = job.get("error")
    return f": {error[:200]}" if error else ""


def _more(picture: Picture) -> Iterator[str]:
    """Sentences on what holds the job back and on what does not fit together."""
    if picture.ref.dialect == "bullmq":
        yield from _record_oddities(picture)
    yield from _place_oddities(picture)
    if picture.ref.dialect == "bullmq":
        yield from _lock_oddities(picture)
        yield from _queue_holds(picture)
        yield from _kin(picture)
        yield from _maker(picture)
        yield from _pins(picture)
        yield from _last_event(picture)


def _record_oddities(picture: Picture) -> Iterator[str]:
    job, state = picture.job, picture.job.get("state")
    if not job.get("has_record"):
        structures = {str(p["structure"]) for p in picture.places}
        if structures & set(_RUN_NEXT):
            yield "The next worker to take it will find an empty job."
        return
    if job.get("record_complete") is False:
        lost = ", as one that was written anew after it had been lost" if job.get("created_at") is None else ""
        yield f"Its record lacks fields that every job has{lost}."
    if job.get("finished_at") is not None and state not in _OVER:
        yield f"Its record says that it finished {moment(job['finished_at'])}."
    if state == "active" and job.get("started_at") is None:
        yield "Its record does not say that it was started."
    if job.get("deferred_failure"):
        yield f"The next worker to take it will fail it: {job['deferred_failure'][:200]}."
    if job.get("payload_format") == "opaque":
        yield "Its data is no JSON: a worker that takes it cannot read it."
    if not _is_object((job.get("rest") or {}).get("opts")):
        yield "Its options are no JSON object."
    due = job.get("scheduled_at")
    if state == "delayed" and due is not None and job.get("created_at") is not None and due < job["created_at"]:
        yield "It would be due before it was added: its score is none that the library writes."


def _is_object(text: bytes | None) -> bool:
    """Whether there is nothing to read, or what there is reads as a JSON object."""
    try:
        return not text or isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _place_oddities(picture: Picture) -> Iterator[str]:
    deciding = [p for p in picture.places if p.get("decides_state")]
    structures = list(dict.fromkeys(str(p["structure"]) for p in deciding))
    if len(structures) > 1:
        yield f"It is in {series(structures)} at once."
    for (structure, _), times in Counter((str(p["structure"]), p.get("key")) for p in deciding).items():
        if times > 1:
            yield f"The list {structure} names it {times:,} times, so it would be taken as often."
    if picture.ref.dialect == "bullmq" and picture.job.get("has_record"):
        for place in deciding:
            yield from _score_oddities(picture.job, place)


def _score_oddities(job: Row, place: Row) -> Iterator[str]:
    """Where a score says something else than the record."""
    structure, ended = place["structure"], job.get("finished_at")
    if structure in _OVER:
        if ended is None:
            yield "Its record does not say that it finished."
        elif place.get("due_at") is not None and place["due_at"] != ended:
            yield f"{structure} dates its end {moment(place['due_at'])}."
    rank = priority_of(place)
    if rank is not None and job.get("priority") is not None and rank != job["priority"]:
        yield f"It is ranked with priority {rank:,}, while its record says {job['priority']:,}."


def _lock_oddities(picture: Picture) -> Iterator[str]:
    state = picture.job.get("state")
    held = [h for h in picture.holders if h["kind"] == "lock" and h.get("valid") is not False]
    if state != "active" and held:
        yield "A lock on it is held, although it is not active."
    if any(p["structure"] == "stalled" for p in picture.places):
        if state != "active":
            yield "The stalled check has it among its candidates, although it is not active."
        elif not held:
            yield "The stalled check has it among its candidates: the next one puts it back to wait."


def _queue_holds(picture: Picture) -> Iterator[str]:
    state, queue = picture.job.get("state"), picture.queue
    for note in str(queue.get("layout_why") or "").split("; "):
        if "getState fails" in note:
            yield f"In its queue {note}."
    if any(p["structure"] == "limited" for p in picture.places):
        yield "The rate limit of its queue put it off."
    if state not in _READY or not queue:
        return
    in_paused = any(p["structure"] == "paused" for p in picture.places)
    if queue.get("paused"):
        yield "Its queue is paused."
        if any(p["structure"] == "wait" for p in picture.places) and "6.x" not in str(queue.get("layout")):
            # Until 6.0 resuming renames `paused` over `wait`.
            yield "It is in wait all the same, and resuming the queue could drop it."
    elif in_paused:
        yield "It lies in the list of a paused queue, but the queue is not paused: no worker looks there."
    limits = dict(queue.get("limits") or {})
    left, used, most = limits.get("limiter_ttl_ms") or 0, limits.get("limiter") or 0, limits.get("max")
    if left > 0 and used >= _NO_LIMIT:
        yield f"Its queue is rate limited by hand for another {age(left)}."
    elif left > 0 and used and (most is None or used >= most):
        # Without a limit of the queue the worker has one, which is recorded nowhere.
        # Older releases count the attempt that was refused, too.
        starts = number(used, "start")
        yield f"Its queue has a rate limit: {starts} counted in the window that runs for another {age(left)}."
    cap, active = limits.get("concurrency"), dict(queue.get("counts") or {}).get("active") or 0
    if cap is not None and active >= cap:
        slots = "The one slot" if cap == 1 else f"All {cap:,} slots"
        yield f"{slots} of its queue's global concurrency {'is' if cap == 1 else 'are'} taken."


def _kin(picture: Picture) -> Iterator[str]:
    if picture.job.get("state") == "waiting-children":
        pending = [c for c in picture.children if "dependencies" in str(c.get("via"))]
        gone = [c["job_id"] for c in pending if c.get("state") is None]
        failed = [c["job_id"] for c in pending if c.get("state") == "failed"]
        done = [c["job_id"] for c in pending if c.get("state") == "completed"]
        fatal = [c["job_id"] for c in picture.children if "unsuccessful" in str(c.get("via"))]
        if picture.children and not any(c.get("via") for c in picture.children):
            return
        if picture.children and not pending:
            yield "None of them is pending, so nothing will release it."
        if gone:
            yield f"{_named(gone)} no longer exists, so nothing will release it."
        if failed:
            yield f"{_named(failed)} failed: it waits until that is retried or removed."
        if done:
            yield f"{_named(done)} is completed and still counted as pending."
        if fatal:
            yield f"{_named(fatal)} failed and should have released it to fail."
    for parent in picture.parents:
        state = parent.get("state")
        told = f"is {state}" if state is not None else "no longer exists"
        lost = ", but its record is gone" if state is not None and not parent.get("has_record") else ""
        yield f"Its parent {parent['job_id']} in {parent['namespace']}/{parent['queue']} {told}{lost}."


def _named(ids: list[str]) -> str:
    more = f" (and {len(ids) - 1:,} more)" if len(ids) > 1 else ""
    return f"Child {ids[0]}{more}"


def _maker(picture: Picture) -> Iterator[str]:
    made_by = picture.job.get("schedule_id")
    if made_by and not any(s["schedule_id"] == made_by for s in picture.schedules):
        yield f"Its schedule {made_by} no longer exists."


def _pins(picture: Picture) -> Iterator[str]:
    ended = picture.job.get("state") in _OVER or not picture.job.get("has_record")
    for link in picture.links:
        if link["kind"] == "deduplication":
            until = link.get("valid_until")
            span = (
                f" until {moment(until)}" if until is not None else ", with nothing left to end that" if ended else ""
            )
            yield f"Deduplication id {link['source_id']} names it, so that new jobs with this id are dropped{span}."


def _last_event(picture: Picture) -> Iterator[str]:
    moves = [e for e in picture.events if e.get("event") in _STATE_OF_EVENT]
    if not moves:
        return
    last, state = moves[-1], picture.job.get("state")
    # 1.16 to 1.24 call it `active` when a parent goes from its children to wait.
    released = last["event"] == "active" and (last.get("fields") or {}).get("prev") == "waiting-children"
    if picture.job.get("has_record") and state in _STATE_OF_EVENT["waiting" if released else last["event"]]:
        return
    when = f" {moment(last['at'])}" if last.get("at") is not None else ""
    yield f"The last that was heard of it is the event {last['event']}{when}."
