"""Names that say that a list is a queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

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
    "processing": (":processing", ":processing:{worker}"),
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


def plain(name: str, patterns: Mapping[str, Sequence[Pattern]], namespace: str, file: str | None = None) -> Layout:
    """The layout of plain lists with these patterns for each of :data:`KINDS`."""
    structures = tuple(
        Structure(kind, state, type_, pattern, unit)
        for kind, (state, type_, unit) in KINDS.items()
        for pattern in patterns.get(kind, ())
    )
    return Layout(name, namespace, structures, fields=_SOURCES, file=file)


def _family(base: str) -> Layout:
    patterns = {"waiting": [Pattern.parse(base)]}
    patterns |= {kind: [Pattern.parse(base + tail) for tail in tails] for kind, tails in _TAILS.items()}
    space = base.partition(":")[0] if base.startswith("queue") else "lists"
    form = plain("plain list", patterns, space)
    # `mails:queue:processing` is what was taken from `mails:queue`, no queue `processing` of an application `mails`.
    structures = tuple(replace(s, late=s.name == "waiting") for s in form.structures)
    return replace(form, structures=structures, place=_PLACES.get(base))


BUILT_IN = tuple(_family(base) for base in _FAMILIES)
"""A queue `mails` is the list ``queue:mails``, ``queues:mails``, ``<app>:queue:mails``, ``<app>:queues:mails`` or
``mails:queue``; to it belong ``…:processing``, ``…:processing:<worker>``, ``…:delayed``, ``…:seen``, ``…:dedup`` and
``…:unique`` behind that name. Its namespace is `queue`, `queues`, ``<app>``, ``<app>:queues`` or `lists`."""
