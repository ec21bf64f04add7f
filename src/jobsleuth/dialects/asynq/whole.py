"""Rows for tasks whose whole message lies in lists and zsets (0.1 to 0.17): the structure is the only record.

Structures are read in the order of precedence, so the first element with an id makes the job's row; later ones, such as
the copy in `deadlines` that an active task has, are membership only.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jobsleuth.dialects.asynq.columns import MS, NO_TIME, Bools, Ints, coded, constant, ms_of_seconds, times
from jobsleuth.dialects.asynq.jobs import decided_by
from jobsleuth.dialects.asynq.membership import Places
from jobsleuth.dialects.asynq.site import Site
from jobsleuth.dialects.asynq.states import LISTS, NOWHERE, RANKS, STATES, STRUCTURES
from jobsleuth.dialects.asynq.wholemessages import NoMessage, WholeMessage, created_ms, queue_of, read
from jobsleuth.safetext import from_bytes

_LEASES = (STRUCTURES.index("lease"), STRUCTURES.index("deadlines"))
_DUE = (STRUCTURES.index("retry"), STRUCTURES.index("scheduled"))
_ARCHIVED = STRUCTURES.index("archived")
_BACKUP = STRUCTURES.index("backup")
_JOBS = pa.schema(
    [
        ("job_id", pa.string()), ("name", pa.string()), ("payload", pa.binary()), ("payload_bytes", pa.int64()),
        ("payload_format", pa.string()), ("created_at", pa.int64()), ("scheduled_at", pa.int64()),
        ("started_at", pa.int64()),
        ("finished_at", pa.int64()), ("attempts", pa.int64()), ("max_attempts", pa.int64()), ("timeout_s", pa.int64()),
        ("deadline", pa.int64()), ("error", pa.string()), ("deduplication_id", pa.string()), ("record_id", pa.string()),
        ("record_queue", pa.string()), ("record_complete", pa.bool_()), ("decode_error", pa.string()),
        ("unknown_fields", pa.list_(pa.string())), ("undecoded", pa.binary()),
        ("rest", pa.map_(pa.string(), pa.binary())),
    ]
)  # fmt: skip
_TIMES = ("created_at", "scheduled_at", "started_at", "finished_at", "deadline")


def roles_of(structure: str) -> tuple[str, ...]:
    """Roles of the keys that hold whole messages as that structure."""
    if structure == "backup":
        return ("backup",)
    return ("messages_archived", "messages_dead") if structure == "archived" else (f"messages_{structure}",)


ROLES = tuple(role for structure in STRUCTURES for role in roles_of(structure))


@dataclass
class _Element:
    """One element: the id it stands for, its queue, and the message if it is one (or why not)."""

    id: str
    queue: int
    message: WholeMessage | None = None
    error: str | None = None


@dataclass
class _Rows:
    """The rows of one batch: `elements` are all, `jobs` the indexes of those that make a job's row."""

    elements: list[_Element] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    jobs: list[int] = field(default_factory=list)


