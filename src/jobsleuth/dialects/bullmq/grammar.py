"""Key grammar of Bull and BullMQ: suffixes, their types, their roles, and how a base splits into prefix and queue name.

A queue's keys begin with its base, ``<prefix>:<queue>``, and a colon. Prefix, queue name and job ids are free text, so
no key can be read alone: see :mod:`jobsleuth.dialects.bullmq.bases`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Reserved:
    """A queue-level key: what follows the base and a colon, its Redis type, its role.

    Attributes:
        names_base: whether a key so named and typed lets one look for a queue (others are too common elsewhere).
    """

    suffix: bytes
    type: str
    role: str
    names_base: bool = True


RESERVED: tuple[Reserved, ...] = (
    Reserved(b"wait", "list", "wait"),
    Reserved(b"paused", "list", "paused"),
    Reserved(b"active", "list", "active"),
    Reserved(b"delayed", "zset", "delayed"),
    Reserved(b"prioritized", "zset", "prioritized"),
    Reserved(b"priority", "zset", "priority"),
    Reserved(b"completed", "zset", "completed"),
    Reserved(b"failed", "zset", "failed"),
    Reserved(b"waiting-children", "zset", "waiting-children"),
    Reserved(b"stalled", "set", "stalled"),
    Reserved(b"stalled-check", "string", "stalled-check"),
    Reserved(b"id", "string", "id"),
    Reserved(b"meta", "hash", "meta"),
    Reserved(b"meta-paused", "string", "meta-paused"),
    Reserved(b"events", "stream", "events"),
    Reserved(b"delay", "stream", "delay"),
    Reserved(b"pc", "string", "pc"),
    Reserved(b"marker", "zset", "marker"),
    Reserved(b"limiter", "string", "limiter"),
    Reserved(b"limiter:index", "hash", "limiter", names_base=False),
    Reserved(b"limiter:limited", "set", "limited", names_base=False),
    Reserved(b"repeat", "zset", "repeat"),
    Reserved(b"metrics:completed", "hash", "metrics", names_base=False),
    Reserved(b"metrics:failed", "hash", "metrics", names_base=False),
    Reserved(b"metrics:completed:data", "list", "metrics", names_base=False),
    Reserved(b"metrics:failed:data", "list", "metrics", names_base=False),
    Reserved(b"wait:added", "list", "wait:added", names_base=False),
    Reserved(b"groups", "zset", "groups", names_base=False),
    Reserved(b"groups:limit", "zset", "groups", names_base=False),
    Reserved(b"groups:max", "zset", "groups", names_base=False),
    Reserved(b"groups:paused", "zset", "groups", names_base=False),
    Reserved(b"groups:metas", "zset", "groups", names_base=False),
    Reserved(b"groups-lid", "string", "groups", names_base=False),
)

SETS_ONCE = frozenset({"completed", "failed"})
"""Roles that the first releases of Bull kept in sets: their ids count, although later releases fail on the key."""


@dataclass(frozen=True)
class SubKey:
    """A key that belongs to one job: what follows the job's own key, its Redis type, its role."""

    ending: bytes
    type: str
    role: str


SUB_KEYS: tuple[SubKey, ...] = (
    SubKey(b":lock", "string", "lock"),
    SubKey(b":logs", "list", "logs"),
    SubKey(b":dependencies", "set", "dependencies"),
    SubKey(b":processed", "hash", "processed"),
    SubKey(b":failed", "hash", "failed-children"),
    SubKey(b":unsuccessful", "zset", "unsuccessful"),
    # 1.16 to 1.24 tell of a parent's release in a stream of its own.
    SubKey(b":events", "stream", "parent-events"),
)


@dataclass(frozen=True)
class Family:
    """Keys whose free part follows a fixed head; `ending` may fix the tail as well."""

    head: bytes
    ending: bytes
    type: str
    role: str


