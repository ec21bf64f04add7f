"""A guess as a description to paste, and whether that description fits the very keys it was made for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from jobsleuth.dialects.described.claim import Finder
from jobsleuth.dialects.described.records import ABSENT, at, moment, own_id
from jobsleuth.dialects.description import UNITS, Pattern
from jobsleuth.errors import DialectError
from jobsleuth.keyspace import Rows
from jobsleuth.pipeline.guess_names import SEEN, Family, Name, fixed, pattern_of
from jobsleuth.safetext import from_bytes

MOST = 20
"""Structures of one description that people would read."""
LONGEST = 200
"""Characters of a pattern that people would paste."""
_NAMES = (
    "name",
    "type",
    "class",
    "task",
    "job",
    "kind",
    "event",
    "func",
    "headers.task",
    "func_name",
    "description",
    "actor_name",
)
_PAYLOADS = ("data", "payload", "body", "args")
_TIMES: dict[str, tuple[str, ...]] = {
    "created_at": (
        "created_at",
        "enqueued_at",
        "createdAt",
        "created",
        "made",
        "timestamp",
        "time",
        "ts",
        "at",
        "message_timestamp",
        "options.timestamp",
    ),
    "started_at": ("started_at", "startedAt", "started"),
    "finished_at": ("finished_at", "ended_at", "finishedAt", "finished", "completed_at"),
}
_NUMBERS: dict[str, tuple[str, ...]] = {
    "attempts": ("attempts", "retry_count", "tries", "retries"),
    "max_attempts": ("max_attempts", "maxAttempts", "max_retries"),
}
_IDS = re.compile(r"(id|jid|uuid|guid|(job|task|message|correlation)[-_]?id|nr|number)", re.IGNORECASE)
_RECORDS = {"hash": "hash", "string": "json", "fields": "field"}


@dataclass(frozen=True)
class Link:
    """What stands around ids in the names of keys that are their records, and the type of these keys; for records that
    are `fields` of a hash, its name."""

    before: bytes
    after: bytes
    type: str


@dataclass
class Key:
    """A list, zset or set that looks like a part of a queue.

    Attributes:
        rows: its rows, one for each database that has it.
        name: its name, taken apart, and its type.
        unit: unit of scores that are times.
        samples: JSON objects among its members.
        links: records that its members name → how many do.
        records: some rows of those.
        colons: records of ids that hold a colon.
        cuts: records whose ids are what stands before the first colon of members.
        why: what speaks for it.
    """

    rows: list[int]
    name: Name
    unit: str | None = None
    samples: list[dict[str, Any]] = field(default_factory=list)
    links: Counter[Link] = field(default_factory=Counter)
    records: dict[Link, list[int]] = field(default_factory=dict)
    colons: set[Link] = field(default_factory=set)
    cuts: set[Link] = field(default_factory=set)
    why: list[str] = field(default_factory=list)

    @property
    def state(self) -> str | None:
        """What being in it means; None: nothing."""
        if self.name.state == SEEN:
            return None
        # Scores that are no times are ranks.
        return self.name.state or ("delayed" if self.name.type == "zset" and self.unit is not None else "waiting")


@dataclass(frozen=True)
class Draft:
    """One description in the making.

    Attributes:
        title: name of the layout.
        keys: pattern, type → the keys it is for.
        queue: name of the queue where patterns have none.
        record: pattern and type of the records; None: none.
        links: what the record's pattern was made of.
        fields: lines of the fields.
        ids: line of the ids, "" where they are the usual ones.
        scores: whether units of scores are told.
    """

    title: str
    keys: dict[tuple[str, str], list[Key]]
    queue: str | None
    record: tuple[str, str] | None = None
    links: frozenset[Link] = frozenset()
    fields: tuple[str, ...] = ()
    ids: str = ""
    scores: bool = True

    @property
    def patterns(self) -> list[tuple[str, str]]:
        """Pattern and type of all keys that it means."""
        return [*self.keys, *([] if self.record is None else [self.record])]

    def toml(self) -> str:
        """The description, in ASCII: what a terminal or a mail does to other characters would spoil it."""
        lines = ["[[layout]]", f"name = {quoted(self.title)}"]
        if self.queue is not None:
            lines.append(f"queue = {quoted(self.queue)}")
        if self.ids:
            lines.append(self.ids)
        if self.record is not None:
            text, type_ = self.record
            lines += ["", "[layout.record]", f"key = {quoted(text)}", f'type = "{_RECORDS[type_]}"']
        if self.fields:
            lines += ["", "[layout.fields]", *self.fields]
        for (text, type_), keys in sorted(self.keys.items()):
            lines += ["", "[[layout.structure]]", f"key = {quoted(text)}", f'type = "{type_}"']
            states = Counter(key.state for key in keys)
            if (state := min(states, key=lambda s: (-states[s], str(s)))) is not None:
                lines.append(f'state = "{state}"')
            if any(self.links & key.cuts for key in keys):
                lines.append('member = "{id}:{rest}"')
            units = {key.unit for key in keys}
            # A score that is described is a due time; of jobs that are taken or done it is the time of that.
            due = state not in ("processing", "failed", "completed")
            if self.scores and due and len(units) == 1 and (unit := units.pop()) is not None:
                lines.append(f'score = "{unit}"')
        return "\n".join(lines) + "\n"


def drafts(family: Family, keys: dict[Name, Key], linked: bool) -> Iterator[list[Draft]]:
    """Descriptions of a family, each try what is left when the one before does not fit: with a part for the queue's
    name, then one for each queue."""
    tries = [family.varies] if family.varies is not None else []
    bases: dict[tuple[bytes, ...], list[Name]] = {}
    for name in family.names:
        bases.setdefault(name.base, []).append(name)
    for varies in tries:
        draft = _draft([keys[name] for name in family.names], varies, linked)
        if draft is not None:
            yield [draft]
    alone = [_draft([keys[name] for name in names], None, linked) for names in bases.values()]
    yield [draft for draft in alone if draft is not None]
    # A name that is no text can be spelled only as the part that names the queue.
    spelled = []
    for names in bases.values():
        odd = [at for at, part in enumerate(names[0].base) if fixed(part) is None]
        if len(odd) == 1 and (draft := _draft([keys[name] for name in names], odd[0], linked)) is not None:
            spelled.append(draft)
    yield spelled


def _draft(keys: Sequence[Key], varies: int | None, linked: bool) -> Draft | None:
    patterns: dict[tuple[str, str], list[Key]] = {}
    for key in keys:
        text = pattern_of(key.name, varies)
        if text is None or len(text) > LONGEST or not _parses(text):
            return None
        patterns.setdefault((text, key.name.type), []).append(key)
        if len(patterns) > MOST:
            return None
    base = keys[0].name.base
    told = [part.decode("utf-8", "backslashreplace") for n, part in enumerate(base) if n != varies]
    words = [word for key in keys for word in key.name.weak] or [from_bytes(keys[0].name.stored)]
    queue = None
    if varies is None:
        queue = (told[-1] if told else words[0])[:LONGEST] or "queue"
        told = told[:-1] if len(told) > 1 else told
    title = (":".join(told) or words[0] or "queues")[:LONGEST]
    draft = Draft(title, patterns, queue)
    if not linked:
        samples = [sample for key in keys for sample in key.samples]
        return replace(draft, fields=fields_of(samples), ids=_ids(samples))
    found: Counter[tuple[str, str]] = Counter()
    links: dict[tuple[str, str], set[Link]] = {}
    colons = {link for key in keys for link in key.colons}
    for key in keys:
        for link, count in key.links.items():
            part = "{id...}" if link in colons else "{id}"
            for text in _record_patterns(link, key.name.base[varies] if varies is not None else None, part):
                found[text, link.type] += count
                links.setdefault((text, link.type), set()).add(link)
    fitting = [one for one in found if len(one[0]) <= LONGEST and _parses(one[0])]
    if not fitting:
        return draft
    record = min(fitting, key=lambda one: (-found[one], "{queue}" not in one[0], one))
    # What names other records is of another kind, whatever it is called.
    kept = {
        place: own
        for place, some in patterns.items()
        if (own := [key for key in some if not key.links or links[record] & key.links.keys()])
    }
    return replace(draft, keys=kept, record=record, links=frozenset(links[record]))


def _record_patterns(link: Link, queue: bytes | None, part: str) -> Iterator[str]:
    """The name of records as a pattern, also with the queue's name where it stands in it."""
    before, after = fixed(link.before), fixed(link.after)
    part = "" if link.type == "fields" else part
    if before is not None and after is not None:
        yield before + part + after
    pieces = re.split(rb"([:.])" if link.type == "fields" else rb"(:)", link.before)
    if queue is not None and pieces.count(queue) == 1:
        texts = ["{queue}" if piece == queue else fixed(piece) for piece in pieces]
        if after is not None and None not in texts:
            yield "".join(text or "" for text in texts) + part + after