class Whole:
    """Makes the rows. Ids already seen are kept in memory, some hundred bytes each.

    Attributes:
        counts: (queue number, structure) → whole messages found there.
    """

    def __init__(self, site: Site, places: Places, started: dict[tuple[int, str], int]) -> None:
        """Args:
        site: the reading.
        places: where task records are; what is found here is added to it.
        started: (queue number, task id) → when the run in progress began, Unix ms.
        """
        self._site = site
        self._places = places
        self._started = started
        self._seen: list[set[str]] = [set() for _ in site.claims.queues]
        self.counts: Counter[tuple[int, str]] = Counter()

    def rows(self) -> Iterator[tuple[str, pa.Table]]:
        """`membership`, `jobs`, and `workers` rows of kind lease."""
        site, mixed = self._site, self._places.mixed
        for code, structure in enumerate(STRUCTURES):
            kinds = ("list", "zset") if code == _BACKUP else ("list" if structure in LISTS else "zset",)
            own = site.keys.present(site.claims.rows_of(*roles_of(structure)), *kinds)
            rows = np.union1d(own, mixed[np.isin(mixed, site.claims.rows_of(structure))])
            for batch in site.keyspace.elements(rows):
                yield from self._tables(code, batch, self._read(code, batch))
        self._places.drop_ghosts(self._seen)

    @cached_property
    def _ghosts(self) -> set[tuple[int, str]]:
        """(queue number, id) of what structures of ids name and no record backs."""
        ghosts = self._places.ghosts
        members = (from_bytes(member) for member in ghosts.column("member").to_pylist())
        return set(zip(ghosts.column("queue").to_pylist(), members, strict=True))

    # -- reading ------------------------------------------------------------------------------------------------------

    def _read(self, code: int, batch: pa.RecordBatch) -> _Rows:
        site, out = self._site, _Rows()
        row = batch.column("row").to_numpy()
        owner = site.claims.queue[row]
        record = np.full(len(row), -1, np.int32)
        record[owner >= 0] = site.jobs_named(owner, batch.column("member"))[owner >= 0]
        is_mixed = np.isin(row, self._places.mixed)
        members = batch.column("member")
        for at in np.flatnonzero(~is_mixed | (record < 0)).tolist():
            element = self._element(members[at].as_py(), int(owner[at]), int(site.keys.db[row[at]]))
            if element.message is None and (is_mixed[at] or record[at] >= 0):
                if is_mixed[at]:
                    continue  # an id, and a row already
                element = _Element(from_bytes(members[at].as_py()), element.queue)
            elif code == _BACKUP and (element.queue, element.id) in self._ghosts:
                pass  # a structure has the id: that makes the row
            elif element.id not in self._seen[element.queue]:
                self._seen[element.queue].add(element.id)
                out.jobs.append(len(out.elements))
            out.at.append(at)
            out.elements.append(element)
        self._known_records(code, batch, out)
        return out

    def _element(self, data: bytes, owner: int, db: int) -> _Element:
        try:
            message = read(data)
        except NoMessage as error:
            # No name to go by: the bytes themselves are what makes the element this one.
            name = "sha256:" + hashlib.sha256(data).hexdigest()[:32]
            return _Element(name, self._queue(owner, db, b""), None, str(error))
        return _Element(message.id, self._queue(owner, db, queue_of(message)), message)

    def _queue(self, owner: int, db: int, name: bytes) -> int:
        return owner if owner >= 0 else self._site.queue_number[db, name]

    def _known_records(self, code: int, batch: pa.RecordBatch, out: _Rows) -> None:
        """A message whose task also has a hash of its own is a place of that task, not a second one."""
        if not len(self._site.job_rows) or not out.elements:
            return
        queue = np.array([e.queue for e in out.elements], np.int32)
        job = self._site.jobs_named(queue, pa.array([e.id.encode() for e in out.elements], pa.binary()))
        score_ms = ms_of_seconds(batch.column("score").to_numpy(zero_copy_only=False)[out.at])
        self._places.place(job, np.full(len(job), code, np.int8), score_ms)
        out.jobs = [at for at in out.jobs if job[at] < 0]

    # -- tables -------------------------------------------------------------------------------------------------------

    def _tables(self, code: int, batch: pa.RecordBatch, rows: _Rows) -> Iterator[tuple[str, pa.Table]]:
        site = self._site
        if not rows.elements:
            return
        queue = np.array([e.queue for e in rows.elements], np.int32)
        at = pa.array(rows.at, pa.int64())
        score = batch.column("score").take(at)
        score_ms = ms_of_seconds(score.to_numpy(zero_copy_only=False))
        is_lease = (code in _LEASES) & (self._places.lease_code[queue] == code)
        is_list = site.keys.has_type(batch.column("row").to_numpy()[rows.at], "list")
        keys = site.keys.names(np.unique(batch.column("row").to_numpy()))
        of_row = np.unique(batch.column("row").to_numpy(), return_inverse=True)[1][rows.at]
        key = site.text(keys)[0].take(pa.array(of_row))
        ids = pa.array([e.id for e in rows.elements], pa.string())
        self.counts.update((int(q), STRUCTURES[code]) for q, e in zip(queue, rows.elements, strict=True) if e.message)
        yield (
            "membership",
            pa.table(
                {
                    **site.heads(queue),
                    "structure": coded(np.where(is_lease, _LEASES[0], code), STRUCTURES),
                    "kind": coded(is_list.astype(np.int32), ("zset", "list")),
                    "position": batch.column("position").take(at),
                    "job_id": ids,
                    "score": score,
                    "due_at": times(score_ms),
                    "decides_state": pa.array(np.full(len(queue), code < NOWHERE)),
                    "key": key,
                }
            ),
        )
        if is_lease.any():
            yield "workers", self._leases(queue, ids, score_ms, key, is_lease)
        if rows.jobs:
            yield "jobs", self._jobs(code, batch, rows, score_ms)

    def _leases(
        self, queue: npt.NDArray[np.int32], ids: pa.Array, until: Ints, key: pa.ChunkedArray, where: Bools
    ) -> pa.Table:
        site, at = self._site, pa.array(np.flatnonzero(where))
        until = until[where]
        return pa.table(
            {
                **site.heads(queue[where]),
                "kind": constant("lease", len(until)),
                "job_id": ids.take(at),
                "valid_until": times(until),
                "valid": pa.nulls(len(until), pa.bool_()) if site.as_of_ms is None else pa.array(until > site.as_of_ms),
                "key": key.take(at),
            }
        )

    def _jobs(self, code: int, batch: pa.RecordBatch, rows: _Rows, score_ms: Ints) -> pa.Table:
        site, elements = self._site, [rows.elements[at] for at in rows.jobs]
        queue = np.array([e.queue for e in elements], np.int32)
        decider = np.full(len(queue), min(code, NOWHERE), np.int8)
        np.add.at(site.facts.counts, (queue, RANKS[decider]), 1)
        columns: dict[str, list[Any]] = {name: [] for name in _JOBS.names}
        shown: dict[str, Bools] = {}
        for nth, element in enumerate(elements):
            at = rows.jobs[nth]
            due = None if score_ms[at] == NO_TIME else int(score_ms[at])
            values: dict[str, Any] = self._said(element.message) if element.message else {"record_complete": False}
            if element.message is None:
                stored = batch.column("member")[rows.at[at]].as_py()
                values["undecoded"] = stored[: site.options.payload_limit]
                if len(values["undecoded"]) < len(stored):
                    values["rest"] = [("msg.bytes", str(len(stored)).encode())]
            for feature in element.message.shown if element.message else ():
                shown.setdefault(feature, np.zeros(len(elements), bool))[nth] = True
            values["job_id"], values["decode_error"] = element.id, element.error
            values["scheduled_at"] = due if code in _DUE else None
            values["finished_at"] = due if code == _ARCHIVED else None
            values["started_at"] = self._started.get((element.queue, element.id))
            for name, column in columns.items():
                column.append(values.get(name))
        for feature, where in shown.items():
            site.facts.show(feature, queue, where)
        table = pa.table([pa.array(columns[f.name], f.type) for f in _JOBS], schema=_JOBS)
        for name in _TIMES:
            table = table.set_column(_JOBS.get_field_index(name), name, table.column(name).cast(MS))
        for name, column in {
            **site.heads(queue),
            "state": coded(RANKS[decider], STATES),
            "decided_by": decided_by(decider),
            "has_record": pa.array(np.ones(len(queue), bool)),
        }.items():
            table = table.append_column(name, column)
        return table

    def _said(self, message: WholeMessage) -> dict[str, Any]:
        limit = self._site.options.payload_limit
        return {
            "name": message.type or None,
            "payload": message.payload if limit is None else message.payload[:limit],
            "payload_bytes": len(message.payload),
            "created_at": created_ms(message),
            "payload_format": "json" if message.payload else "empty",
            "attempts": message.retried,
            "max_attempts": message.retry,
            "timeout_s": message.timeout_s,
            "deadline": None if message.deadline_ms == NO_TIME else message.deadline_ms,
            "error": message.error or None,
            "deduplication_id": message.unique_key or None,
            "record_id": message.id,
            "record_queue": message.queue or None,
            "record_complete": bool(message.type),
            "unknown_fields": message.unknown or None,
            "rest": message.rest,
        }
