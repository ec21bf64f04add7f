"""Keys that no dialect claims: which of them look like a queue, and how one would describe it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from jobsleuth.dialects import Described, Options, all_dialects
from jobsleuth.dialects.described.records import moment, parsed
from jobsleuth.keyspace import Keyspace
from jobsleuth.sources import ReadOptions, open_keyspace, snapshot

_KEYS = 2_000
"""Lists, zsets and sets that are looked into, the first in the file."""
_MEMBERS = 50
"""Members that are looked at in each."""
_LARGEST = 1_000_000
_RECORDS = 200_000
_WORDS = (
    ("processing", r"processing|in[-_]?progress|busy|working|active|unacked|reserved|running"),
    ("retry", r"retry|retries"),
    ("delayed", r"delayed?|scheduled?|later|due|timers?"),
    ("failed", r"failed|failures?|dead|errors?"),
    ("completed", r"completed|done|finished"),
    ("waiting", r"queues?|pending|wait(ing)?|jobs?|tasks?|todo|ready|work|inbox"),
)
_NAMES = ("name", "type", "class", "task", "job", "kind", "event")
_TIMES = ("created_at", "enqueued_at", "createdAt", "created", "timestamp", "time", "ts", "at")
_UNITS = ("s", "ms", "us", "ns", "iso")
_VARIABLE = re.compile(rb"\d+|[0-9a-fA-F]{8,}(-[0-9a-fA-F]+)*|[0-9a-fA-F-]{32,}")


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
class _Key:
    name: bytes
    type: str
    members: list[bytes]
    scores: list[float]


def guess(evidence: Path, described: Described, reading: ReadOptions) -> list[Guess]:
    """Looks at the lists, zsets, sets and streams that neither a library nor one of `described` claims.

    Raises:
        EvidenceError: the evidence cannot be read.
        UsageError: two layouts give queues one name.
    """
    options = Options(layouts=described.layouts, lists=described.lists)
    with snapshot(evidence, spool=reading.spool) as source, open_keyspace(source, reading) as keyspace:
        free = keyspace.live.copy()
        for dialect in all_dialects():
            free &= dialect.claim(keyspace, free, options).role < 0
        types = np.array(keyspace.keys.column("type").cast(pa.string()).to_pylist(), object)
        heads = _heads(keyspace, free & np.isin(types, ["hash", "string"]), types)
        found = [*_collections(keyspace, free, types, heads), *_streams(keyspace, free & (types == "stream"))]
        return sorted(found, key=lambda g: (-g.count, g.keys))


def _heads(keyspace: Keyspace, rows: Any, types: Any) -> dict[bytes, set[tuple[bytes, str]]]:
    """Last part of a name → what stands before it, of keys that may be records."""
    found: dict[bytes, set[tuple[bytes, str]]] = {}
    chosen = np.flatnonzero(rows)[:_RECORDS]
    names = keyspace.keys.column("key").take(pa.array(chosen)).to_pylist()
    for name, type_ in zip(names, types[chosen], strict=True):
        head, colon, tail = name.rpartition(b":")
        if colon:
            found.setdefault(tail, set()).add((head + colon, type_))
    return found


def _collections(
    keyspace: Keyspace, free: Any, types: Any, heads: dict[bytes, set[tuple[bytes, str]]]
) -> Iterator[Guess]:
    elements = np.asarray(keyspace.keys.column("elements").fill_null(0).to_numpy(), np.float64)
    rows = np.flatnonzero(free & np.isin(types, ["list", "zset", "set"]) & (elements <= _LARGEST))[:_KEYS]
    if not len(rows):
        return
    names = dict(zip(rows.tolist(), keyspace.keys.column("key").take(pa.array(rows)).to_pylist(), strict=True))
    keys = {row: _Key(names[row], types[row], [], []) for row in rows.tolist()}
    for batch in keyspace.elements(rows):
        given = zip(*(batch.column(c).to_pylist() for c in ("row", "member", "score")), strict=True)
        for row, member, score in given:
            key = keys[row]
            if len(key.members) < _MEMBERS:
                key.members.append(member)
                key.scores += [score] if score is not None else []
    groups: dict[tuple[str, str], list[_Key]] = {}
    shapes = _shapes([key.name for key in keys.values()])
    for key in keys.values():
        groups.setdefault((key.type, shapes[key.name]), []).append(key)
    judged = [(pattern, type_, group, _judge(group, pattern, heads)) for (type_, pattern), group in groups.items()]
    families: dict[str, list[tuple[str, str, list[_Key], _Verdict]]] = {}
    for pattern, type_, group, verdict in judged:
        if verdict is not None:
            families.setdefault(_stem(pattern), []).append((pattern, type_, group, verdict))
    for stem, parts in families.items():
        yield _described(stem, parts)


def _stem(pattern: str) -> str:
    """What structures of one queue share: the first part of their names."""
    return pattern.split(":")[0]


def _shapes(names: list[bytes]) -> dict[bytes, str]:
    """Name → pattern: a part that looks like an id, or that is the only one in which several names differ, varies."""
    split = {name: name.split(b":") for name in names}
    seen: Counter[tuple[Any, ...]] = Counter()
    for parts in split.values():
        for at in range(1, len(parts)):
            seen[(*parts[:at], None, *parts[at + 1 :])] += 1
    out = {}
    for name, parts in split.items():
        numbered = [at for at in range(1, len(parts)) if _VARIABLE.fullmatch(parts[at])]
        shared = [at for at in range(1, len(parts)) if seen[(*parts[:at], None, *parts[at + 1 :])] > 1]
        best = max(shared, key=lambda at: seen[(*parts[:at], None, *parts[at + 1 :])], default=None)
        word = best is not None and not any(_state(p.decode("utf-8", "replace")) for p in (parts[best],))
        chosen: list[int | None] = [*numbered, best if word else None]
        place = chosen[0]
        texts = [p.decode("utf-8", "replace").replace("{", "{{").replace("}", "}}") for p in parts]
        if place is not None:
            texts[place] = "{queue}"
        out[name] = ":".join(texts)
    return out


@dataclass
class _Verdict:
    state: str
    why: list[str]
    record: tuple[bytes, str] | None
    samples: list[dict[str, Any]]
    unit: str | None


def _judge(group: list[_Key], pattern: str, heads: dict[bytes, set[tuple[bytes, str]]]) -> _Verdict | None:
    """What speaks for a queue; None where too little does."""
    members = [member for key in group for member in key.members]
    records = [record for record in map(parsed, members) if record is not None]
    linked: Counter[tuple[bytes, str]] = Counter(head for member in members for head in heads.get(member, ()))
    word = next((state for part in reversed(pattern.split(":")) if (state := _state(part)) is not None), None)
    type_ = group[0].type
    scores = [score for key in group for score in key.scores]
    unit = next((u for u in ("s", "ms") if scores and _share(scores, u) > 0.9), None)
    why = []
    inside = len(members) > 0 and len(records) >= 0.8 * len(members)
    if inside:
        why.append(f"{len(records):,} of {len(members):,} members looked at are JSON objects")
    record = None
    if linked and linked.most_common(1)[0][1] >= 0.5 * len(members):
        record = min(linked, key=lambda head: (-linked[head], head))
        why.append(f"{linked[record]:,} of {len(members):,} members name a {record[1]} that exists")
    if word is not None:
        why.append(f"its name says {word}")
    if unit is not None:
        why.append(f"its scores are times in {unit}")
    enough = (inside or record is not None) and (type_ != "set" or word is not None)
    if type_ == "zset" and unit is None and word is None:
        enough = False
    if not enough and not (word is not None and type_ == "list"):
        return None
    state = word or ("delayed" if type_ == "zset" else "waiting")
    return _Verdict(state, why, record, records[:_MEMBERS] if record is None else [], unit)


def _state(part: str) -> str | None:
    """The state that a part of a name speaks of."""
    return next((state for state, words in _WORDS if re.fullmatch(words, part, re.IGNORECASE)), None)


def _share(scores: list[float], unit: str) -> float:
    return sum(moment(score, unit) is not None for score in scores) / len(scores)


def _described(stem: str, parts: list[tuple[str, str, list[_Key], _Verdict]]) -> Guess:
    parts = sorted(parts, key=lambda part: part[0])
    record = next((verdict.record for *_, verdict in parts if verdict.record is not None), None)
    lines = ["[[layout]]", f"name = {_quoted(stem)}"]
    if not any("{queue}" in pattern for pattern, *_ in parts):
        lines.append(f"queue = {_quoted(stem)}")
    if record is not None:
        head = record[0].decode("utf-8", "replace").replace("{", "{{").replace("}", "}}")
        lines += ["", "[layout.record]", f"key = {_quoted(head + '{id}')}", f'type = "{_RECORD_TYPES[record[1]]}"']
    else:
        lines += _fields([sample for *_, verdict in parts for sample in verdict.samples])
    for pattern, type_, _, verdict in parts:
        lines += ["", "[[layout.structure]]", f"key = {_quoted(pattern)}", f'type = "{type_}"']
        lines.append(f'state = "{verdict.state}"')
        if verdict.unit is not None:
            lines.append(f'score = "{verdict.unit}"')
    keys = [key.name for _, _, group, _ in parts for key in group]
    inside = any(verdict.samples for *_, verdict in parts)
    where = "jobs in the members themselves" if inside else "members that tell nothing"
    where = where if record is None else f"ids, and a {record[1]} for each job"
    types = " and ".join(sorted({f"{type_}s" for _, type_, _, _ in parts}))
    why = tuple(f"{pattern}: {reason}" for pattern, _, _, verdict in parts for reason in verdict.why)
    return Guess(f"{types} with {where}", tuple(sorted(keys)[:3]), len(keys), why, "\n".join(lines) + "\n")


_RECORD_TYPES = {"hash": "hash", "string": "json"}


def _fields(samples: list[dict[str, Any]]) -> list[str]:
    """`[layout.fields]` from members that most samples have."""
    common = Counter(name for sample in samples for name in sample)
    known = [name for name, count in common.items() if count >= 0.5 * len(samples)]
    lines = [f"name = {_quoted(name)}" for name in _NAMES if name in known][:1]
    for name in _TIMES:
        values = [sample[name] for sample in samples if name in sample]
        unit = next((u for u in _UNITS if values and all(moment(v, u) is not None for v in values)), None)
        if name in known and unit is not None:
            lines.append(f'created_at = {{ field = {_quoted(name)}, unit = "{unit}" }}')
            break
    return ["", "[layout.fields]", *lines] if lines else []


def _quoted(text: str) -> str:
    """As a basic string of TOML: what JSON escapes, TOML escapes alike."""
    return json.dumps(text, ensure_ascii=True)


def _streams(keyspace: Keyspace, free: Any) -> Iterator[Guess]:
    rows = np.flatnonzero(free)
    if not len(rows):
        return
    names = sorted(keyspace.keys.column("key").take(pa.array(rows)).to_pylist())
    why = ("a stream is a queue once it has a consumer group; whoever reads these does without",)
    yield Guess("streams without a consumer group", tuple(names[:3]), len(names), why, None)