def _parses(text: str) -> bool:
    try:
        Pattern.parse(text)
    except DialectError:
        return False
    return True


class Fit:
    """Whether descriptions mean just the keys they were made for.

    Args:
        finder: over every key that is there.
        taken: keys that others mean; grows.
        unseen: keys that nobody looked into; a pattern may mean them, too.
    """

    def __init__(self, finder: Finder, taken: npt.NDArray[np.bool_], unseen: npt.NDArray[np.bool_]) -> None:
        self._unseen = unseen
        self._finder = finder
        self._taken = taken.copy()
        self._rows: dict[tuple[str, str], Rows] = {}

    def fits(self, draft: Draft, instead: Draft | None = None) -> bool:
        """Whether each pattern takes keys, only its own, and each key once; `instead` is what it replaces."""
        mine = [] if instead is None else [self._of(pattern) for pattern in instead.patterns]
        self._mark(mine, False)
        try:
            return self._is_free(draft)
        finally:
            self._mark(mine, True)

    def _is_free(self, draft: Draft) -> bool:
        seen: list[Rows] = []
        for pattern in draft.patterns:
            rows, own = self._of(pattern), draft.keys.get(pattern)
            if own is not None:
                strange = ~np.isin(rows, [row for key in own for row in key.rows]) & ~self._unseen[rows]
                if strange.any():
                    return False
            elif pattern[1] == "fields":
                # A hash of jobs of another queue would leave that queue without them.
                linked = [
                    key.records.get(link, []) for some in draft.keys.values() for key in some for link in draft.links
                ]
                if not np.isin(rows, [row for some in linked for row in some]).all():
                    return False
            if not len(rows) or self._taken[rows].any():
                return False
            seen.append(rows)
        every = np.concatenate(seen)
        return len(np.unique(every)) == len(every)

    def _of(self, pattern: tuple[str, str]) -> Rows:
        if pattern not in self._rows:
            type_ = "hash" if pattern[1] == "fields" else pattern[1]
            self._rows[pattern] = self._finder.fitting(Pattern.parse(pattern[0]), type_)[0]
        return self._rows[pattern]

    def _mark(self, some: Sequence[Rows], taken: bool) -> None:
        for rows in some:
            self._taken[rows] = taken

    def take(self, draft: Draft) -> None:
        """Its keys are meant by it from now on."""
        self._mark([self._of(pattern) for pattern in draft.patterns], True)


