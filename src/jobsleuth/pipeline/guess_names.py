"""What names of keys tell: the state that a word speaks of, and what is left, which names the queue."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

SEEN = "seen"
"""The word of sets of ids that were seen before: no state."""
_STRONG = (
    ("processing", r"processing|in[-_]?progress|busy|working|active|unacked|reserved|running|wip|started|inflight"),
    ("retry", r"retry|retries|retrying"),
    ("delayed", r"delayed?|scheduled?|deferred|later|due|timers?"),
    ("failed", r"failed|failures?|dead|dead[-_]?letters?|dlq|errors?"),
    ("completed", r"completed?|done|finished|succeeded"),
    ("waiting", r"pending|wait|waiting|todo|ready|inbox|inactive|enqueued"),
    (SEEN, r"seen|dedup|unique"),
)
_WEAK = r"queues?|jobs?|tasks?|work|messages?|msgs?"
"""Words that say that it is a queue, and nothing of its jobs."""
_WORDS = [(state, re.compile(words, re.IGNORECASE)) for state, words in _STRONG]
_WEAK_WORD = re.compile(_WEAK, re.IGNORECASE)
_ANY = "|".join([*(words for _, words in _STRONG), _WEAK])
_BEHIND = re.compile(rf"(?P<rest>.+)(?P<joint>[-_.])(?P<word>{_ANY})", re.IGNORECASE | re.DOTALL)
_BEFORE = re.compile(rf"(?P<word>{_ANY})(?P<joint>[-_.])(?P<rest>.+)", re.IGNORECASE | re.DOTALL)


WORKER, WORKERS = -1, -2
"""In place of a part of the base: the name of a worker, without and with colons in it (``host:pid``)."""


@dataclass(frozen=True)
class Part:
    """What stands between two colons: fixed bytes around one part of the base, or fixed bytes alone.

    Attributes:
        before: fixed bytes, all of it where `base` is None.
        base: which part of the base stands here; :data:`WORKER` or :data:`WORKERS`: the worker.
        after: fixed bytes.
    """

    before: bytes
    base: int | None = None
    after: bytes = b""


@dataclass(frozen=True)
class Name:
    """A key's name, taken apart.

    Attributes:
        stored: the name.
        type: type of the key: two databases may have it with two types.
        parts: its form.
        base: what is left without the words: what it shares with other structures of its queue.
        state: what the words say; None: nothing.
        strong: whether they speak of the jobs, and not of a queue only.
        weak: words that only say that it is a queue.
    """

    stored: bytes
    type: str
    parts: tuple[Part, ...]
    base: tuple[bytes, ...]
    state: str | None
    strong: bool
    weak: tuple[str, ...]


def name_of(stored: bytes, type_: str) -> Name:
    """Takes a name apart."""
    parts: list[Part] = []
    base: list[bytes] = []
    strong: list[str] = []
    weak: list[str] = []
    for piece in stored.split(b":"):
        before, rest, after, word = _word(piece)
        if word is not None:
            state = next((state for state, words in _WORDS if words.fullmatch(word)), None)
            if state is None:
                weak.append(word.lower())
            else:
                strong.append(state)
        if rest is None:
            parts.append(Part(piece))
        else:
            parts.append(Part(before, len(base), after))
            base.append(rest)
    # `jobs:delayed:done` is of what is done: what stands last says it, and waiting is what is said with least force.
    told = [state for state in strong if state != "waiting"] or strong
    state = told[-1] if told else "waiting" if weak else None
    return Name(stored, type_, tuple(parts), tuple(base), state, bool(strong), tuple(weak))


def _word(piece: bytes) -> tuple[bytes, bytes | None, bytes, str | None]:
    """(before, rest, after, word) of what stands between two colons; no rest: the word is all of it."""
    try:
        text = piece.decode()
    except UnicodeDecodeError:
        return b"", piece, b"", None
    if len(text) <= 200:
        if any(words.fullmatch(text) for _, words in _WORDS) or _WEAK_WORD.fullmatch(text):
            return b"", None, b"", text
        if found := _BEHIND.fullmatch(text):
            return b"", found["rest"].encode(), (found["joint"] + found["word"]).encode(), found["word"]
        if found := _BEFORE.fullmatch(text):
            return (found["word"] + found["joint"]).encode(), found["rest"].encode(), b"", found["word"]
    return b"", piece, b"", None


def with_workers(names: Iterable[Name]) -> list[Name]:
    """The same names, where what follows `processing` is a worker if what stands before it is a queue by itself."""
    names = list(names)
    behind = {name: length for name in names if (length := _behind_role(name))}
    known = {name.base for name in names if name not in behind}
    out = []
    for name in names:
        length = behind.get(name, 0)
        stem = name.base[: len(name.base) - length]
        if length and stem in known and name.base not in known:
            worker = Part(b"", WORKER if length == 1 else WORKERS)
            out.append(replace(name, parts=(*name.parts[:-length], worker), base=stem))
        else:
            out.append(name)
    return out


def _behind_role(name: Name) -> int:
    """How many parts follow the word `processing`, where nothing but that says what the list is."""
    if name.state != "processing":
        return 0
    length = next((n for n, part in enumerate(reversed(name.parts)) if part.base is None), 0)
    tail = name.parts[len(name.parts) - length :]
    whole = all(not part.before and not part.after and name.base[part.base or 0] for part in tail)
    return length if whole else 0


@dataclass(frozen=True)
class Family:
    """Names that one description can speak of.

    Attributes:
        names: all of them.
        varies: which part of their base names the queue; None: all have the same base.
    """

    names: tuple[Name, ...]
    varies: int | None


def families(names: Sequence[Name], kind: Mapping[Name, str]) -> list[Family]:
    """Names by their queues, and queues that are called alike but for one part of their base.

    Args:
        names: names, workers told.
        kind: name → what must be the same for names to belong together.
    """
    queues: dict[_Queue, list[Name]] = {}
    clash = _clashing(names)
    for name in names:
        # `jobs:failed` and `tasks:failed` have the same base, none, and are two queues.
        tag = name.weak if name.base in clash else ()
        queues.setdefault((name.base, tag, kind[name]), []).append(name)
    found: list[Family] = []
    while best := _most_alike(queues):
        varies, alike = best
        found.append(Family(tuple(name for queue in alike for name in queues.pop(queue)), varies))
    return [*found, *(Family(tuple(members), None) for members in queues.values())]


_Queue = tuple[tuple[bytes, ...], tuple[str, ...], str]


def _most_alike(queues: Mapping[_Queue, Sequence[Name]]) -> tuple[int, list[_Queue]] | None:
    """Most queues that differ in one part of their base only and have a form in common, and which part that is."""
    shared: dict[tuple[int, tuple[object, ...]], list[_Queue]] = {}
    for base, tag, kind in queues:
        for at, part in enumerate(base):
            if part:
                shared.setdefault((at, (base[:at], base[at + 1 :], tag, kind)), []).append((base, tag, kind))
    best: tuple[int, list[_Queue]] | None = None
    for (at, _), some in shared.items():
        if len(some) < 2 or (best is not None and len(some) < len(best[1])):
            continue
        # `a:wait` and `b:todo` share nothing, and `a:x` and `b:x` nothing that says so.
        forms = Counter(form for queue in some for form in {name.parts for name in queues[queue]})
        alike = [queue for queue in some if any(forms[name.parts] > 1 for name in queues[queue])]
        if len(alike) > 1 and (best is None or (len(alike), at) > (len(best[1]), best[0])):
            best = (at, alike)
    return best


def _clashing(names: Sequence[Name]) -> set[tuple[bytes, ...]]:
    """Bases with names that say the same state with different words for a queue."""
    told: dict[tuple[tuple[bytes, ...], str | None], set[tuple[str, ...]]] = {}
    for name in names:
        told.setdefault((name.base, name.state), set()).add(name.weak)
    return {base for (base, _), weak in told.items() if len(weak) > 1}


def pattern_of(name: Name, varies: int | None) -> str | None:
    """The name as a pattern of a description; None where its bytes are no text."""
    texts = []
    for part in name.parts:
        if part.base is None:
            text = fixed(part.before)
        elif part.base in (WORKER, WORKERS):
            text = "{worker}" if part.base == WORKER else "{worker...}"
        else:
            before, after = fixed(part.before), fixed(part.after)
            middle = "{queue}" if part.base == varies else fixed(name.base[part.base])
            text = None if before is None or middle is None or after is None else before + middle + after
        if text is None:
            return None
        texts.append(text)
    return ":".join(texts)


def fixed(stored: bytes) -> str | None:
    """Bytes as a pattern spells them; None where they are no text."""
    try:
        return stored.decode().replace("{", "{{").replace("}", "}}")
    except UnicodeDecodeError:
        return None
