"""Random write commands of every kind, for replays that are held against a real server's."""

from __future__ import annotations

import random
from collections.abc import Callable

Command = tuple[bytes, ...]

WORDS = [b"a", b"b", b"c", b"dd", b"", b"\xff\x00", b"10", b"-3", b"2.5", b"x" * 70]
IDS = [b"1", b"2", b"3", b"10", b"job:7", b"\xfe"]


def text(*words: object) -> Command:
    """Words as bytes."""
    return tuple(w if isinstance(w, bytes) else str(w).encode() for w in words)


class Maker:
    """Makes commands. Keys are few, so that commands meet what others left, of their own type and of others'."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.stream_ms = 1000
        self.makers: list[Callable[[], Command]] = [
            getattr(self, name) for name in sorted(dir(self)) if name.startswith("make_")
        ]

    def command(self) -> Command:
        return self.rng.choice(self.makers)()

    # ---- pieces

    def key(self, kind: str) -> bytes:
        if self.rng.random() < 0.03:
            kind = self.rng.choice("slzhtx")
        return f"{kind}{self.rng.randrange(3)}".encode()

    def word(self) -> bytes:
        return self.rng.choice(WORDS)

    def id(self) -> bytes:
        return self.rng.choice(IDS)

    def ids(self) -> list[bytes]:
        return [self.id() for _ in range(self.rng.randint(1, 3))]

    def int(self, low: int = -6, high: int = 6) -> int:
        return self.rng.randint(low, high)

    def score(self) -> object:
        return self.rng.choice([0, 1, -1, 2.5, "inf", "-inf", 1e300, 0.1, 1700000000123, "-0"])

    def bound(self) -> object:
        return self.rng.choice(["-inf", "+inf", 0, "(0", 1, "(1", 2.5, "(2.5", -1])

    def name(self) -> bytes:
        return self.rng.choice([b"-", b"+", b"[1", b"(1", b"[3", b"(job:7", b"[\xfe"])

    def future(self) -> int:
        return 4_000_000_000_000 + self.rng.randrange(1000)

    def some(self, *options: tuple[object, ...]) -> tuple[object, ...]:
        return self.rng.choice(((), *options))

    # ---- strings

    def make_set(self) -> Command:
        how = self.some(
            ("NX",), ("XX",), ("KEEPTTL",), ("PXAT", self.future()), ("EXAT", self.future() // 1000), ("GET",)
        )
        return text("SET", self.key("s"), self.word(), *how)

    def make_plain(self) -> Command:
        return text(self.rng.choice(["SETNX", "GETSET", "APPEND", "setnx"]), self.key("s"), self.word())

    def make_mset(self) -> Command:
        pairs = [w for _ in range(2) for w in (self.key("s"), self.word())]
        return text(self.rng.choice(["MSET", "MSETNX"]), *pairs)

    def make_setrange(self) -> Command:
        return text("SETRANGE", self.key("s"), self.int(0, 20), self.word())

    def make_incr(self) -> Command:
        name = self.rng.choice(["INCR", "DECR", "INCRBY", "DECRBY"])
        return text(name, self.key("s"), *([] if name in ("INCR", "DECR") else [self.int(-100, 100)]))

    def make_getdel(self) -> Command:
        return text("GETDEL", self.key("s"))

    def make_getex(self) -> Command:
        return text("GETEX", self.key("s"), *self.some(("PERSIST",), ("PXAT", self.future())))

    def make_setbit(self) -> Command:
        return text("SETBIT", self.key("s"), self.int(0, 200), self.int(0, 1))

    def make_bitop(self) -> Command:
        op = self.rng.choice(["AND", "OR", "XOR", "NOT"])
        return text("BITOP", op, self.key("s"), *[self.key("s") for _ in range(1 if op == "NOT" else 3)])

    def make_bitfield(self) -> Command:
        words: list[object] = ["BITFIELD", self.key("s")]
        for _ in range(self.rng.randint(1, 4)):
            width = self.rng.choice(["u8", "i5", "u63", "i64", "u1", "i16"])
            at = self.rng.choice([0, 3, "#1", 17])
            words += self.rng.choice(
                [
                    ["GET", width, at],
                    ["SET", width, at, self.int(-300, 300)],
                    ["INCRBY", width, at, self.int(-300, 300)],
                    ["OVERFLOW", self.rng.choice(["WRAP", "SAT", "FAIL"])],
                ]
            )
        return text(*words)

    # ---- lists

    def make_push(self) -> Command:
        return text(self.rng.choice(["LPUSH", "RPUSH", "RPUSH", "LPUSHX", "RPUSHX"]), self.key("l"), *self.ids())

    def make_pop(self) -> Command:
        return text(self.rng.choice(["LPOP", "RPOP"]), self.key("l"), *self.some((self.int(0, 3),)))

    def make_lset(self) -> Command:
        return text("LSET", self.key("l"), self.int(), self.id())

    def make_linsert(self) -> Command:
        return text("LINSERT", self.key("l"), self.rng.choice(["BEFORE", "after"]), self.id(), self.id())

    def make_lrem(self) -> Command:
        return text("LREM", self.key("l"), self.int(-2, 2), self.id())

    def make_ltrim(self) -> Command:
        return text("LTRIM", self.key("l"), self.int(), self.int())

    def make_lmove(self) -> Command:
        ends = ["LEFT", "RIGHT"]
        return text("LMOVE", self.key("l"), self.key("l"), self.rng.choice(ends), self.rng.choice(ends))

    def make_rpoplpush(self) -> Command:
        return text("RPOPLPUSH", self.key("l"), self.key("l"))

    def make_lmpop(self) -> Command:
        return text(
            "LMPOP", 2, self.key("l"), self.key("l"), self.rng.choice(["LEFT", "RIGHT"]), *self.some(("COUNT", 2))
        )

    # ---- sets

    def make_sadd(self) -> Command:
        return text("SADD", self.key("t"), *self.ids())

    def make_srem(self) -> Command:
        return text("SREM", self.key("t"), *self.ids())

    def make_smove(self) -> Command:
        return text("SMOVE", self.key("t"), self.key("t"), self.id())

    def make_sstore(self) -> Command:
        name = self.rng.choice(["SINTERSTORE", "SUNIONSTORE", "SDIFFSTORE"])
        return text(name, self.key("t"), self.key("t"), self.key("t"))

    # ---- sorted sets

    def make_zadd(self) -> Command:
        how = self.some(("NX",), ("XX",), ("GT",), ("LT",), ("XX", "GT", "CH"), ("CH",))
        pairs = [w for member in self.ids() for w in (self.score(), member)]
        return text("ZADD", self.key("z"), *how, *pairs)

    def make_zadd_again(self) -> Command:
        return self.make_zadd()

    def make_zincr(self) -> Command:
        if self.rng.random() < 0.5:
            return text("ZADD", self.key("z"), "INCR", self.score(), self.id())
        return text("ZINCRBY", self.key("z"), self.score(), self.id())

    def make_zrem(self) -> Command:
        return text("ZREM", self.key("z"), *self.ids())

    def make_zremrange(self) -> Command:
        return self.rng.choice(
            [
                text("ZREMRANGEBYSCORE", self.key("z"), self.bound(), self.bound()),
                text("ZREMRANGEBYRANK", self.key("z"), self.int(-3, 3), self.int(-3, 3)),
                text("ZREMRANGEBYLEX", self.key("z"), self.name(), self.name()),
            ]
        )

    def make_zpop(self) -> Command:
        return text(self.rng.choice(["ZPOPMIN", "ZPOPMAX"]), self.key("z"), *self.some((self.int(0, 2),)))

    def make_zmpop(self) -> Command:
        return text("ZMPOP", 2, self.key("z"), self.key("z"), self.rng.choice(["MIN", "MAX"]), *self.some(("COUNT", 2)))

    def make_zstore(self) -> Command:
        name = self.rng.choice(["ZUNIONSTORE", "ZINTERSTORE"])
        how = self.some(("AGGREGATE", "MIN"), ("AGGREGATE", "MAX"), ("WEIGHTS", 2, -1), ("WEIGHTS", 0, "inf"))
        return text(name, self.key("z"), 2, self.key("z"), self.rng.choice([self.key("z"), self.key("t")]), *how)

    def make_zdiffstore(self) -> Command:
        return text("ZDIFFSTORE", self.key("z"), 2, self.key("z"), self.key("t"))

    def make_zrangestore(self) -> Command:
        low, high, reverse = self.bound(), self.bound(), self.some(("REV",))
        return self.rng.choice(
            [
                text("ZRANGESTORE", self.key("z"), self.key("z"), self.int(-3, 3), self.int(-3, 3), *reverse),
                text("ZRANGESTORE", self.key("z"), self.key("z"), low, high, "BYSCORE", *reverse),
                text("ZRANGESTORE", self.key("z"), self.key("z"), self.name(), self.name(), "BYLEX", *reverse),
                text("ZRANGESTORE", self.key("z"), self.key("z"), low, high, "BYSCORE", "LIMIT", 1, self.int(-1, 2)),
            ]
        )

    # ---- hashes

    def make_hset(self) -> Command:
        pairs = [w for field in self.ids() for w in (field, self.word())]
        return text(self.rng.choice(["HSET", "HMSET"]), self.key("h"), *pairs)

    def make_hsetnx(self) -> Command:
        return text("HSETNX", self.key("h"), self.id(), self.word())

    def make_hdel(self) -> Command:
        return text("HDEL", self.key("h"), *self.ids())

    def make_hincrby(self) -> Command:
        return text("HINCRBY", self.key("h"), self.id(), self.int(-50, 50))

    # ---- streams

    def stream_id(self) -> bytes:
        return b"%d-%d" % (self.rng.randint(1000, self.stream_ms + 1), self.rng.randrange(3))

    def cut(self) -> tuple[object, ...]:
        return self.some(("MAXLEN", self.int(0, 6)), ("MAXLEN", "=", 4), ("MINID", self.stream_id()))

    def make_xadd(self) -> Command:
        self.stream_ms += self.rng.randrange(2)
        entry = b"%d-%d" % (self.stream_ms, self.rng.randint(0, 3))
        how = self.some(("NOMKSTREAM",))
        return text("XADD", self.key("x"), *how, *self.cut(), entry, "f", self.word(), self.id(), "v")

    def make_xadd_again(self) -> Command:
        return self.make_xadd()

    def make_xtrim(self) -> Command:
        return text("XTRIM", self.key("x"), *(self.cut() or ("MAXLEN", 3)))

    def make_xdel(self) -> Command:
        return text("XDEL", self.key("x"), self.stream_id(), self.stream_id())

    def make_xsetid(self) -> Command:
        self.stream_ms += 1
        how = self.some(("ENTRIESADDED", 500, "MAXDELETEDID", "5-0"))
        return text("XSETID", self.key("x"), b"%d-9" % self.stream_ms, *how)

    def group(self) -> bytes:
        return self.rng.choice([b"g", b"\xffg"])

    def make_xgroup(self) -> Command:
        key, group = self.key("x"), self.group()
        return self.rng.choice(
            [
                text("XGROUP", "CREATE", key, group, self.rng.choice([b"$", b"0", self.stream_id()])),
                text("XGROUP", "CREATE", key, group, b"0", "MKSTREAM", "ENTRIESREAD", 3),
                text("XGROUP", "SETID", key, group, self.stream_id(), *self.some(("ENTRIESREAD", 2))),
                text("XGROUP", "CREATECONSUMER", key, group, self.id()),
                text("XGROUP", "DELCONSUMER", key, group, self.id()),
            ]
        )

    def make_xgroup_destroy(self) -> Command:
        return text("XGROUP", "DESTROY", self.key("x"), self.group()) if self.rng.random() < 0.2 else self.make_xgroup()

    def make_xack(self) -> Command:
        return text("XACK", self.key("x"), self.group(), self.stream_id())

    def make_xclaim(self) -> Command:
        how = self.some(("JUSTID",), ("RETRYCOUNT", 5), ("LASTID", self.stream_id()), ("RETRYCOUNT", 7, "JUSTID"))
        head = ("XCLAIM", self.key("x"), self.group(), self.id(), 0, self.stream_id(), self.stream_id())
        return text(*head, "TIME", 1700000000000 + self.int(), *self.some(("FORCE",)), *how)

    # ---- keys

    def any_key(self) -> bytes:
        return self.key(self.rng.choice("slzhtx"))

    def make_del(self) -> Command:
        return (
            text(self.rng.choice(["DEL", "UNLINK"]), self.any_key()) if self.rng.random() < 0.3 else self.make_expire()
        )

    def make_rename(self) -> Command:
        kind = self.rng.choice("slzhtx")
        return text(self.rng.choice(["RENAME", "RENAMENX"]), self.key(kind), self.key(kind))

    def make_copy(self) -> Command:
        kind = self.rng.choice("slzhtx")
        return text("COPY", self.key(kind), self.key(kind), *self.some(("REPLACE",), ("DB", 3, "REPLACE"), ("DB", 3)))

    def make_move(self) -> Command:
        return text("MOVE", self.any_key(), 3)

    def make_expire(self) -> Command:
        name = self.rng.choice(["PEXPIREAT", "PEXPIREAT", "EXPIREAT"])
        at = self.future() // (1000 if name == "EXPIREAT" else 1)
        return text(name, self.any_key(), at, *self.some(("NX",), ("XX",), ("GT",), ("LT",)))

    def make_persist(self) -> Command:
        return text("PERSIST", self.any_key())

    def make_sort(self) -> Command:
        how = self.some(("DESC",), ("LIMIT", 1, 2))
        if self.rng.random() < 0.5:
            return text("SORT", self.rng.choice([self.key("l"), self.key("t")]), *how, "ALPHA", "STORE", self.key("l"))
        # What no key tells apart stays as it lies in the server, so here nothing is sorted.
        return text("SORT", b"l0", *how, "BY", "nosort", "GET", "#", "GET", "h0->*", "STORE", self.key("l"))

    def make_swap(self) -> Command:
        if self.rng.random() < 0.9:
            return self.make_zadd()
        return self.rng.choice(
            [text("SWAPDB", 0, 3), text("FLUSHDB") if self.rng.random() < 0.2 else text("SELECT", 0)]
        )


def packed(commands: list[Command]) -> bytes:
    """Commands as a file holds them."""
    out = bytearray()
    for command in commands:
        out += b"*%d\r\n" % len(command)
        for word in command:
            out += b"$%d\r\n%s\r\n" % (len(word), word)
    return bytes(out)
