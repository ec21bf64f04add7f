"""Whose key is it: names that a key alone cannot settle, layouts of all ages, keys that fit nothing.

The dumps are made on the spot by a real server, from keys that the library's own key functions would give.
"""

from __future__ import annotations

import hashlib
import json
import time

import numpy as np
import redis

from jobsleuth.dialects import Options
from jobsleuth.dialects.asynq import DIALECT
from jobsleuth.dialects.asynq.messages import TASK, message_factory

from .conftest import Dump, Reading

UUID = b"0d3f2a64-52a1-4c55-8a5b-7a3c8f5d1e20"
Message = message_factory.GetMessageClass(TASK)


def task(client: redis.Redis, queue: bytes, id: bytes, state: str = "pending", **more: bytes | str) -> None:
    """A task's hash as the library writes it."""
    message = Message(type="mail", id=id.decode(errors="replace"), queue=queue.decode(errors="replace"), retry=25)
    fields = {"msg": message.SerializeToString(), "state": state, **more}
    client.hset(b"asynq:{" + queue + b"}:t:" + id, mapping=fields)


def queues(reading: Reading) -> dict[tuple[int, str], str]:
    return {(row["db"], row["queue"]): row["layout"] for row in reading.rows("queues")}


def test_registered_names_win_and_the_longest_of_them(dump: Dump) -> None:
    """`q` and `q}:x` are both registered: keys go to the longer name where it fits, whatever braces ids hold."""

    def write(client: redis.Redis) -> None:
        client.sadd("asynq:queues", b"q", b"q}x", b"a:b")
        for queue, id in ((b"q", b"1"), (b"q}x", b"1"), (b"a:b", b"t:{q}:t:1"), (b"q", b"}:pending")):
            task(client, queue, id)
            client.lpush(b"asynq:{" + queue + b"}:pending", id)

    reading = dump(write)
    assert reading.role_of(b"asynq:{q}:t:1") == ("job", b"q")
    assert reading.role_of(b"asynq:{q}x}:t:1") == ("job", b"q}x")
    assert reading.role_of(b"asynq:{a:b}:t:t:{q}:t:1") == ("job", b"a:b")
    assert reading.role_of(b"asynq:{q}:t:}:pending") == ("job", b"q")
    assert {(r["queue"], r["job_id"], r["state"]) for r in reading.rows("jobs")} == {
        ("q", "1", "pending"), ("q}x", "1", "pending"), ("a:b", "t:{q}:t:1", "pending"), ("q", "}:pending", "pending"),
    }  # fmt: skip


def test_unregistered_queues_show_themselves(dump: Dump) -> None:
    """Keys of queues that the registry lost are claimed all the same, and the queue says that it is not registered."""

    def write(client: redis.Redis) -> None:
        client.sadd("asynq:queues", b"known")
        task(client, b"only-a-task", b"x")
        client.set(b"asynq:{only-a-pause}:paused", 1_700_000_000)
        client.zadd(b"asynq:{od}d}:scheduled", {b"y": 1_700_000_000})
        client.select(3)
        client.set(b"asynq:{other-db}:processed:2026-01-02", 4)

    reading = dump(write)
    assert set(queues(reading)) == {
        (0, "known"), (0, "only-a-task"), (0, "only-a-pause"), (0, "od}d"), (3, "other-db"),
    }  # fmt: skip
    registered = {row["queue"]: row["registered"] for row in reading.rows("queues")}
    assert registered == {
        "known": True, "only-a-task": False, "only-a-pause": False, "od}d": False,
        "other-db": None,  # its database has no registry at all
    }  # fmt: skip
    rows = {row["queue"]: row for row in reading.rows("queues")}
    assert rows["only-a-pause"]["paused_at"].timestamp() == 1_700_000_000
    assert rows["other-db"]["counters"] == {"processed:2026-01-02": 4}