FAMILIES: tuple[Family, ...] = (
    Family(b"de:", b"", "string", "dedup"),
    Family(b"limiter:", b"", "string", "limiter"),
    Family(b"limiter:", b":limited", "set", "limited"),
    Family(b"groups:", b"", "list", "group"),
    Family(b"groups:", b":p", "zset", "group"),
    Family(b"groups:", b":limit", "string", "groups"),
)
"""Families of another type than hash. Hashes are told apart by their fields, see :mod:`.fields`."""

HASH_HEADS: tuple[bytes, ...] = (b"repeat:", b"dn:", b"groups:")
"""Heads under which a hash without `timestamp` is a schedule, a parked job, a group's settings."""

ROLES: tuple[str, ...] = (
    "job",
    "scheduler",
    "dedup-next",
    "unplaced",
    "relay",
    *sorted(
        {r.role for r in RESERVED} | {s.role for s in SUB_KEYS} | {f.role for f in FAMILIES},
    ),
)

STRUCTURES: tuple[str, ...] = (
    "completed",
    "failed",
    "delayed",
    "prioritized",
    "active",
    "wait",
    "paused",
    "waiting-children",
    "stalled",
    "priority",
    "limited",
    "wait:added",
    "group",
    "repeat",
    "marker",
)
"""Roles whose elements become membership rows; the first eight decide a job's state."""

DECIDING = 8
"""How many of :data:`STRUCTURES` decide a state."""

RELAY_MARKS: tuple[bytes, ...] = (b"::relay:{", b"::relay:namespaces")
"""What only keys of the 6.4+ message relay hold; their queue segment is empty, so they are no queue's."""

DEFAULT_PREFIXES: tuple[bytes, ...] = (b"bull", b"{bull}")
NO_COLON_SINCE = (5, 12, 12)
"""From this BullMQ version on Queue and Worker refuse a queue name with a colon."""


@dataclass(frozen=True)
class Split:
    """A base read as prefix and queue name, and a sentence on the doubt, if there is one."""

    namespace: bytes
    queue: bytes
    doubt: str | None = None


def split_base(base: bytes, prefixes: Sequence[bytes] = (), version: tuple[int, ...] | None = None) -> Split:
    """Prefix and queue name of a base.

    Args:
        base: e.g. ``b"bull:emails"``.
        prefixes: prefixes the user settled; the longest that fits wins over every rule.
        version: version of the last BullMQ `Queue` object that opened the queue, where it recorded one.
    """
    settled = [p for p in prefixes if base.startswith(p + b":")]
    if settled:
        prefix = max(settled, key=len)
        return Split(prefix, base[len(prefix) + 1 :])
    cut = _last_colon(base)
    if cut < 0:
        return Split(b"", base, "the key names hold no prefix")
    head, name = base[:cut], base[cut + 1 :]
    default = next((p for p in DEFAULT_PREFIXES if base.startswith(p + b":")), None)
    no_colon = version is not None and version >= NO_COLON_SINCE
    if default is None:
        if no_colon or b":" not in _without_tags(head):
            return Split(head, name)
        return Split(head, name, "prefix and queue name may be divided at an earlier colon")
    rest = base[len(default) + 1 :]
    if rest == name:
        return Split(default, rest)
    if no_colon:
        # This release opened the queue by name, and would have refused a name with a colon.
        return Split(head, name)
    return Split(default, rest, "the queue name holds a colon: part of it may belong to the prefix")


def _last_colon(base: bytes) -> int:
    """Position of the last colon outside a hash tag, else of the last colon at all, else -1."""
    masked = _without_tags(base)
    found = masked.rfind(b":")
    return found if found >= 0 else base.rfind(b":")


def _without_tags(base: bytes) -> bytes:
    """The base with what stands in braces blanked, same length."""
    return re.sub(rb"\{[^{}]*\}", lambda m: b"_" * len(m.group()), base)


def version_of(text: bytes) -> tuple[int, ...] | None:
    """Numbers of `meta.version`, e.g. ``bullmq:5.81.5``; None where it holds none."""
    found = re.search(rb"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", text)
    return tuple(int(part) for part in found.groups()) if found else None
