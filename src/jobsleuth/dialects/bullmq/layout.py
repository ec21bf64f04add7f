"""Which era of Bull or BullMQ wrote a queue, and how one can tell."""

from __future__ import annotations

from dataclasses import dataclass

from jobsleuth.dialects.bullmq.tally import Tally

_BULLMQ_SIGNS = (
    "events",
    "marker",
    "prioritized",
    "pc",
    "waiting-children",
    "delay stream",
    "atm",
    "ats",
    "parent",
    "unsuccessful",
    "rjk",
)
_BULL_SIGNS = ("meta-paused", "limiter index")
BEFORE_BULL_3 = "bull 0.x-2.x"
"""Layout of queues whose jobs have no names: finished ones stand in plain sets."""
_BULL_4 = (("metrics", "`metrics` (Bull 4.7.0+)"), ("dedup", "`de:` keys (Bull 4.15.0+)"))

_AT_LEAST: tuple[tuple[str, tuple[int, int, int], str], ...] = (
    ("old marker", (2, 0, 0), "markers `0` in a list"),
    ("old timed marker", (3, 1, 3), "markers `0:<ms>` in a list"),
    ("waiting-children", (1, 16, 0), "`waiting-children`"),
    ("parent", (1, 57, 2), "`parent` in a job"),
    ("metrics", (1, 76, 0), "`metrics`"),
    ("rjk", (1, 86, 0), "`rjk` in a job"),
    ("prioritized", (4, 0, 0), "`prioritized`"),
    ("pc", (4, 0, 0), "`pc`"),
    ("marker", (5, 0, 0), "`marker`"),
    ("atm", (5, 0, 0), "`atm` in a job"),
    ("ats", (5, 0, 0), "`ats` in a job"),
    ("marker 1", (5, 1, 10), "member `1` of `marker`"),
    ("failed children", (5, 2, 0), "a `:failed` map of children"),
    ("pb", (5, 3, 0), "`pb` in a job"),
    ("dedup", (5, 11, 0), "`de:` keys"),
    ("deid", (5, 11, 0), "`deid` in a job"),
    ("iteration count", (5, 36, 0), "a scheduler with `ic`"),
    ("unsuccessful", (5, 42, 0), "`:unsuccessful` keys"),
    ("stc", (5, 49, 0), "`stc` in a job"),
    ("defa", (5, 49, 2), "`defa` in a job"),
    ("parked", (5, 72, 0), "`dn:` keys"),
)
_AT_MOST: tuple[tuple[str, tuple[int, int, int], str], ...] = (
    ("delay stream", (3, 1, 0), "`delay` stream"),
    ("priority", (3, 16, 2), "`priority` zset"),
    ("old timed marker", (4, 18, 99), "markers `0:<ms>` in a list"),
    ("old marker", (3, 1, 2), "markers `0` in a list"),
    ("attemptsMade", (4, 18, 99), "`attemptsMade` in a job"),
    ("stalledCounter", (5, 48, 1), "`stalledCounter` in a job"),
    ("paused list", (5, 81, 99), "`paused` list"),
)


@dataclass(frozen=True)
class Layout:
    """The layout's name, e.g. ``bullmq 5.x``, and the evidence for it."""

    name: str
    why: str


@dataclass(frozen=True)
class Facts:
    """What a queue's own settings say.

    Attributes:
        version: `meta.version`, None where there is none.
        has_options: whether `meta` holds an ``opts.`` field (BullMQ only).
        concurrency: whether `meta` holds `concurrency`.
        rate: whether `meta` holds `max`.
        paused_with_wait: paused, jobs in `wait`, no `paused` list.
        relay: whether the prefix has message relay keys.
    """

    version: tuple[int, ...] | None
    has_options: bool
    concurrency: bool
    rate: bool
    paused_with_wait: bool
    relay: bool


def is_bull(tally: Tally, queue: int, facts: Facts) -> bool:
    """Whether the queue is legacy Bull's: nothing of BullMQ's in it."""
    if facts.version or facts.has_options or facts.concurrency or facts.rate:
        return False
    return not any(tally.shows(queue, sign) for sign in _BULLMQ_SIGNS)


def infer(tally: Tally, queue: int, facts: Facts, bull: bool) -> Layout:
    """The layout of a queue, from everything seen while its tables were made."""
    floors = [(least, why) for sign, least, why in _AT_LEAST if tally.shows(queue, sign)]
    for shown, least, why in (
        (facts.concurrency, (5, 9, 0), "`concurrency` in `meta`"),
        (facts.rate, (5, 60, 0), "`max` in `meta`"),
        (facts.paused_with_wait, (6, 0, 0), "paused, and jobs stay in `wait`"),
        (facts.relay, (6, 4, 0), "message relay keys of the same prefix"),
    ):
        if shown:
            floors.append((least, why))
    ceilings = [(most, why) for sign, most, why in _AT_MOST if tally.shows(queue, sign)]
    foreign = [sign for sign in _BULL_SIGNS if tally.shows(queue, sign)]
    if bull:
        signs = [f"`{sign}`" for sign in foreign] + ["no events, markers or options of BullMQ"]
        if tally.shows(queue, "nameless job"):
            signs.append("jobs without a name (before 3.0.0)")
            if not tally.shows(queue, "named job"):
                return Layout(BEFORE_BULL_3, "; ".join(signs))
        newer_bull = [why for sign, why in _BULL_4 if tally.shows(queue, sign)]
        return Layout("bull 4.x" if newer_bull else "bull 3.x-4.x", "; ".join(signs + newer_bull))
    reasons: list[str] = []
    if facts.version:
        name = f"bullmq {facts.version[0]}.x"
        reasons.append(f"`meta.version` is {'.'.join(map(str, facts.version))}")
        low, high = facts.version, facts.version
    else:
        low = max((least for least, _ in floors), default=(1, 0, 0))
        high = max(min((most for most, _ in ceilings), default=(6, 99, 99)), low)
        name = f"bullmq {low[0]}.x" if low[0] == high[0] else f"bullmq {low[0]}.x-{high[0]}.x"
        reasons.append("`meta.version` is missing")
        # One sign may bound the era on both sides.
        lowest = {text: ".".join(map(str, least)) for least, text in floors if least == low}
        highest = {text: _short(most) for most, text in ceilings if most == high}
        for text in {**lowest, **highest}:
            if text not in highest:
                reasons.append(f"{text} ({lowest[text]}+)")
            elif text not in lowest:
                reasons.append(f"{text} (until {highest[text]})")
            else:
                reasons.append(f"{text} ({lowest[text]} to {highest[text]})")
    newer = [text for least, text in floors if least[:1] > high[:1]]
    older = [text for most, text in ceilings if most[:1] < low[:1]]
    if newer:
        reasons.append(f"signs of newer releases: {', '.join(newer)}")
    if older:
        reasons.append(f"signs of older releases: {', '.join(older)}")
    if foreign:
        reasons.append(f"signs of Bull: {', '.join(f'`{sign}`' for sign in foreign)}")
    return Layout(name, "; ".join(reasons))


def _short(version: tuple[int, int, int]) -> str:
    major, minor, patch = version
    return f"{major}.{minor}.x" if patch == 99 else f"{major}.{minor}.{patch}"