def test_groups_and_aggregation_sets(dump: Dump) -> None:
    """A zset that could be either is what the registries say, or else what its first task's hash says."""
    base = b"asynq:{q}:g:"

    def write(client: redis.Redis) -> None:
        client.sadd("asynq:queues", b"q")
        for name, group in ((b"listed", b"a"), (b"leaked", b"b"), (b"odd", b"c:" + UUID), (b"plain", b"d")):
            task(client, b"q", name, "aggregating", group=group)
        client.zadd(base + b"a:" + UUID, {b"listed": 1_700_000_000})
        client.zadd("asynq:{q}:aggregation_sets", {base + b"a:" + UUID: 1_700_000_120, base + b"gone:" + UUID: 1})
        client.zadd(base + b"b:" + UUID, {b"leaked": 1_700_000_000})
        client.zadd(base + b"c:" + UUID, {b"odd": 1_700_000_000})
        client.zadd(base + b"d", {b"plain": 1_700_000_000})
        client.zadd(base + b"e:" + UUID, {b"ghost": 1_700_000_000})
        client.sadd("asynq:{q}:groups", b"e:" + UUID, b"never-seen")

    reading = dump(write)
    roles = {name: reading.role_of(base + name)[0] for name in (b"a:" + UUID, b"b:" + UUID, b"c:" + UUID, b"e:" + UUID)}
    assert list(roles.values()) == ["aggregation_set", "aggregation_set", "group", "group"]
    groups = {(r["structure"], r["job_id"]): r["group"] for r in reading.rows("membership")}
    assert groups == {
        ("aggregation_set", "listed"): "a", ("aggregation_set", "leaked"): "b", ("group", "plain"): "d",
        ("group", "odd"): f"c:{UUID.decode()}", ("group", "ghost"): f"e:{UUID.decode()}",
    }  # fmt: skip
    assert {r["state"] for r in reading.rows("jobs")} == {"aggregating"}
    sets = {r["worker_id"]: r["details"]["set"] for r in reading.rows("workers") if r["kind"] == "aggregation_set"}
    assert sets == {f"asynq:{{q}}:g:a:{UUID.decode()}": "present", f"asynq:{{q}}:g:gone:{UUID.decode()}": "missing"}


def test_keys_that_fit_nothing(dump: Dump) -> None:
    """What begins like Asynq's but fits no role is unplaced; what only looks like it is not claimed."""

    def write(client: redis.Redis) -> None:
        client.sadd("asynq:queues", b"q")
        for key in (b"asynq:{q}:nonsense", b"asynq:own", b"asynq:{q}:processed:yesterday", b"asynq:{never", b"asynq:"):
            client.set(key, 1)
        client.set(b"asynqmon:x", 1)
        client.set(b"my:asynq:{q}:pending", 1)

    reading = dump(write)
    assert reading.role_of(b"asynq:{q}:nonsense") == ("unplaced", b"q")
    assert reading.role_of(b"asynq:{q}:processed:yesterday") == ("unplaced", b"q")
    for key in (b"asynq:own", b"asynq:{never", b"asynq:"):
        assert reading.role_of(key) == ("unplaced", None)
    for key in (b"asynqmon:x", b"my:asynq:{q}:pending"):
        assert reading.role_of(key) == (None, None)


def test_only_free_keys_are_claimed(dump: Dump) -> None:
    """A key that another dialect claimed stays that dialect's."""
    reading = dump(lambda client: client.lpush("asynq:{q}:pending", "x"))
    nothing = DIALECT.claim(reading.keyspace, np.zeros(1, bool), Options())
    assert (nothing.role.tolist(), nothing.queues) == ([-1], [])


def test_names_that_are_no_text(dump: Dump) -> None:
    """Queue, group and task names that are not UTF-8 are escaped, and the id's bytes stand beside."""

    def write(client: redis.Redis) -> None:
        client.sadd("asynq:queues", b"\xff{q")
        task(client, b"\xff{q", b"\x00\xfe\n", "scheduled")
        client.zadd(b"asynq:{\xff{q}:scheduled", {b"\x00\xfe\n": 1_700_000_000, b"\xfd": float("inf")})

    reading = dump(write)
    jobs = {row["job_id"]: row for row in reading.rows("jobs")}
    assert {(r["queue"], r["job_id"], r["job_id_bytes"], r["state"], r["has_record"]) for r in jobs.values()} == {
        ("\\xff{q", "\x00\\xfe\n", b"\x00\xfe\n", "scheduled", True),
        ("\\xff{q", "\\xfd", b"\xfd", "scheduled", False),
    }
    assert jobs["\\xfd"]["key"] == "asynq:{\\xff{q}:t:\\xfd"
    due = {row["job_id"]: (row["score"], row["due_at"]) for row in reading.rows("membership")}
    assert due["\\xfd"] == (float("inf"), None)


