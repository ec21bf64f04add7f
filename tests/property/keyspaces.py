"""Random keyspaces: every type, sizes around the edges of every encoding, any bytes, any configuration."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import redis
from hypothesis import strategies as st

FAR_MS = 4_102_444_800_000
"""A time in 2100, Unix ms."""

EDGE_INTS = sorted(
    sign * (1 << bits) + off
    for bits in (0, 4, 6, 7, 8, 12, 13, 15, 16, 23, 24, 31, 32, 48, 62, 63)
    for sign in (1, -1)
    for off in (-2, -1, 0, 1)
)
EDGE_SIZES = (0, 1, 11, 12, 20, 21, 44, 45, 63, 64, 65, 127, 128, 253, 254, 255, 4095, 4096, 16383, 16384, 70_000)
ODD_TEXTS = (b"-0", b"007", b"+5", b" 1", b"1.0", b"nan", b"1e5", b"-", b"REDIS0010", b"\xff", b"\x00" * 9)


def _sized(size: int, seed: int, kind: str) -> bytes:
    chance = random.Random(seed)
    match kind:
        case "random":
            return chance.randbytes(size)
        case "run":
            return bytes([seed % 256]) * size
        case "words":
            return (b"lorem ipsum %d " % seed * (size // 8 + 1))[:size]
        case _:
            return "".join(chance.choices("aé☃😀\u202e\x1b<", k=size)).encode()[:size]


sized = st.builds(
    _sized, st.sampled_from(EDGE_SIZES), st.integers(0, 999), st.sampled_from(("random", "run", "words", "text"))
)
whole = st.one_of(st.sampled_from(EDGE_INTS), st.integers(-(1 << 63), (1 << 63) - 1)).map(lambda n: b"%d" % n)
blob = st.one_of(st.binary(max_size=12), st.text(max_size=8).map(str.encode), whole, st.sampled_from(ODD_TEXTS), sized)
small = st.one_of(st.binary(max_size=8), whole, st.sampled_from(ODD_TEXTS))
name = st.one_of(small, st.sampled_from((b"a", b"n", b"data")))
score = st.one_of(
    st.floats(allow_nan=False),
    st.integers(-(1 << 54), 1 << 54).map(float),
    st.sampled_from((float("inf"), float("-inf"), -0.0, 5e-324, 1e308, 0.1, 1e15, 1e16, 1e17)),
)


def many(items: st.SearchStrategy[list[Any]]) -> st.SearchStrategy[list[Any]]:
    """Short lists, and some long ones: what a list holds again and again under other names."""

    def longer(drawn: tuple[list[Any], int]) -> list[Any]:
        start, times = drawn
        return start + [b"%d:" % n + item for n in range(times - 1) for item in start if isinstance(item, bytes)]

    return st.tuples(items, st.sampled_from((1, 1, 1, 1, 30))).map(longer)


@dataclass(frozen=True)
class Stream:
    """What is done to make a stream: entries, then deletions, a trim, groups that read and acknowledge."""

    entries: list[tuple[int, list[tuple[bytes, bytes]]]]
    deleted: set[int] = field(default_factory=set)
    trim_to: int | None = None
    groups: list[tuple[bytes, list[tuple[bytes, int]], set[int]]] = field(default_factory=list)

    def make(self, r: redis.Redis, key: bytes) -> None:
        ids, ms = [], 1_700_000_000_000
        for step, pairs in self.entries:
            ms += step
            words = [word for pair in pairs for word in pair]
            ids.append(r.execute_command("XADD", key, f"{ms}-*", *words))
        for at in self.deleted:
            if at < len(ids):
                r.execute_command("XDEL", key, ids[at])
        if self.trim_to is not None:
            r.execute_command("XTRIM", key, "MAXLEN", self.trim_to)
        for group, reads, acked in self.groups:
            r.execute_command("XGROUP", "CREATE", key, group, "0")
            for consumer, count in reads:
                r.execute_command("XREADGROUP", "GROUP", group, consumer, "COUNT", count, "STREAMS", key, ">")
            for at in acked:
                if at < len(ids):
                    r.execute_command("XACK", key, group, ids[at])


streams = st.builds(
    Stream,
    st.lists(
        st.tuples(
            st.sampled_from((0, 0, 1, 1000, 1 << 33)),
            st.one_of(
                st.lists(st.tuples(small, blob), min_size=1, max_size=4),
                st.tuples(small, small).map(lambda v: [(b"type", v[0]), (b"at", v[1])]),
            ),
        ),
        min_size=1,
        max_size=12,
    ),
    st.sets(st.integers(0, 11), max_size=3),
    st.one_of(st.none(), st.integers(0, 8)),
    st.lists(
        st.tuples(
            small,
            st.lists(st.tuples(small, st.integers(1, 5)), max_size=3),
            st.sets(st.integers(0, 11), max_size=3),
        ),
        max_size=3,
        unique_by=lambda g: g[0],
    ),
)


Make = Callable[[redis.Redis, bytes], None]


def _string(value: bytes) -> Make:
    return lambda r, key: r.execute_command("SET", key, value)


def _push(items: list[bytes]) -> Make:
    return lambda r, key: r.execute_command("RPUSH", key, *items)


def _add(items: list[bytes]) -> Make:
    return lambda r, key: r.execute_command("SADD", key, *items)


def _scored(pairs: dict[bytes, float]) -> Make:
    return lambda r, key: r.execute_command("ZADD", key, *[x for m, s in pairs.items() for x in (repr(s), m)])


def _fields(pairs: dict[bytes, bytes]) -> Make:
    return lambda r, key: r.execute_command("HSET", key, *[x for pair in pairs.items() for x in pair])


value = st.one_of(
    blob.map(_string),
    many(st.lists(blob, min_size=1, max_size=8)).map(_push),
    many(st.lists(blob, min_size=1, max_size=8)).map(_add),
    st.lists(whole, min_size=1, max_size=40).map(_add),
    st.dictionaries(blob, score, min_size=1, max_size=8).map(_scored),
    st.dictionaries(name, blob, min_size=1, max_size=8).map(_fields),
    streams.map(lambda stream: stream.make),
)
keyspaces = st.dictionaries(
    st.tuples(st.sampled_from((0, 0, 3, 15)), blob),
    st.tuples(value, st.one_of(st.none(), st.none(), st.integers(FAR_MS, FAR_MS * 60))),
    max_size=12,
)
"""(database, key) → (what makes the value, expiry in Unix ms)."""

configurations = st.fixed_dictionaries(
    {
        "rdbcompression": st.sampled_from(("yes", "no")),
        "hash_max_listpack_entries": st.sampled_from((0, 2, 128)),
        "hash_max_listpack_value": st.sampled_from((0, 12, 64, 20_000)),
        "set_max_intset_entries": st.sampled_from((0, 4, 512)),
        "zset_max_listpack_entries": st.sampled_from((0, 3, 128)),
        "zset_max_listpack_value": st.sampled_from((4, 64, 20_000)),
        "list_max_listpack_size": st.sampled_from((-1, -2, -5, 1, 3, 128)),
        "list_compress_depth": st.sampled_from((0, 1, 3)),
        "stream_node_max_entries": st.sampled_from((0, 1, 3, 100)),
        "stream_node_max_bytes": st.sampled_from((0, 64, 4096)),
    }
)
