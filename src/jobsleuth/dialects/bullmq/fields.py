"""The fields of a job hash: what is asked of the keyspace, and what a hash is by the fields it has."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from jobsleuth.dialects.bullmq.keytable import numbers
from jobsleuth.keyspace import Projected

pc: Any = pa.compute

COMPLETE = ("name", "data", "opts", "timestamp", "delay", "priority")
"""Written by one HMSET when a job is added: every real job has them all."""

COMPLETE_EARLY_BULL = ("data", "opts", "timestamp", "delay")
"""The same of early Bull: its jobs have no priority, and before 3.0 no name, but a field `attempts`."""

JOB_FIELDS = (
    *COMPLETE,
    "processedOn",
    "finishedOn",
    "returnvalue",
    "failedReason",
    "stacktrace",
    "progress",
    "attemptsMade",
    "atm",
    "ats",
    "stalledCounter",
    "stc",
    "pb",
    "defa",
    "parentKey",
    "parent",
    "rjk",
    "nrjid",
    "deid",
    "flowAttachmentFailed",
    "tm",
    "retriedOn",
    "gid",
)
"""Every field that some release writes into a job's hash."""

SCHEDULE_FIELDS = (
    "name",
    "tz",
    "pattern",
    "every",
    "endDate",
    "data",
    "opts",
    "ic",
    "limit",
    "offset",
    "startDate",
)
PARKED_FIELDS = ("name", "data", "opts", "jid", "pk", "pd", "pdk", "rjk")
"""Fields of a parked "next job" of keepLastIfActive (``dn:<id>``)."""

GROUP_FIELDS = ("conc", "lm", "ld")


def job_projection(payload_limit: int | None) -> tuple[Projected, ...]:
    """What is read from each job hash; `parentKey` and whatever is not named stay in `rest`."""
    return (
        *(Projected(f"has_{field}", field, "present") for field in COMPLETE),
        Projected("name", "name", "text"),
        Projected("payload", "data", "bytes", limit=payload_limit, size=True, format=True),
        Projected("max_attempts", "opts", "json_int", path="attempts"),
        Projected("created_at", "timestamp", "ms"),
        Projected("delay_ms", "delay", "int"),
        Projected("priority", "priority", "int"),
        Projected("started_at", "processedOn", "ms"),
        Projected("finished_at", "finishedOn", "ms"),
        Projected("result", "returnvalue", "bytes"),
        Projected("error", "failedReason", "text"),
        Projected("stacktrace", "stacktrace", "text"),
        Projected("progress", "progress", "text"),
        Projected("attempts_made", "attemptsMade", "int"),
        Projected("attempts_ended", "atm", "int"),
        Projected("attempts_started", "ats", "int"),
        Projected("stalled_count", "stc", "int"),
        Projected("stalled_counter", "stalledCounter", "int"),
        Projected("worker_name", "pb", "text"),
        Projected("deferred_failure", "defa", "text"),
        Projected("parent_id", "parent", "json_text", path="id"),
        Projected("parent_base", "parent", "json_text", path="queueKey"),
        Projected("schedule_id", "rjk", "text"),
        Projected("deduplication_id", "deid", "text"),
    )


TAKEN_WHOLE = tuple(p.name for p in job_projection(None) if p.kind not in ("present", "json_text", "json_int"))
"""Columns whose stored field is not in `rest` when the column holds it."""

_FIELD_OF = {p.name: p.field for p in job_projection(None)}


class Fields:
    """Which hash of a batch holds fields outside of the sets above, for the few that are not plain jobs."""

    def __init__(self, batch: pa.RecordBatch, some: npt.NDArray[np.int64]) -> None:
        self._count = len(some)
        picked = batch.take(pa.array(some))
        rest = picked.column("rest")
        keys = rest.keys
        offsets = numbers(rest.offsets, np.int64)
        self._owner = np.repeat(np.arange(self._count), np.diff(offsets))
        self._keys = keys.slice(offsets[0], offsets[-1] - offsets[0]) if len(offsets) else keys
        self._taken = {_FIELD_OF[name]: numbers(picked.column(name).is_valid(), np.bool_) for name in TAKEN_WHOLE}

    def only(self, allowed: tuple[str, ...]) -> npt.NDArray[np.bool_]:
        """Per hash, whether every field is one of `allowed`."""
        alien = np.zeros(self._count, np.bool_)
        known = numbers(pc.is_in(self._keys, value_set=pa.array(allowed)), np.bool_)
        alien[self._owner[~known]] = True
        for field, there in self._taken.items():
            if field not in allowed:
                alien |= there
        return ~alien

    def any_of(self, wanted: tuple[str, ...]) -> npt.NDArray[np.bool_]:
        """Per hash, whether it has one of `wanted`."""
        found = np.zeros(self._count, np.bool_)
        found[self._owner[numbers(pc.is_in(self._keys, value_set=pa.array(wanted)), np.bool_)]] = True
        for field, there in self._taken.items():
            if field in wanted:
                found |= there
        return found