def test_expired_keys_are_gone(dump: Dump) -> None:
    """Keys that had expired but lie in the file keep their role and count as absent; a dead server is still shown."""

    def write(client: redis.Redis) -> None:
        client.sadd("asynq:queues", b"q")
        task(client, b"q", b"stays")
        task(client, b"q", b"goes")
        client.lpush("asynq:{q}:pending", b"stays", b"goes")
        client.set("asynq:{q}:unique:mail:", b"goes")
        client.set("asynq:servers:{h:1:s}", b"\x0a\x01h\x10\x01\x1a\x01s\x2a\x05\x0a\x01q\x10\x01")
        client.hset("asynq:workers:{h:1:s}", b"goes", b"\x0a\x01h\x10\x01\x1a\x01s\x22\x04goes\x3a\x01q")
        client.zadd("asynq:servers", {"asynq:servers:{h:1:s}": 1_700_000_000, "asynq:servers:{old:host:2:r}": 1})
        client.lpush("asynq:{gone}:pending", b"x")
        keys = ("asynq:{q}:t:goes", "asynq:{q}:unique:mail:", "asynq:servers:{h:1:s}", "asynq:workers:{h:1:s}")
        for key in (*keys, "asynq:{gone}:pending"):
            client.pexpire(key, 1)
        time.sleep(1.1)  # the snapshot's own time has whole seconds

    reading = dump(write)
    assert reading.role_of(b"asynq:{q}:t:goes") == ("job", b"q")
    assert set(queues(reading)) == {(0, "q")}
    assert {(r["job_id"], r["has_record"]) for r in reading.rows("jobs")} == {("stays", True), ("goes", False)}
    assert reading.rows("relations") == []
    workers = {(r["kind"], r["worker_id"]): r for r in reading.rows("workers")}
    assert {name: (r["host"], r["pid"], r["valid"]) for name, r in workers.items()} == {
        ("server", "s"): ("h", 1, False), ("server", "r"): ("old:host", 2, False), ("worker", "s"): ("h", 1, False),
    }  # fmt: skip
    assert workers["server", "s"]["details"]["record"] == "expired"
    assert workers["server", "r"]["details"] == {"record": "missing"}
    assert workers["worker", "s"]["job_id"] == "goes"


def test_layout_before_leases(dump: Dump) -> None:
    """0.18 to 0.21: `deadlines` is what the recoverer reads, so its entries are the leases; old fields stay in rest."""

    def write(client: redis.Redis) -> None:
        client.sadd("asynq:queues", b"q", b"upgraded")
        for queue in (b"q", b"upgraded"):
            task(client, queue, b"run", "active", timeout="1800", deadline="0")
            client.lpush(b"asynq:{" + queue + b"}:active", b"run")
            client.zadd(b"asynq:{" + queue + b"}:deadlines", {b"run": 1_700_000_000})
        client.incr("asynq:{q}:processed")
        task(client, b"upgraded", b"new", "active")
        client.zadd("asynq:{upgraded}:lease", {b"new": 4_000_000_000})
        client.lpush("asynq:{upgraded}:active", b"new")

    reading = dump(write)
    assert queues(reading) == {(0, "q"): "asynq 0.20–0.21", (0, "upgraded"): "asynq 0.22+"}
    structures = {(r["queue"], r["structure"], r["job_id"]) for r in reading.rows("membership")}
    assert structures == {
        ("q", "active", "run"), ("q", "lease", "run"), ("upgraded", "active", "run"), ("upgraded", "deadlines", "run"),
        ("upgraded", "active", "new"), ("upgraded", "lease", "new"),
    }  # fmt: skip
    leases = {(r["queue"], r["job_id"]): r["valid"] for r in reading.rows("workers") if r["kind"] == "lease"}
    assert leases == {("q", "run"): False, ("upgraded", "new"): True}
    rest = {r["queue"]: r["rest"] for r in reading.rows("jobs") if r["job_id"] == "run"}
    assert rest["q"] == {"timeout": b"1800", "deadline": b"0"}
    why = {row["queue"]: row["layout_why"] for row in reading.rows("queues")}
    assert "an upgrade from before 0.22" in why["upgraded"]
    assert "timeout field of a producer before 0.22" in why["upgraded"]


