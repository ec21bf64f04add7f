"""Keys that no dialect claims: which of them look like a queue, and how one would describe it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from jobsleuth.dialects import Described, Options, all_dialects
from jobsleuth.dialects.described.claim import Finder, claim
from jobsleuth.dialects.described.records import parsed
from jobsleuth.dialects.described.tables import Tables
from jobsleuth.dialects.description import UNITS, Layout
from jobsleuth.dialects.layouts.file import read_layouts
from jobsleuth.dialects.layouts.units import require_units
from jobsleuth.dialects.rows import YEAR_2000_MS, YEAR_2100_MS, is_type, take
from jobsleuth.errors import UsageError
from jobsleuth.keyspace import Keyspace, Rows
from jobsleuth.pipeline.guess_layouts import MOST, Draft, Fit, Key, Link, drafts, fields_of
from jobsleuth.pipeline.guess_names import SEEN, Family, Name, families, name_of, with_workers
from jobsleuth.sources import ReadOptions, open_keyspace, snapshot

_KEYS = 2_000
"""Lists, zsets and sets that are looked into."""
_GUESSES = 50
"""Descriptions that are made."""
_MEMBERS = 50
"""Members that are looked at in each."""
_LARGEST = 1_000_000
_NAMES = 50_000
"""Names that are taken apart to choose those."""
_RECORDS = 500_000
"""Hashes and strings whose names are compared with members."""
_TRIED = 200_000
"""Elements up to which a description is tried on all of them before it is shown."""
_HASHES = 200
"""Hashes whose fields are compared with members."""
_FIELDS = 1_000_000
"""Fields of all of these."""
_PROBED = 5
"""Strings of a kind that are opened to see whether they are records."""
_JOINT = re.compile(rb"[-:_./|]")
_PICKLED = re.compile(rb"(?:.{8}(?=\x80[\x04\x05]\x95))?\x80[\x02-\x05].*\.", re.DOTALL)
"""What Python pickles, protocol 2 or later; huey puts 8 bytes, the time, before what it ranks."""
_INSIDE, _IDS, _OPAQUE = "inside", "ids", "opaque"


@dataclass(frozen=True)
class Guess:
    """Keys that look like one kind of queue.

    Attributes:
        kind: in words.
        keys: some of them, as stored.
        count: how many there are.
        why: what speaks for it, sentences.
        layout: a description to start from, TOML; None: none is needed or possible.
    """

    kind: str
    keys: tuple[bytes, ...]
    count: int
    why: tuple[str, ...]
    layout: str | None


@dataclass
class _Looked:
    """A key, and what was seen in it."""

    key: Key
    members: list[bytes]
    objects: int = 0
    pickled: int = 0
    linked: int = 0
    kind: str | None = None


def guess(evidence: Path, described: Described, reading: ReadOptions) -> list[Guess]:
    """Looks at the lists, zsets, sets and streams that neither a library nor one of `described` claims.

    What is pasted from a guess takes just the keys it was made for.

    Raises:
        EvidenceError: the evidence cannot be read.
        UsageError: two layouts give queues one name.
    """
    options = Options(layouts=described.layouts, lists=described.lists)
    with snapshot(evidence, spool=reading.spool) as source, open_keyspace(source, reading) as keyspace:
        free = keyspace.live.copy()
        named = np.zeros(len(free), np.bool_)
        for dialect in all_dialects():
            claims = dialect.claim(keyspace, free, options)
            free &= claims.role < 0
            if dialect.name == "lists" and described.lists is None:
                named = claims.role >= 0  # by its name only: what it holds may tell more
        found = [
            *_Collections(keyspace, free, named, described).guesses(),
            *_streams(keyspace, free & is_type(keyspace, "stream")),
        ]
        return sorted(found, key=lambda g: (-g.count, g.keys))


class _Collections:
    def __init__(
        self,
        keyspace: Keyspace,
        free: npt.NDArray[np.bool_],
        named: npt.NDArray[np.bool_],
        described: Described,
    ) -> None:
        self._keyspace = keyspace
        self._free = free
        self._named = named
        self._described = described
        self._unseen = np.zeros(len(free), np.bool_)
        self._fit = Fit(Finder(keyspace, keyspace.live), keyspace.live & ~free & ~named, self._unseen)
        self._titles = {word for form in described.layouts for word in (form.name, form.namespace)}

    def guesses(self) -> Iterator[Guess]:
        """Guesses at lists, zsets and sets."""
        looked = [one for one in self._judged(self._looked()) if one.kind is not None]
        names = with_workers(one.key.name for one in looked)
        for one, name in zip(looked, names, strict=True):
            one.key.name = name
        by_name = {one.key.name: one for one in looked}
        keys = {name: one.key for name, one in by_name.items()}
        kinds = self._kinds(looked)
        accepted: list[Draft] = []
        left = dict(by_name)
        for family in families(names, kinds):
            if len(accepted) >= _GUESSES:
                break
            linked = kinds[family.names[0]] == _IDS
            while own := self._described_one(family, keys, linked, accepted):
                for name in own:
                    del left[name]
                family = replace(family, names=tuple(name for name in family.names if name in left))
        for draft in accepted:
            yield self._told(self._finished(draft), by_name)
        if left:
            why = (
                "they are too many, or no pattern means them and no others: names that are no text, or too much alike",
            )
            yield Guess(
                "keys that look like queues, without a description",
                tuple(sorted(name.stored for name in left)[:3]),
                len(left),
                why,
                None,
            )

    def _described_one(self, family: Family, keys: dict[Name, Key], linked: bool, accepted: list[Draft]) -> list[Name]:
        """Describes some of the family, the first way that fits; which, none where nothing fits."""
        for with_records in (True, False) if linked else (False,):
            for tries in drafts(family, keys, with_records) if family.names else ():
                for draft in tries:
                    if self._accept(draft, with_records, accepted):
                        return [key.name for some in draft.keys.values() for key in some]
        return []

    # -- looking ------------------------------------------------------------------------------------------------------

    def _looked(self) -> list[_Looked]:
        keyspace = self._keyspace
        elements = np.asarray(keyspace.keys.column("elements").fill_null(0).to_numpy(), np.float64)
        types = {name: is_type(keyspace, name) for name in ("list", "zset", "set")}
        possible = (types["list"] | types["zset"] | types["set"]) & (elements <= _LARGEST)
        rows = self._chosen(possible)
        self._unseen[possible & (self._free | self._named)] = True
        self._unseen[rows] = False
        if not len(rows):
            return []
        names = _names(keyspace, rows)
        found: dict[int, _Looked] = {}
        same: dict[tuple[bytes, str], _Looked] = {}
        for row, name in zip(rows.tolist(), names, strict=True):
            type_ = next(name for name, are in types.items() if are[row])
            found[row] = same.setdefault((name, type_), _Looked(Key([], name_of(name, type_)), []))
            found[row].key.rows.append(row)
        # Of all scores, per key: how many there are, and how many are times in a unit.
        scored = np.zeros((len(rows), 1 + len(_SCORES)), np.int64)
        for batch in keyspace.elements(rows):
            row = batch.column("row").to_numpy()
            scores = batch.column("score").fill_null(np.nan).to_numpy(zero_copy_only=False)
            at = np.searchsorted(rows, row)
            for nth, unit in enumerate(_SCORES, 1):
                with np.errstate(over="ignore"):  # infinite is no time either
                    ms = scores * UNITS[unit]
                np.add.at(scored[:, nth], at[(ms >= YEAR_2000_MS) & (ms < YEAR_2100_MS)], 1)
            np.add.at(scored[:, 0], at[~np.isnan(scores)], 1)
            starts = np.flatnonzero(np.diff(row, prepend=-1))
            for start, end in zip(starts, [*starts[1:], len(row)], strict=True):
                one = found[int(row[start])]
                wanted = min(int(end - start), _MEMBERS - len(one.members))
                if wanted > 0:
                    one.members += batch.column("member").slice(int(start), wanted).to_pylist()
        for one in same.values():
            told = scored[np.isin(rows, one.key.rows)]
            units = [u for n, u in enumerate(_SCORES, 1) if told[:, 0].all() and (told[:, n] > 0.9 * told[:, 0]).all()]
            one.key.unit = units[0] if units else None
        looked = list(same.values())
        self._link(looked)
        return looked

    def _chosen(self, possible: npt.NDArray[np.bool_]) -> Rows:
        """Keys to look into, ascending: of too many those whose names say most."""
        free = np.concatenate([np.flatnonzero(possible & self._free), np.flatnonzero(possible & self._named)])
        if len(free) <= _KEYS:
            return np.sort(free)
        unique, back = np.unique(free[:_NAMES], return_inverse=True)
        named = [name_of(stored, "") for stored in _names(self._keyspace, unique)]
        ranks = np.array([0 if name.strong else 1 if name.state else 2 for name in named])[back]
        return np.sort(free[np.argsort(ranks, kind="stable")[:_KEYS]])

    def _link(self, looked: Sequence[_Looked]) -> None:
        """Finds hashes and strings whose names end in members."""
        wanted = {part for one in looked for member in one.members for part in (member, member.partition(b":")[0])}
        wanted.discard(b"")
        found: dict[bytes, list[tuple[Link, int]]] = {}
        hashes: dict[int, bytes] = {}
        for type_, row, name in self._records():
            if type_ == "hash":
                hashes[row] = name
            for joint in [*_JOINT.finditer(name)][-8:]:
                head, tail = name[: joint.end()], name[joint.end() :]
                if tail in wanted:
                    found.setdefault(tail, []).append((Link(head, b"", type_), row))
                elif tail[:1] == b"{" and tail[-1:] == b"}" and tail[1:-1] in wanted:
                    found.setdefault(tail[1:-1], []).append((Link(head + b"{", b"}", type_), row))
        self._link_fields(looked, hashes, found)
        unread = self._unreadable(found)
        for one in looked:
            # `job:execution`, as RQ writes it, names the job with its head only.
            whole = [(member, link, row) for member in one.members for link, row in found.get(member, ())]
            known = {link for _, link, _ in whole}
            heads = [member.partition(b":")[0] for member in one.members if b":" in member]
            parts = [(head, link, row) for head in heads for link, row in found.get(head, ()) if link not in known]
            for member, link, row in [*whole, *parts]:
                if link in unread and member.isdigit():
                    continue  # numbers are in the names of much that is no record
                one.key.links[link] += 1
                one.key.records.setdefault(link, []).append(row)
                if link not in known:
                    one.key.cuts.add(link)
                if b":" in member:
                    one.key.colons.add(link)

    def _records(self) -> Iterator[tuple[str, int, bytes]]:
        """Type, row and name of hashes, then of strings, that nobody claims."""
        left = _RECORDS
        for type_ in ("hash", "string"):
            rows = np.flatnonzero(self._free & is_type(self._keyspace, type_))[:left]
            left -= len(rows)
            for row, name in zip(rows.tolist(), _names(self._keyspace, rows), strict=True):
                yield type_, row, name

    def _link_fields(
        self, looked: Sequence[_Looked], names: dict[int, bytes], found: dict[bytes, list[tuple[Link, int]]]
    ) -> None:
        """Finds hashes that have members as fields, whose values are JSON: those called like a key with such members,
        and of too many the largest."""
        stems = {one.key.name.stored.rpartition(b":")[0] for one in looked}
        count = self._keyspace.keys.column("elements").fill_null(0).to_numpy().astype(np.int64)
        near = [row for row, name in names.items() if name.rpartition(b":")[0] in stems and count[row] <= _FIELDS]
        near = sorted(near, key=lambda row: (-count[row], row))[:_HASHES]
        largest: Rows = np.array(near, np.int64)
        chosen = np.sort(largest[np.cumsum(count[largest]) <= _FIELDS])
        wanted = {member for one in looked for member in one.members if member}
        for batch in self._keyspace.elements(chosen) if len(chosen) else ():
            given = zip(*(batch[name].to_pylist() for name in ("row", "member", "value")), strict=True)
            for row, field, value in given:
                if field in wanted and parsed(value) is not None:
                    found.setdefault(field, []).append((Link(names[row], b"", "fields"), row))

    def _unreadable(self, found: dict[bytes, list[tuple[Link, int]]]) -> set[Link]:
        """Links to strings that need not be records: the first of each kind hold no JSON object."""
        rows: dict[Link, list[int]] = {}
        for some in found.values():
            for link, row in some:
                if link.type == "string" and len(rows.setdefault(link, [])) < _PROBED:
                    rows[link].append(row)
        chosen: Rows = np.array(sorted({row for some in rows.values() for row in some}), np.int64)
        records: set[int] = set()
        for batch in self._keyspace.strings(chosen) if len(chosen) else ():
            values = zip(batch["row"].to_pylist(), batch["value"].to_pylist(), strict=True)
            records |= {row for row, value in values if parsed(value) is not None}
        return {link for link, some in rows.items() if not records.intersection(some)}

    def _judged(self, looked: Sequence[_Looked]) -> list[_Looked]:
        """Looked at, each with what it holds; None where too little speaks for a queue."""
        for one in looked:
            key = one.key
            objects = [record for record in map(parsed, one.members) if isinstance(record, dict)]
            one.objects = len(objects)
            one.pickled = sum(_PICKLED.fullmatch(member) is not None for member in one.members)
            one.linked = max(key.links.values(), default=0)
            by_name = bool(self._named[key.rows].any())
            word = key.name.state not in (None, SEEN)
            # Numbers are ids of much: without a word for a queue all must name such a key.
            if one.linked and one.linked >= (0.5 if word else 0.9) * len(one.members):
                one.kind = _IDS
            elif objects and len(objects) >= 0.8 * len(one.members) and not by_name:
                one.kind = _INSIDE
                key.samples = objects
            elif not by_name and (
                (one.pickled and one.pickled >= 0.8 * len(one.members))
                or (word and (key.name.type == "list" or (key.name.type == "zset" and key.unit is not None)))
            ):
                one.kind = _OPAQUE
            if (key.name.type == "set" and not (word and key.name.strong)) or (
                key.name.type == "zset" and key.unit is None and not word and not (one.kind == _OPAQUE and one.pickled)
            ):
                one.kind = None
        sure = {one.key.name.base for one in looked if one.kind is not None}
        told: dict[tuple[bytes, ...], set[str | None]] = {}
        for one in looked:
            if one.key.name.strong and not self._named[one.key.rows].any():
                told.setdefault(one.key.name.base, set()).add(one.key.name.state)
        # Two words for states of jobs beside each other say enough by themselves.
        sure |= {base for base, states in told.items() if len(states - {SEEN}) > 1}
        for one in looked:
            # What stands beside a queue and says what it is of it belongs to it, whatever it holds.
            beside = one.key.name.strong and one.key.name.base in sure and one.key.name.base
            if one.kind is None and beside and not self._named[one.key.rows].any():
                one.kind = _OPAQUE
        return list(looked)

    def _kinds(self, looked: Sequence[_Looked]) -> dict[Name, str]:
        """Name → what its queue holds: what tells nothing goes with its neighbours."""
        around: dict[tuple[bytes, ...], set[str]] = {}
        for one in looked:
            around.setdefault(one.key.name.base, set()).add(str(one.kind))
        out = {}
        for one in looked:
            kind = str(one.kind)
            if kind == _OPAQUE:
                kind = next((k for k in (_IDS, _INSIDE) if k in around[one.key.name.base]), _OPAQUE)
            out[one.key.name] = kind
        return out

    # -- describing ---------------------------------------------------------------------------------------------------

    def _accept(self, draft: Draft, linked: bool, accepted: list[Draft]) -> bool:
        """Adds the draft if it means its own keys only. Two that share their records share one space of ids: they
        become one."""
        if linked and draft.record is None:
            return False
        for nth, other in enumerate(accepted if linked else ()):
            if other.record == draft.record:
                both = replace(other, keys={**other.keys, **draft.keys}, queue=other.queue or draft.queue)
                if (
                    len(both.keys) > MOST
                    or other.keys.keys() & draft.keys.keys()
                    or not self._fit.fits(both, instead=other)
                ):
                    return False
                self._fit.take(both)
                accepted[nth] = both
                return True
        if not self._fit.fits(draft):
            return False
        self._fit.take(draft)
        accepted.append(draft)
        return True

    def _finished(self, draft: Draft) -> Draft:
        """With a title of its own and fields; without what the evidence as a whole does not bear out."""
        title, number = draft.title, 1
        while title in self._titles:
            number += 1
            title = f"{draft.title}-{number}"
        self._titles.add(title)
        draft = replace(draft, title=title)
        if draft.record is not None:
            draft = replace(draft, fields=fields_of(self._samples(draft)))
        for form in (draft, replace(draft, fields=()), replace(draft, fields=(), scores=False)):
            try:
                self._try(read_layouts(form.toml(), "guess").layouts)
            except UsageError:
                continue
            return form
        return replace(draft, fields=(), scores=False)

    def _samples(self, draft: Draft) -> list[dict[str, Any]]:
        keys = [key for some in draft.keys.values() for key in some]
        rows = sorted(
            {row for key in keys for link, some in key.records.items() for row in some if link in draft.links}
        )
        chosen: Rows = np.array(rows[:_MEMBERS], np.int64)
        if not len(chosen):
            return []
        if draft.record is not None and draft.record[1] == "hash":
            return [
                dict(rest or ()) for batch in self._keyspace.records(chosen, ()) for rest in batch["rest"].to_pylist()
            ]
        if draft.record is not None and draft.record[1] == "fields":
            values = [
                v for batch in self._keyspace.elements(chosen) for v in batch["value"].slice(0, _MEMBERS).to_pylist()
            ]
        else:
            values = [value for batch in self._keyspace.strings(chosen) for value in batch["value"].to_pylist()]
        return [record for record in map(parsed, values) if isinstance(record, dict)]

    def _try(self, layouts: Sequence[Layout]) -> None:
        """Reads what the layouts describe, where that is not much.

        Raises:
            UsageError: a unit does not fit, or a queue is called as another one.
        """
        wide = self._free | self._named
        claims = claim("layouts", self._keyspace, wide, layouts)
        rows = np.flatnonzero(claims.role >= 0)
        elements = self._keyspace.keys.column("elements").fill_null(1).to_numpy()[rows]
        if elements.sum() <= _TRIED and claims.queues:
            tables = Tables(self._keyspace, claims, Options(payload_limit=0))
            for _ in tables.rows():
                pass
            require_units(layouts, tables.tallies)

    def _told(self, draft: Draft, looked: dict[Name, _Looked]) -> Guess:
        why: list[str] = []
        names: list[bytes] = []
        kinds: Counter[str] = Counter()
        for (text, type_), keys in sorted(draft.keys.items()):
            some = [looked[key.name] for key in keys]
            names += [key.name.stored for key in keys]
            members = sum(len(one.members) for one in some)
            objects, linked = sum(one.objects for one in some), sum(one.linked for one in some)
            if draft.record is not None and linked:
                kinds[_IDS] += 1
                exists = "field of a hash" if draft.record[1] == "fields" else f"{draft.record[1]} that exists"
                why.append(f"{text}: {linked:,} of {members:,} members name a {exists}")
            elif objects * 2 > members:
                kinds[_INSIDE] += 1
                why.append(f"{text}: {objects:,} of {members:,} members looked at are JSON objects")
            if pickled := sum(one.pickled for one in some):
                why.append(f"{text}: {pickled:,} of {members:,} members looked at are pickled by Python")
            if (state := keys[0].name.state) is not None:
                why.append(f"{text}: its name says {state}")
            if type_ == "zset" and keys[0].unit is not None and draft.scores:
                why.append(f"{text}: its scores are times in {keys[0].unit}")
        types = " and ".join(sorted({f"{type_}s" for _, type_ in draft.keys}))
        where = "jobs in the members themselves" if kinds[_INSIDE] else "members that tell nothing"
        if draft.record is not None:
            where = f"ids, and a {'field of a hash' if draft.record[1] == 'fields' else draft.record[1]} for each job"
        return Guess(f"{types} with {where}", tuple(sorted(names)[:3]), len(names), tuple(why), draft.toml())


_SCORES = ("s", "ms")
"""Units of scores that are tried."""


def _streams(keyspace: Keyspace, free: npt.NDArray[np.bool_]) -> Iterator[Guess]:
    rows = np.flatnonzero(free)
    if not len(rows):
        return
    names = sorted(_names(keyspace, rows))
    why = ("a stream is a queue once it has a consumer group; whoever reads these does without",)
    yield Guess("streams without a consumer group", tuple(names[:3]), len(names), why, None)


def _names(keyspace: Keyspace, rows: Rows) -> list[bytes]:
    """Names of ascending rows."""
    found: list[bytes] = take(keyspace.keys.column("key"), rows).to_pylist()
    return found
