"""Names that say that a list is a queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from jobsleuth.dialects.description import ANY, TIMES, Layout, Pattern, Source, Structure

KINDS: Mapping[str, tuple[str | None, str, str | None]] = {
    "waiting": ("waiting", "list", None),
    "processing": ("processing", "list", None),
    "delayed": ("delayed", "zset", ANY),
    "seen": (None, "set", None),
}
"""What a pattern may be for → state, type of the key, unit of its scores."""
FIELDS = {
    "name": ("name", "type", "class", "task", "job"),
    "created_at": ("created_at", "enqueued_at", "timestamp"),
    "attempts": ("attempts", "retry_count"),
}
"""Column → members of a JSON object that may fill it, the first that is there."""
_SOURCES = {column: Source(names, ANY if column in TIMES else None) for column, names in FIELDS.items()}
_FAMILIES = (
    "queue:{queue}",
    "queues:{queue}",
    "{namespace...}:queue:{queue}",
    "{namespace...}:queues:{queue}",
    "{queue}:queue",
)
_TAILS = {
    "processing": (":processing", ":processing:{worker...}"),
    "delayed": (":delayed",),
    "seen": (":seen", ":dedup", ":unique"),
}


def _beside_queues(namespace: bytes, queue: bytes) -> tuple[bytes, bytes]:
    """``app:queues:mails`` is another queue than ``app:queue:mails``."""
    return namespace + b":queues", queue


def _in_an_application(namespace: bytes, queue: bytes) -> tuple[bytes, bytes]:
    """``queue:queue:x`` is another queue than ``queue:x``: an application called as a family keeps its word."""
    family = namespace in (b"queue", b"queues", b"lists") or namespace.endswith(b":queues")
    return namespace, b"queue:" + queue if family else queue


# By the key alone: a queue must not be called otherwise while another one is empty, and has no key.
_PLACES: Mapping[str, Callable[[bytes, bytes], tuple[bytes, bytes]]] = {
    "{namespace...}:queue:{queue}": _in_an_application,
    "{namespace...}:queues:{queue}": _beside_queues,
}


@dataclass(frozen=True)
class Named:
    """A pattern for plain lists: what it is for, one of :data:`KINDS`, and its line in the user's file."""

    kind: str
    pattern: Pattern
    line: int = 0


def given(patterns: Sequence[Named], file: str) -> tuple[Layout, ...]:
    """Layouts of the user's patterns: one for each waiting list, with the lists that belong to it.

    To a waiting list belongs what begins like it, and where there is no other, everything; what belongs to none is a
    queue of its own. Only patterns that both have a part {queue}, or both have none, belong together.
    """
    waiting = [named for named in patterns if named.kind == "waiting"]
    families: dict[str, list[Named]] = {}
    for named in (*waiting, *(n for n in patterns if n.kind != "waiting")):
        base = named if named.kind == "waiting" else _base(named, waiting)
        families.setdefault(base.pattern.text, []).append(named)
    return tuple(
        replace(_layout(members, _space(base), file), line=members[0].line, queue=_own_name(members[0].pattern))
        for base, members in families.items()
    )


def _base(named: Named, waiting: Sequence[Named]) -> Named:
    """The waiting list that it belongs to, itself where there is none."""
    alike = [w for w in waiting if ("queue" in w.pattern.parts) == ("queue" in named.pattern.parts)]
    text = named.pattern.text
    begun = [w for w in alike if text.startswith(w.pattern.text) and not text[len(w.pattern.text) :][:1].isalnum()]
    if begun:
        return max(begun, key=lambda w: len(w.pattern.text))
    return alike[0] if len({w.pattern.text for w in waiting}) == 1 and alike else named


def _space(base: str) -> str:
    """What stands before the queue's name, so that ``jobs:{queue}`` and ``urgent:{queue}`` are told apart."""
    head, part, _ = base.partition("{queue")
    return (head.strip(":") if part and "{" not in head else "") or "lists"


def _own_name(pattern: Pattern) -> str | None:
    """Without a part {queue} each key is a queue, called as the key."""
    if "queue" in pattern.parts:
        return None
    return pattern.spelled({part: b"{%s}" % part.encode() for part in pattern.parts}).decode()


def _layout(patterns: Sequence[Named], namespace: str, file: str | None = None) -> Layout:
    structures = tuple(
        # `mails:queue:processing` is what was taken from `mails:queue`, no queue `processing` of an application
        # `mails`: what waits is looked for last.
        Structure(kind, state, type_, named.pattern, unit, named.line, late=kind == "waiting")
        for kind, (state, type_, unit) in KINDS.items()
        for named in patterns
        if named.kind == kind
    )
    return Layout("plain list", namespace, structures, fields=_SOURCES, file=file)


def _family(base: str) -> Layout:
    patterns = [Named("waiting", Pattern.parse(base))]
    patterns += [Named(kind, Pattern.parse(base + tail)) for kind, tails in _TAILS.items() for tail in tails]
    space = base.partition(":")[0] if base.startswith("queue") else "lists"
    return replace(_layout(patterns, space), place=_PLACES.get(base))


BUILT_IN = tuple(_family(base) for base in _FAMILIES)
"""A queue `mails` is the list ``queue:mails``, ``queues:mails``, ``<app>:queue:mails``, ``<app>:queues:mails`` or
``mails:queue``; to it belong ``…:processing``, ``…:processing:<worker>``, ``…:delayed``, ``…:seen``, ``…:dedup`` and
``…:unique`` behind that name. Its namespace is `queue`, `queues`, ``<app>``, ``<app>:queues`` or `lists`."""