def test_layouts_that_hold_whole_messages(dump: Dump) -> None:
    """Before 0.18 lists and zsets held JSON messages: one job each, by the id inside, whatever the copies' bytes."""

    def message(id: str, queue: str = "q", **more: object) -> str:
        return json.dumps({"Type": "mail", "Payload": {"n": 1}, "ID": id, "Queue": queue, "Retry": 25, **more})

    def write(client: redis.Redis) -> None:
        client.sadd("asynq:queues", b"v17", b"only-scheduled")
        client.lpush("asynq:{v17}", message("a"), message("b") + " ")
        client.lpush("asynq:{v17}:active", message("c"))
        client.zadd("asynq:{v17}:deadlines", {message("c"): 1_700_000_000, message("lost"): 1_700_000_000})
        client.zadd("asynq:{v17}:dead", {message("d"): 1_700_000_000})
        client.zadd("asynq:{only-scheduled}:scheduled", {message("a"): 1_700_000_000})
        client.select(1)
        client.sadd("asynq:queues", b"asynq:queues:default", b"asynq:queues:empty")
        client.lpush("asynq:queues:default", message("a", "default"))
        client.lpush("asynq:in_progress", message("a", "default"))  # in two places: what acts first counts
        client.zadd("asynq:dead", {message("b", "Low", Timeout="1h0m0s", UniqueKey="mail:n=1:low"): 1_700_000_000})
        client.set("mail:n=1:low", "b")
        client.set("mail:n=1:default", "b")  # no message speaks of this key

    reading = dump(write)
    assert queues(reading) == {
        (0, "v17"): "asynq 0.12–0.13", (0, "only-scheduled"): "asynq 0.12–0.17",
        (1, "default"): "asynq 0.2–0.3", (1, "empty"): "asynq 0.2–0.9", (1, "low"): "asynq 0.4–0.9",
    }  # fmt: skip
    assert {(r["db"], r["queue"], r["job_id"], r["state"], r["decided_by"]) for r in reading.rows("jobs")} == {
        (0, "v17", "a", "pending", "pending"), (0, "v17", "b", "pending", "pending"),
        (0, "v17", "c", "active", "active"), (0, "v17", "d", "archived", "archived"),
        (0, "v17", "lost", "unknown", None), (0, "only-scheduled", "a", "scheduled", "scheduled"),
        (1, "default", "a", "active", "active"), (1, "low", "b", "archived", "archived"),
    }  # fmt: skip
    assert len(reading.rows("jobs")) == 8
    places = {(r["db"], r["queue"], r["structure"], r["job_id"]) for r in reading.rows("membership")}
    assert {(0, "v17", "lease", "c"), (1, "default", "active", "a"), (1, "default", "pending", "a")} < places
    why = {(row["db"], row["queue"]): row["layout_why"] for row in reading.rows("queues")}
    assert "messages: 1 in active, 1 in archived, 2 in deadlines, 2 in pending" in why[0, "v17"]
    assert {name: row["registered"] for row in reading.rows("queues") if (name := row["queue"]) != "low"}.values()
    assert reading.role_of(b"asynq:in_progress", 1) == ("messages_active", None)
    assert reading.role_of(b"asynq:{v17}") == ("messages_pending", b"v17")
    assert reading.role_of(b"mail:n=1:low", 1) == ("unique", b"low")
    assert reading.role_of(b"mail:n=1:default", 1) == (None, None)
    assert [(r["source_id"], r["target_queue"], r["target_id"]) for r in reading.rows("relations")] == [
        ("mail:n=1:low", "low", "b")
    ]