def fields_of(samples: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """Lines of `[layout.fields]`: members that most samples have, times whose unit fits all that there are."""
    if not samples:
        return ()
    lines: list[str] = []
    used: set[str] = set()

    def values(name: str, least: float = 0.5) -> list[Any]:
        found = [value for sample in samples if (value := at(sample, name)) not in ABSENT]
        return found if len(found) >= least * len(samples) and name not in used else []

    def note(name: str, line: str) -> None:
        used.add(name)
        lines.append(line)

    texts: dict[str, tuple[str, ...]] = {"name": _NAMES, "payload": _PAYLOADS}
    for column, names in texts.items():
        if column == "payload" and not any(isinstance(value, bytes) for value in samples[0].values()):
            continue  # a job that is stored whole is its own payload
        for name in names:
            if any(isinstance(value, str | bytes) and value for value in values(name)):
                note(name, f"{column} = {quoted(name)}")
                break
    for column, names in _TIMES.items():
        for name in names:
            # Most jobs of a queue have not begun.
            stored = values(name, 0.5 if column == "created_at" else 0)
            unit = next((u for u in (*UNITS, "iso") if stored and all(moment(v, u) is not None for v in stored)), None)
            if unit is not None:
                note(name, f'{column} = {{ field = {quoted(name)}, unit = "{unit}" }}')
                break
    for column, names in _NUMBERS.items():
        for name in names:
            stored = values(name, 0)
            if stored and all(re.fullmatch(rb"\d{1,9}", v) if isinstance(v, bytes) else type(v) is int for v in stored):
                note(name, f"{column} = {quoted(name)}")
                break
    return tuple(lines)


def _ids(samples: Sequence[dict[str, Any]]) -> str:
    """The line of `ids`, where jobs hold an id under another name than the usual ones."""
    if not samples or sum(own_id(sample, ("id", "jid", "uuid")) is not None for sample in samples) * 2 >= len(samples):
        return ""
    names: dict[str, None] = {}
    for sample in samples:
        for name, value in sample.items():
            inner = value.items() if isinstance(value, dict) else ()
            names |= dict.fromkeys(n for n in (name, *(f"{name}.{each}" for each, _ in inner)))
    for name in names:
        if _IDS.fullmatch(name.rpartition(".")[2]):
            found = [own_id(sample, (name,)) for sample in samples]
            if None not in found and len(set(found)) == len(found):
                return f"ids = [{quoted(name)}]"
    return ""


def quoted(text: str) -> str:
    """As a basic string of TOML, in ASCII."""
    out = []
    for char in text:
        code = ord(char)
        if char in '"\\':
            out.append(f"\\{char}")
        elif 0x20 <= code < 0x7F:
            out.append(char)
        else:
            out.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return f'"{"".join(out)}"'
