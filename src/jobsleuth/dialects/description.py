"""What a description of a layout consists of."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from jobsleuth.errors import DialectError

UNITS = {"s": 1_000.0, "ms": 1.0, "us": 0.001, "ns": 0.000_001}
"""Unit of a stored number that is a time → milliseconds."""
ISO, ANY = "iso", "any"
"""A time as ISO 8601 text; and whatever of all these gives a year between 2000 and 2100, seconds first."""
STATES = ("processing", "active", "waiting", "scheduled", "delayed", "retry", "failed", "completed")
"""What being in a structure can mean. Where an id is in several, the first of these is its state."""
TIMES = ("created_at", "scheduled_at", "started_at", "finished_at")
SINCE = {
    "processing": "started_at", "active": "started_at", "failed": "finished_at", "completed": "finished_at"
}  # fmt: skip
"""State → column of `jobs` that scores fill where they say since when a job is in the structure."""
NUMBERS = ("attempts", "max_attempts", "priority")
TEXTS = ("name", "error", "worker_name")
COLUMNS = ("id", "payload", *TEXTS, *TIMES, *NUMBERS)
"""Columns of `jobs` that a field of the record may fill."""
INSIDE, HASH, JSON, FIELD = "inside", "hash", "json", "field"
"""Where a job's record is: in the member itself, in a hash, in a string that holds JSON, in one field of a hash that
holds JSON (the field's name is the id)."""
PARTS = ("queue", "id", "worker", "namespace")
MEMBER_PARTS = ("id", "rest")
"""Parts of a member that holds more than an id."""

_PIECE = re.compile(r"(?P<text>[^{}]+)|(?P<brace>\{\{|\}\})|\{(?P<part>[^{}]*)\}")


@dataclass(frozen=True)
class Pattern:
    """A key's name with named parts.

    ``{queue}`` stands for one or more bytes without a colon, ``{queue...}`` for any; ``{{`` and ``}}`` are braces.

    Attributes:
        text: as written.
        regex: the same for bytes, parts as named groups.
        head: bytes that every such name begins with.
        parts: names of the parts, in order.
    """

    text: str
    regex: str
    head: bytes
    parts: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, known: tuple[str, ...] = PARTS) -> Pattern:
        """Reads a pattern of keys, or of members where `known` is :data:`MEMBER_PARTS`.

        Raises:
            DialectError: it has a part that is not known or comes twice, braces that do not close, or nothing fixed.
        """
        pieces: list[str] = []
        parts: list[str] = []
        fixed, head, at = "", "", 0
        while found := _PIECE.match(text, at):
            at = found.end()
            if (given := found["part"]) is None:
                fixed += (plain := found["text"] or found["brace"][0])
                head += "" if parts else plain
                pieces.append(_literal(plain))
                continue
            name = given.removesuffix("...")
            if name not in known:
                raise DialectError(f"there is no part {{{given}}}", hint=f"there are: {', '.join(known)}")
            if name in parts:
                raise DialectError(f"the part {{{name}}} comes twice")
            parts.append(name)
            pieces.append(f"(?P<{name}>{'.+' if given.endswith('...') else '[^:]+'})")
        if at < len(text):
            raise DialectError("a brace is not closed", hint="a part is {queue}; a brace itself is {{ or }}")
        if not (fixed.strip(":") if known is PARTS else fixed):
            every, need = ("key", "a fixed part besides a colon") if known is PARTS else ("member", "a fixed part")
            raise DialectError(f"the pattern fits every {every}", hint=f"it needs {need}")
        return cls(text, f"(?s)^{''.join(pieces)}$", head.encode(), tuple(parts))

    def is_case_of(self, other: Pattern) -> bool:
        """Whether all names that fit this fit the other, too, judged by one that fits this."""
        name = self.spelled({part: b"a:a" if f"{{{part}...}}" in self.text else b"a" for part in self.parts})
        return re.fullmatch(other.regex.encode(), name) is not None

    def spelled(self, parts: Mapping[str, bytes]) -> bytes:
        """The key's name with the parts filled in."""
        found = _PIECE.finditer(self.text)
        return b"".join(
            parts[piece["part"].removesuffix("...")]
            if piece["part"] is not None
            else (piece["text"] or piece["brace"][0]).encode()
            for piece in found
        )


def _literal(text: str) -> str:
    """The text as a regular expression over bytes."""
    return "".join(chr(b) if chr(b).isascii() and chr(b).isalnum() else f"\\x{b:02x}" for b in text.encode())


@dataclass(frozen=True)
class Structure:
    """A key that holds ids or whole jobs.

    Attributes:
        name: what `keys` calls it.
        state: what being in it means, one of :data:`STATES`; None: nothing (a set of ids seen before).
        type: list, zset or set.
        pattern: its keys.
        unit: unit of a zset's scores, which are times; None: they are none.
        line: line of the file that describes it, 0 if none does.
        unit_line: line of the unit.
        late: whether it is tried only after what is not late of every layout.
        since: whether scores are the times when jobs came there, not those when they are due; see :data:`SINCE`.
        member: how an id stands in a member; None: it is the member. Members that do not fit are ids as they are.
    """

    name: str
    state: str | None
    type: str
    pattern: Pattern
    unit: str | None = None
    line: int = 0
    unit_line: int = 0
    late: bool = False
    since: bool = False
    member: Pattern | None = None

    @property
    def place(self) -> str:
        """What `membership` calls it, and checks know it by: its state, whatever its name is. What they know of a
        structure called `active` holds for libraries with stalled checks or leases."""
        return ("processing" if self.state == "active" else self.state) or self.name


@dataclass(frozen=True)
class Source:
    """Fields of the record, the first that is there counts: their names (dots lead into JSON), the unit of a time, and
    the line of the file."""

    fields: tuple[str, ...]
    unit: str | None = None
    line: int = 0


@dataclass(frozen=True)
class Layout:
    """One kind of queue.

    Attributes:
        name: what people call it; the column `layout`.
        namespace: namespace of its queues where patterns have no part of that name.
        structures: in the order in which they are tried.
        record: :data:`INSIDE`, :data:`HASH`, :data:`JSON` or :data:`FIELD`.
        record_keys: keys of the records, or of the hashes that hold them, where they are not inside; a key is of the
            first that it fits.
        fields: column of `jobs` → where it stands; `id` may name several fields.
        ids: fields that hold the id of a job that is stored inside, in order; none of them there: a digest is the id.
        lock: keys of locks.
        queue: name of the queue where a pattern has no part of that name.
        file: where it was read from; None: it is built in.
        line: line where it begins; so for locks and ids, 0 where they are not described.
        record_lines: line of each of the records' keys.
        place: (namespace, queue) as its keys have them → as the queue is called; None: the same.
    """

    name: str
    namespace: str
    structures: tuple[Structure, ...]
    record: str = INSIDE
    record_keys: tuple[Pattern, ...] = ()
    fields: dict[str, Source] = field(default_factory=dict)
    ids: tuple[str, ...] = ("id", "jid", "uuid")
    lock: Pattern | None = None
    queue: str | None = None
    file: str | None = None
    line: int = 0
    lock_line: int = 0
    record_lines: tuple[int, ...] = ()
    ids_line: int = 0
    place: Callable[[bytes, bytes], tuple[bytes, bytes]] | None = None


@dataclass(frozen=True)
class Described:
    """What the user described: layouts, and those of plain lists in place of the built-in ones (None: these)."""

    layouts: tuple[Layout, ...] = ()
    lists: tuple[Layout, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all of them, each once."""
        return tuple(dict.fromkeys(layout.name for layout in (*self.layouts, *(self.lists or ()))))
