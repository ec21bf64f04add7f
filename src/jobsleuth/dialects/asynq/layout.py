"""Which release wrote a queue. The library stores its version nowhere, so the keys have to tell (NOTES.md, "Layouts").

Fingerprints are ordered from the newest release to the oldest; the first that is found decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Traces:
    """What a queue shows.

    Attributes:
        roles: roles of its keys that had not expired.
        shown: features that its tasks' records show (see `jobs.Jobs`).
        shared: roles of keys that it shares with all queues of its database, where its own list is a global one,
            `asynq:queues:<queue>`; else None.
        whole_messages: messages that structures themselves hold of it, by structure.
    """

    roles: frozenset[str]
    shown: frozenset[str]
    shared: frozenset[str] | None
    whole_messages: dict[str, int]


_GROUPS = {"groups", "group", "aggregation_set", "aggregation_sets"}


def _old_tasks(t: Traces) -> bool:
    return "timeout" in t.shown or ("deadlines" in t.roles and "lease" not in t.roles)


_Fingerprint = tuple[str, str, Callable[[Traces], bool]]

_MODERN: tuple[_Fingerprint, ...] = (
    ("asynq 0.26+", "tasks with headers", lambda t: "headers" in t.shown),
    ("asynq 0.23+", "groups", lambda t: bool(_GROUPS & t.roles) or "group" in t.shown),
    ("asynq 0.22+", "a lease for active tasks", lambda t: "lease" in t.roles),
    (
        "asynq 0.20–0.21",
        "a running total of processed tasks, and tasks with their own timeout field or deadlines",
        lambda t: "processed" in t.roles and _old_tasks(t),
    ),
    (
        "asynq 0.19.1–0.21",
        "tasks with both pending_since and a timeout field",
        lambda t: {"pending_since", "timeout"} <= t.shown,
    ),
    (
        "asynq 0.19–0.21",
        "completed tasks or results beside a timeout field or deadlines",
        lambda t: _old_tasks(t) and ("completed" in t.roles or bool({"result", "completed_at"} & t.shown)),
    ),
    ("asynq 0.18–0.21", "tasks with their own timeout field, or deadlines and no lease", _old_tasks),
    ("asynq 0.22+", "tasks without a timeout field", lambda t: "message" in t.shown),
    ("asynq 0.18+", "structures that hold task ids", lambda t: bool({"job", "pending", "completed"} & t.roles)),
)
_WHOLE = {"messages_pending", "messages_active", "messages_scheduled", "messages_retry", "messages_deadlines"}
_SHARED: tuple[_Fingerprint, ...] = (
    (
        "asynq 0.10–0.11",
        "global structures of whole messages, with deadlines or with UUIDs and times as numbers",
        lambda t: "messages_deadlines" in (t.shared or ()) or {"uuid", "int_times"} <= t.shown,
    ),
    (
        "asynq 0.4–0.9",
        "global structures of whole messages, with times as text, and no deadlines",
        lambda t: "text_times" in t.shown,
    ),
    (
        "asynq 0.2–0.3",
        "global structures of whole messages without times, and a registry",
        lambda t: "queues" in (t.shared or ()) and bool(t.whole_messages),
    ),
    (
        "asynq 0.2–0.9",
        "a registry of queues with global structures, and no deadlines",
        lambda t: "queues" in (t.shared or ()),
    ),
    ("asynq 0.1", "global structures of whole messages, and no registry of queues", lambda t: True),
)
_JSON: tuple[_Fingerprint, ...] = (
    ("asynq 0.14–0.17", "whole messages, and the structure archived", lambda t: "messages_archived" in t.roles),
    ("asynq 0.12–0.13", "whole messages, and the structure dead", lambda t: "messages_dead" in t.roles),
    ("asynq 0.12–0.17", "structures that hold whole messages", lambda t: bool(_WHOLE & t.roles)),
    ("asynq 0.12–0.17", "whole messages in backup keys only", lambda t: "backup" in t.whole_messages),
)
_BACKUPS = "backup keys of an interrupted migration"


def infer(traces: Traces) -> tuple[str, list[str]]:
    """(layout, why): the layout's name and the sentences that support or qualify it."""
    whole = {structure: count for structure, count in sorted(traces.whole_messages.items()) if count}
    listed = ", ".join(f"{count} in {structure}" for structure, count in whole.items())
    for name, why, fits in _MODERN:
        if fits(traces):
            notes = [why]
            if "deadlines" in traces.roles and "lease" in traces.roles:
                notes.append(
                    "deadlines beside leases: an upgrade from before 0.22 that may have left active tasks behind"
                )
            if "timeout" in traces.shown and name.endswith("+"):
                notes.append("some tasks carry the timeout field of a producer before 0.22")
            if listed:
                notes.append(f"whole messages of releases before 0.18 beside task ids: {listed}")
            if "backup" in traces.roles:
                notes.append(_BACKUPS)
            return name, notes
    backups = [_BACKUPS] if "backup" in traces.roles | (traces.shared or frozenset()) else []
    for name, why, fits in _JSON if traces.shared is None else _SHARED:
        if fits(traces):
            return name, [why, *([f"messages: {listed}"] if listed else []), *backups]
    return "asynq 0.12+", ["nothing but registration, counters or locks to tell the release by"]