def test_messages_beside_ids(dump: Dump) -> None:
    """A migration that was cut short: messages stay jobs of their own unless a hash has the id; ids stay ids."""

    def message(id: str) -> str:
        return json.dumps({"Type": "mail", "Payload": {}, "ID": id, "Queue": "q", "Retry": 3, "Retried": 1})

    def write(client: redis.Redis) -> None:
        client.sadd("asynq:queues", b"q")
        task(client, b"q", b"moved", "pending")
        task(client, b"q", b"both", "archived")
        task(client, b"q", b'{"odd": "id"}', "scheduled")
        client.rpush("asynq:{q}:pending", b"moved", message("left"), "ghost", '{"no": "message"}')
        client.rpush("asynq:{q}", message("behind"))
        client.zadd("asynq:{q}:archived", {message("both"): 1_700_000_000})
        client.zadd("asynq:{q}:scheduled", {b'{"odd": "id"}': 1_700_000_000})

    reading = dump(write)
    jobs = {r["job_id"]: r for r in reading.rows("jobs")}
    assert {id: (r["state"], r["has_record"], r["key"] is not None) for id, r in jobs.items()} == {
        "moved": ("pending", True, True), "left": ("pending", True, False), "ghost": ("pending", False, True),
        '{"no": "message"}': ("pending", False, True), "behind": ("pending", True, False),
        "both": ("archived", True, True), '{"odd": "id"}': ("scheduled", True, True),
    }  # fmt: skip
    assert len(reading.rows("jobs")) == len(jobs)
    assert jobs["both"]["finished_at"].timestamp() == 1_700_000_000
    assert jobs["left"]["max_attempts"] == 3
    assert sorted((r["structure"], r["position"], r["job_id"]) for r in reading.rows("membership")) == sorted([
        ("pending", 0, "moved"), ("pending", 1, "left"), ("pending", 2, "ghost"), ("pending", 3, '{"no": "message"}'),
        ("pending", 0, "behind"), ("archived", 0, "both"), ("scheduled", 0, '{"odd": "id"}'),
    ])  # fmt: skip
    (queue,) = reading.rows("queues")
    assert "beside task ids: 1 in archived, 2 in pending" in queue["layout_why"]


def test_elements_that_are_no_messages(dump: Dump) -> None:
    """Bytes that no release of that age could read are jobs too: an error with an offset, the bytes, a steady id."""
    bad = [b"\xff\x00", b'{"ID":"x"', b'{"ID":7,"Type":"t"}', b'{"Type":"t"}', b"[" * 100_000]

    def write(client: redis.Redis) -> None:
        client.lpush("asynq:{v17}", *bad)
        client.zadd("asynq:{v17}:archived", {bad[0]: 1})
        client.zadd("asynq:scheduled", {b"nobody's": 1_700_000_000})

    reading = dump(write)
    jobs = [r for r in reading.rows("jobs") if r["queue"] == "v17"]
    assert {r["undecoded"] for r in jobs} == set(bad) and len(jobs) == len(bad)
    for row in jobs:
        digest = hashlib.sha256(row["undecoded"]).hexdigest()
        assert (row["job_id"], row["state"], row["record_complete"]) == (f"sha256:{digest[:32]}", "pending", False)
    errors = {r["undecoded"]: r["decode_error"] for r in jobs}
    assert errors[bad[0]] == "no JSON object: Expecting '{' at byte 0"
    assert errors[bad[1]] == "broken JSON: Expecting ',' at byte 9"
    assert errors[bad[2]] == "ID is no text"
    assert errors[bad[3]] == "JSON without an ID"
    (nobodys,) = (r for r in reading.rows("jobs") if r["undecoded"] == b"nobody's")
    assert (nobodys["queue"], nobodys["state"]) == ("", "scheduled")
