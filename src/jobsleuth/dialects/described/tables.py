"""Rows of all tables from the keys that the layouts claimed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jobsleuth.dialects.base import Options
from jobsleuth.dialects.described.claim import DescribedClaims, Match
from jobsleuth.dialects.described.records import Record, Tally, columns, digest, moment, own_id, parsed, read_json
from jobsleuth.dialects.description import FIELD, INSIDE, JSON, NUMBERS, SINCE, STATES, Layout, Pattern
from jobsleuth.dialects.rows import COUNTS, MS, Places, constant, names, take
from jobsleuth.errors import DialectError
from jobsleuth.keyspace import Claims, Keyspace, Remark, Rows
from jobsleuth.safetext import from_bytes, terminal

LATE = {
    "error": frozenset(("failed", "retry")),
    "finished_at": frozenset(("completed", "failed")),
    "started_at": frozenset(("processing", "active", "completed", "failed")),
    "worker_name": frozenset(("processing", "active")),
    "scheduled_at": frozenset(("delayed", "scheduled", "retry")),
    "attempts": frozenset(("retry", "failed")),
}
"""Column → states whose jobs should have it; no job need have one before."""
_PIECE = 1 << 14
_WHITE = b" \t\n\r"
"""White space of JSON (RFC 8259)."""
_BEGINS = (b"{", b"[")
_S, _I = pa.string(), pa.int64()
_JOBS: dict[str, Any] = {
    "queue_number": _I, "job_id": _S, "job_id_bytes": pa.binary(), "state": _S, "has_record": pa.bool_(),
    "record_complete": pa.bool_(), "name": _S,
    "payload": pa.binary(), "payload_bytes": _I, "payload_format": _S,
    "payload_begins_json": pa.bool_(), "created_at": MS, "scheduled_at": MS,
    "started_at": MS, "finished_at": MS, "attempts": _I, "max_attempts": _I, "priority": _I, "error": _S,
    "worker_name": _S, "key": _S, "rest": pa.map_(pa.string(), pa.binary()),
}  # fmt: skip
_MEMBERSHIP: dict[str, Any] = {
    "queue_number": _I, "structure": _S, "kind": _S, "position": _I, "job_id": _S, "job_id_bytes": pa.binary(),
    "score": pa.float64(), "due_at": MS,
    "decides_state": pa.bool_(), "key": _S,
}  # fmt: skip


class Tables:
    """The tables of one keyspace.

    Attributes:
        tallies: per layout, how its records were read; after :meth:`rows`.
    """

    def __init__(self, keyspace: Keyspace, claims: Claims, options: Options) -> None:
        if not isinstance(claims, DescribedClaims) or len(claims.role) != keyspace.keys.num_rows:
            raise DialectError("the claims belong to another keyspace")
        self._keyspace = keyspace
        self._claims = claims
        self._limit = options.payload_limit
        self._places = Places(claims)
        self._structure: dict[int, tuple[int, int, str | None]] = {}
        for (layout, nth), match in claims.structures.items():
            workers: list[bytes | None] = [*match.parts.get("worker", [])] or [None] * len(match.rows)
            for row, worker in zip(match.rows.tolist(), workers, strict=True):
                self._structure[row] = (layout, nth, None if worker is None else from_bytes(worker))
        # What structures say of each id: bits of the states, the earliest due time, who took it, how often it is there,
        # since when.
        self._jobs: dict[tuple[int, str], list[Any]] = {}
        self._exact: dict[str, bytes] = {}
        self._cuts: dict[Pattern, re.Pattern[bytes]] = {}
        self._counts: list[dict[str, int]] = [{} for _ in claims.queues]
        self._oldest: list[int | None] = [None for _ in claims.queues]
        self._latest: list[int | None] = [None for _ in claims.queues]
        self._locked: npt.NDArray[np.int64] = np.zeros(len(claims.queues), np.int64)
        self.tallies = [Tally() for _ in claims.layouts]

    def rows(self) -> Iterator[tuple[str, pa.Table]]:
        """Membership, locks, jobs, queues, in this order."""
        where = np.array(sorted(self._structure), np.int64)
        yield from self._pieces("membership", _MEMBERSHIP, self._members(where))
        yield from self._locks()
        yield from self._pieces("jobs", _JOBS, self._all_jobs(where))
        yield "queues", self._queues()
        self._claims.remarks += [
            Remark("field_never_there", f"line {line} of the layouts: {what}", count=count)
            for _, line, what, count in self.unread(due=True)
        ]

    def unread(self, *, due: bool = False) -> Iterator[tuple[int, int, str, int]]:
        """(layout, line, what is wrong, records without it) of everything described that no record has, or none has in
        a form that could be read; after :meth:`rows`. `due`: only what records of jobs in these states should have."""
        for number, (layout, tally) in enumerate(zip(self._claims.layouts, self.tallies, strict=True)):
            described = {column: source for column, source in layout.fields.items() if source.line}
            if layout.ids_line and tally.members and not tally.named:
                yield number, layout.ids_line, f"no job of {_shown(layout.name)} holds an id as ids says", tally.members
            if tally.shapeless and not tally.records and described:
                what = f"no record of {_shown(layout.name)} is a JSON object or array, so no field is read"
                yield number, min(source.line for source in described.values()), what, tally.shapeless
            for column, source in described.items() if tally.records else ():
                name = f"the field {_shown(' or '.join(source.fields))} ({column})"
                if column not in tally.present:
                    if due and column in LATE and not self._states(number) & LATE[column]:
                        continue
                    what = f"no record of {_shown(layout.name)} has {name}"
                elif not tally.usable[column] and column in NUMBERS:
                    what = f"no record of {_shown(layout.name)} has a whole number in {name}"
                else:
                    continue
                yield number, source.line, what, tally.records

    def _states(self, layout: int) -> set[str]:
        """States of the layout's jobs."""
        every = zip(self._claims.layout_of, self._counts, strict=True)
        return {state for number, counts in every if number == layout for state in counts}

    # -- structures ---------------------------------------------------------------------------------------------------

    def _elements(self, rows: Rows) -> Iterator[tuple[int, Layout, int, str, bytes, int, float | None]]:
        """(key row, layout, structure, id, member, position, score) of every element."""
        key = -1
        copies: dict[str, int] = {}
        for batch in self._keyspace.elements(rows) if len(rows) else ():
            given = [batch.column(name).to_pylist() for name in ("row", "member", "position", "score")]
            for row, member, position, score in zip(*given, strict=True):
                number, nth, _ = self._structure[row]
                layout = self._claims.layouts[number]
                if layout.record != INSIDE or layout.structures[nth].state is None:
                    job_id = self._named(self._cut(layout.structures[nth].member, member))
                elif (own := own_id(parsed(member), layout.ids)) is not None:
                    job_id = own
                else:
                    # The same text twice in one list is two jobs: nothing says that it is one.
                    if row != key:
                        key, copies = row, {}
                    job_id = digest(member)
                    copies[job_id] = copy = copies.get(job_id, 0) + 1
                    job_id += f"#{copy}" if copy > 1 else ""
                yield row, layout, nth, job_id, member, position, score

    def _cut(self, pattern: Pattern | None, member: bytes) -> bytes:
        """The id in a member."""
        if pattern is None:
            return member
        if pattern not in self._cuts:
            self._cuts[pattern] = re.compile(pattern.regex.encode())
        found = self._cuts[pattern].fullmatch(member)
        return member if found is None else found["id"]

    def _named(self, stored: bytes) -> str:
        """An id as text; its bytes are kept where that is not exact."""
        text = from_bytes(stored)
        if text.encode() != stored:
            self._exact[text] = stored
        return text

    def _members(self, rows: Rows) -> Iterator[dict[str, Any]]:
        key = dict(zip(rows.tolist(), names(self._keyspace, rows).to_pylist() if len(rows) else [], strict=True))
        for row, layout, nth, job_id, _, position, score in self._elements(rows):
            structure = layout.structures[nth]
            queue = int(self._claims.queue[row])
            due = None
            if structure.unit is not None and score is not None:
                due = moment(score, structure.unit)
                self.tallies[self._claims.layout_of[queue]].note_time((nth, row), due is not None)
            since, due = (due, None) if structure.since else (None, due)
            if structure.state is not None:
                known = self._jobs.setdefault((queue, job_id), [0, None, None, 0, {}])
                known[0] |= 1 << STATES.index(structure.state)
                if since is not None:
                    known[4][SINCE[structure.state]] = since
                if due is not None and (known[1] is None or due < known[1]):
                    known[1] = due
                known[2] = known[2] or self._structure[row][2]
                known[3] += 1
            yield {
                "queue_number": queue,
                "structure": structure.place,
                "kind": structure.type,
                "position": None if structure.type == "set" else position,
                "job_id": job_id,
                "job_id_bytes": self._exact.get(job_id),
                "score": score,
                "due_at": due,
                "decides_state": structure.state is not None,
                "key": key[row],
            }

    def _state(self, mask: int) -> str:
        return next((state for bit, state in enumerate(STATES) if mask >> bit & 1), "unknown")

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def _all_jobs(self, rows: Rows) -> Iterator[dict[str, Any]]:
        done: set[tuple[int, str]] = set()
        copies: dict[tuple[int, str], dict[bytes, int]] = {}
        for row, layout, nth, job_id, member, _, _ in self._elements(rows):
            state = layout.structures[nth].state
            if layout.record != INSIDE or state is None:
                continue
            place = (int(self._claims.queue[row]), job_id)
            tally = self.tallies[self._claims.layout_of[place[0]]]
            tally.members += 1
            tally.named += not job_id.startswith("sha256:")
            known = self._jobs[place]
            known[3] -= 1
            if not known[3] and place not in copies:
                yield self._job(place, layout, parsed(member), member, None)
                continue
            found = copies.setdefault(place, {})
            found[member] = min(STATES.index(state), found.get(member, len(STATES)))
            if not known[3]:
                # Of copies that differ the one counts that decides the state; what it lacks the others may tell.
                first, *others = sorted(copies.pop(place).items(), key=lambda copy: copy[1])
                yield self._job(place, layout, parsed(first[0]), first[0], None, [parsed(o) for o, _ in others])
        for (number, _), match in self._claims.records.items():
            yield from self._recorded(number, match, done)
        for place in self._jobs.keys() - done if self._claims.records else ():
            layout = self._claims.layouts[self._claims.layout_of[place[0]]]
            if layout.record != INSIDE:
                yield self._ghost(place, layout)

    def _recorded(self, number: int, match: Match, done: set[tuple[int, str]]) -> Iterator[dict[str, Any]]:
        """Jobs that have a key of their own, or a field of a hash."""
        layout = self._claims.layouts[number]
        held: dict[tuple[int, str], list[int]] = {}
        for queue, job_id in self._jobs:
            if self._claims.layout_of[queue] == number:
                held.setdefault((self._claims.queues[queue].db, job_id), []).append(queue)
        db = self._keyspace.keys.column("db")
        keys = dict(zip(match.rows.tolist(), names(self._keyspace, match.rows).to_pylist(), strict=True))
        own = dict(zip(match.rows.tolist(), self._claims.queue[match.rows].tolist(), strict=True))
        for row, stored, record, whole in self._read(layout, match):
            job_id = self._named(stored)
            # A record whose key names no queue belongs to those that hold its id.
            queues = [own[row]] if own[row] >= 0 else held.get((db[row].as_py(), job_id), [])
            for queue in queues or self._fallback(number, db[row].as_py()):
                place = (queue, job_id)
                done.add(place)
                self._claims.queue[row] = queue
                yield self._job(place, layout, record, whole, keys[row])

    def _fallback(self, number: int, db: int) -> list[int]:
        """Where records are that nothing names: they must not be dropped."""
        found = self._claims.rest.get((number, db))
        return [] if found is None else [found]

    def _read(self, layout: Layout, match: Match) -> Iterator[tuple[int, bytes, Record | None, bytes | None]]:
        """(key row, id, its fields, the whole where it is one value) of every record."""
        if not len(match.rows):
            return
        if layout.record == FIELD:
            as_of, expired = self._keyspace.as_of.ms, 0
            for batch in self._keyspace.elements(match.rows):
                given = [batch.column(name).to_pylist() for name in ("row", "member", "value", "field_expire_at")]
                for row, stored, value, expires in zip(*given, strict=True):
                    if expires is not None and as_of is not None and expires <= as_of:
                        expired += 1
                    else:
                        yield row, stored, parsed(value), value
            if expired:
                what = f"fields of hashes of {_shown(layout.name)} had expired: they are no jobs"
                self._claims.remarks.append(Remark("expired_fields", what, count=expired))
            return
        ids = dict(zip(match.rows.tolist(), match.parts["id"], strict=True))
        if layout.record == JSON:
            for batch in self._keyspace.strings(match.rows):
                for row, value in zip(batch.column("row").to_pylist(), batch.column("value").to_pylist(), strict=True):
                    yield row, ids[row], parsed(value), value
            return
        for batch in self._keyspace.records(match.rows, ()):
            for row, rest in zip(batch.column("row").to_pylist(), batch.column("rest").to_pylist(), strict=True):
                yield row, ids[row], dict(rest or ()), None

    def _job(
        self,
        place: tuple[int, str],
        layout: Layout,
        record: Record | None,
        whole: bytes | None,
        key: str | None,
        others: Sequence[Record | None] = (),
    ) -> dict[str, Any]:
        mask, due, worker, _, since = self._jobs.get(place) or [0, None, None, 0, {}]
        state = self._state(mask)
        tally = self.tallies[self._claims.layout_of[place[0]]]
        found = columns(layout, record, tally)
        payload = found.pop("payload", whole)
        form = None if payload is None else _format(payload)
        for other in others:
            found = {name: value for name, value in columns(layout, other, tally).items() if name != "payload"} | found
        found = {"scheduled_at": due, "worker_name": worker, **since, **found}
        self._note(place[0], state, found)
        return {
            **found,
            "queue_number": place[0],
            "job_id": place[1],
            "job_id_bytes": self._exact.get(place[1]),
            "state": state,
            "has_record": True,
            "record_complete": True,
            "payload": payload if payload is None or self._limit is None else payload[: self._limit],
            "payload_bytes": None if payload is None else len(payload),
            "payload_format": form,
            # Told now, for the payload may not be kept.
            "payload_begins_json": None if payload is None or form == "json" else payload.lstrip(_WHITE)[:1] in _BEGINS,
            "key": key,
            "rest": self._rest(layout, record, whole),
        }

    def _rest(self, layout: Layout, record: Record | None, whole: bytes | None) -> list[tuple[str, bytes]] | None:
        """What no column holds: the other fields of a hash; the whole record where only a part of it is the payload."""
        if whole is None and isinstance(record, Mapping):
            named = {name for source in layout.fields.values() for name in source.fields}
            left = [(name, value) for name, value in record.items() if name not in named]
        else:
            left = [("record", whole)] if whole is not None and "payload" in layout.fields else []
        return [(name, value if self._limit is None else value[: self._limit]) for name, value in left] or None

    def _ghost(self, place: tuple[int, str], layout: Layout) -> dict[str, Any]:
        mask, due, worker, _, since = self._jobs[place]
        state = self._state(mask)
        self._note(place[0], state, since)
        key = None
        if len(layout.record_keys) == 1 and set(layout.record_keys[0].parts) <= {"id", "queue", "namespace"}:
            ref = self._claims.queues[place[0]]
            parts = {"id": place[1].encode(), "queue": ref.queue, "namespace": ref.namespace}
            key = from_bytes(layout.record_keys[0].spelled(parts))
        return {
            "queue_number": place[0],
            "job_id": place[1],
            "job_id_bytes": self._exact.get(place[1]),
            "state": state,
            "has_record": False,
            **since,
            "scheduled_at": due,
            "worker_name": worker,
            "key": key,
        }

    def _note(self, queue: int, state: str, found: dict[str, Any]) -> None:
        counts = self._counts[queue]
        counts[state] = counts.get(state, 0) + 1
        created = found.get("created_at")
        if state == "waiting" and created is not None:
            self._oldest[queue] = created if self._oldest[queue] is None else min(created, self._oldest[queue] or 0)
        seen = [found[name] for name in ("created_at", "started_at", "finished_at") if found.get(name) is not None]
        if seen:
            self._latest[queue] = max(*seen, self._latest[queue] or 0)

    # -- the rest -----------------------------------------------------------------------------------------------------

    def _locks(self) -> Iterator[tuple[str, pa.Table]]:
        as_of = self._keyspace.as_of.ms
        db = self._keyspace.keys.column("db")
        for layout, match in self._claims.locks.items():
            held: dict[tuple[int, str], list[int]] = {}
            for queue, job_id in self._jobs:
                if self._claims.layout_of[queue] == layout:
                    held.setdefault((self._claims.queues[queue].db, job_id), []).append(queue)
            found: list[tuple[int, int, str]] = []
            for row, stored in zip(match.rows.tolist(), match.parts["id"], strict=True):
                own, job_id = int(self._claims.queue[row]), from_bytes(stored)
                # A lock whose key names no queue is of those that hold the id.
                queues = [own] if own >= 0 else held.get((db[row].as_py(), job_id), [])
                found += [(row, queue, job_id) for queue in queues]
            if not found:
                continue
            tokens: dict[int, str] = {}
            for batch in self._keyspace.strings(match.rows, 256):
                given = zip(batch.column("row").to_pylist(), batch.column("value").to_pylist(), strict=True)
                tokens |= {row: from_bytes(value) for row, value in given}
            rows = np.array([row for row, _, _ in found], np.int64)
            queue_numbers = np.array([queue for _, queue, _ in found], np.int64)
            np.add.at(self._locked, queue_numbers, 1)
            self._claims.queue[rows] = queue_numbers
            ends = take(self._keyspace.keys.column("expire_at"), rows).to_pylist()
            valid = [None if as_of is None else end is None or end > as_of for end in ends]
            yield (
                "workers",
                pa.table(
                    {
                        **self._places.columns(queue_numbers),
                        "kind": constant("lock", len(rows)),
                        "worker_id": pa.array([tokens.get(row) for row in rows.tolist()], _S),
                        "job_id": pa.array([job_id for _, _, job_id in found], _S),
                        "job_id_bytes": pa.array([self._exact.get(job_id) for _, _, job_id in found], pa.binary()),
                        "valid_until": pa.array(ends, _I).cast(MS),
                        "valid": pa.array(valid, pa.bool_()),
                        "key": names(self._keyspace, rows),
                    }
                ),
            )

    def _queues(self) -> pa.Table:
        claims = self._claims
        number = np.arange(len(claims.queues))
        layouts = [claims.layouts[n] for n in claims.layout_of]
        every = pa.table(
            {
                **self._places.columns(number),
                "layout": pa.array([form.name for form in layouts], _S),
                "layout_why": pa.array(
                    ["its name" if form.file is None else f"described at line {form.line}" for form in layouts], _S
                ),
                "counts": pa.array([sorted(counts.items()) for counts in self._counts], COUNTS),
                # Whether the layout has locks is told by their number being there at all.
                "counters": pa.array(
                    [
                        [] if form.lock is None else [("locks", int(count))]
                        for form, count in zip(layouts, self._locked, strict=True)
                    ],
                    COUNTS,
                ),
                "oldest_waiting_at": pa.array(self._oldest, _I).cast(MS),
                "last_activity_at": pa.array(self._latest, _I).cast(MS),
            }
        )
        # What was made for records that nothing names is no queue where there are none.
        kept = [n for n, counts in enumerate(self._counts) if counts or n not in claims.made_up]
        return every.take(pa.array(kept, _I))

    def _pieces(
        self, table: str, schema: dict[str, Any], rows: Iterator[dict[str, Any]]
    ) -> Iterator[tuple[str, pa.Table]]:
        held: list[dict[str, Any]] = []
        for row in rows:
            held.append(row)
            if len(held) >= _PIECE:
                yield table, self._table(held, schema)
                held = []
        if held:
            yield table, self._table(held, schema)

    def _table(self, rows: list[dict[str, Any]], schema: dict[str, Any]) -> pa.Table:
        made: dict[str, Any] = {}
        for name, type_ in schema.items():
            values = [row.get(name) for row in rows]
            made[name] = pa.array(values, _I).cast(MS) if type_ == MS else pa.array(values, type_)
        queue = made.pop("queue_number").to_numpy()
        return pa.table({**self._places.columns(queue), **made})


def _format(payload: bytes) -> str:
    if not payload:
        return "empty"
    try:
        read_json(payload)
    except (ValueError, RecursionError):
        return "opaque"
    return "json"


def _shown(text: str) -> str:
    return terminal(text, 60)
