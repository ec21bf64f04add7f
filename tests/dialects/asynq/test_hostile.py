"""Values that no library writes: kept, reported, never in the way of what stands beside them."""

from __future__ import annotations

import random
import time
from base64 import b64decode

import redis
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from jobsleuth.dialects import Options
from jobsleuth.dialects.asynq.messages import TASK, message_factory

from .conftest import Dump, Reading, Row, load

Message = message_factory.GetMessageClass(TASK)


def one(reading: Reading, id: str) -> Row:
    (row,) = (r for r in reading.rows("jobs") if r["job_id"] == id)
    return row


def test_numbers_beyond_their_meaning(dump: Dump) -> None:
    """Times outside the calendar are null and their numbers stay in `rest`; a `pending_since` in ms stays as stored."""
    far = Message(type="t", id="far", deadline=2**62, last_failed_at=-(2**63), completed_at=2**50, retried=-1, retry=-5)

    def write(client: redis.Redis) -> None:
        client.sadd("asynq:queues", "q")
        client.hset("asynq:{q}:t:far", mapping={"msg": far.SerializeToString(), "state": "archived"})
        client.zadd("asynq:{q}:archived", {"far": 1e300})
        client.hset(
            "asynq:{q}:t:foreign", mapping={"msg": b"\x0a\x01t", "state": "", "pending_since": 1_700_000_000_000}
        )
        client.hset("asynq:{q}:t:words", mapping={"pending_since": "yesterday"})
        client.set("asynq:{q}:paused", "since always")
        client.set("asynq:{q}:processed", "9" * 30)
        client.set("asynq:{q}:failed", "-3")

    reading = dump(write)
    row = one(reading, "far")
    assert (row["deadline"], row["last_failed_at"], row["finished_at"]) == (None, None, None)
    assert (row["attempts"], row["max_attempts"], row["state"]) == (-1, -5, "archived")
    assert row["rest"] == {
        "msg.deadline": str(2**62).encode(), "msg.last_failed_at": str(-(2**63)).encode(),
        "msg.completed_at": str(2**50).encode(),
    }  # fmt: skip
    foreign = one(reading, "foreign")
    assert (foreign["state"], foreign["claimed_state"]) == ("unknown", "")
    assert foreign["rest"] == {"pending_since": b"1700000000000"}
    words = one(reading, "words")
    assert (words["pending_since"], words["rest"]) == (None, {"pending_since": b"yesterday"})
    assert (words["has_record"], words["record_complete"]) == (True, False)
    (queue,) = reading.rows("queues")
    assert (queue["paused"], queue["paused_at"], queue["counters"]) == (True, None, {"failed": -3})


def test_keys_of_the_wrong_type(dump: Dump) -> None:
    """A task's key that is no hash is a record that cannot be read; structures of a wrong type hold nothing."""

    def write(client: redis.Redis) -> None:
        client.sadd("asynq:queues", "q")
        client.set("asynq:{q}:t:text", "x")
        client.rpush("asynq:{q}:pending", "text")
        client.set("asynq:{q}:active", "text")
        client.rpush("asynq:{q}:scheduled", "text")
        client.sadd("asynq:{q}:lease", "text")
        client.hset("asynq:servers", "a", "b")
        client.rpush("asynq:servers:{h:1:x}", "no string")
        client.rpush("asynq:workers:{h:1:x}", "no hash")
        client.set("asynq:schedulers:{h:1:x}", "no list")
        client.rpush("asynq:{q}:unique:t:", "no string")
        client.rpush("asynq:{q}:paused", "no string")

    reading = dump(write)
    row = one(reading, "text")
    assert (row["state"], row["has_record"], row["record_complete"]) == ("pending", True, False)
    assert row["decode_error"] == "the key is of type string, a task is a hash"
    assert [(r["structure"], r["job_id"]) for r in reading.rows("membership")] == [("pending", "text")]
    (queue,) = reading.rows("queues")
    assert queue["paused"] is True


def test_bytes_that_are_no_message(dump: Dump) -> None:
    """Servers, workers, schedulers and events that cannot be decoded are rows that say so and keep the bytes."""

    def write(client: redis.Redis) -> None:
        client.set("asynq:servers:{h:1:x}", '{"Host":7}')
        client.hset("asynq:workers:{h:1:x}", "task", b"\xff")
        client.rpush("asynq:schedulers:{h:1:y}", b"\x0a\x09")
        client.zadd("asynq:scheduler_history:e", {b"\x0a\x09": 1})
        client.zadd("asynq:sema:scope", {"task": 1_700_000_000})

    reading = dump(write)
    rows = {row["kind"]: row for row in reading.rows("workers")}
    assert "JSON" in rows["server"]["details"]["decode_error"]
    assert rows["server"]["details"]["undecoded"] == '{"Host":7}'
    assert (rows["server"]["host"], rows["server"]["pid"], rows["server"]["worker_id"]) == ("h", 1, "x")
    assert (rows["worker"]["job_id"], rows["worker"]["details"]["undecoded"]) == ("task", "\\xff")
    assert (rows["semaphore"]["worker_id"], rows["semaphore"]["job_id"]) == ("scope", "task")
    (schedule,) = reading.rows("schedules")
    assert "no SchedulerEntry" in schedule["details"]["decode_error"]
    (event,) = reading.rows("events")
    assert (event["at"], event["job_id"], event["fields"]["schedule_id"]) == (None, None, "e")


def test_a_semaphores_token_holds_to_the_end_of_its_second(dump: Dump) -> None:
    """The module `x/rate` removes tokens with a score up to now - 1 (`acquireCmd`): one of this very second is held."""
    scores = range(int(time.time()) - 5, int(time.time()) + 30)

    def write(client: redis.Redis) -> None:
        client.zadd("asynq:sema:scope", {f"task-{score}": score for score in scores})

    reading = dump(write)
    as_of = reading.keyspace.as_of.ms // 1000
    assert as_of in scores
    held = {row["job_id"] for row in reading.rows("workers") if row["valid"]}
    assert held == {f"task-{score}" for score in scores if score >= as_of}


def test_headers_locks_and_groups_of_a_message(dump: Dump) -> None:
    """What the message says and no column holds is in `rest`, row by row, beside the hash's own fields."""
    message = Message(type="t", id="a", unique_key="k", group_key="other", headers={"trace": "1", "": "", "é": "ü"})

    def write(client: redis.Redis) -> None:
        client.hset("asynq:{q}:t:plain", mapping={"msg": b"\x0a\x01t", "state": "pending"})
        client.hset(
            "asynq:{q}:t:a",
            mapping={
                "msg": message.SerializeToString(),
                "state": "pending",
                "unique_key": "k2",
                "group": "g",
                "mine": "x",
            },
        )
        client.hset("asynq:{q}:t:b", mapping={"msg": message.SerializeToString(), "extra": "y", "group": "other"})

    reading = dump(write)
    headers = {"msg.headers.trace": b"1", "msg.headers.": b"", "msg.headers.é": "ü".encode()}
    a = one(reading, "a")
    assert (a["deduplication_id"], a["group"]) == ("k", "g")
    assert a["rest"] == {"unique_key": b"k2", "mine": b"x", "msg.group_key": b"other", **headers}
    assert one(reading, "b")["rest"] == {"extra": b"y", **headers}
    assert one(reading, "plain")["rest"] == {}


def test_payload_limit() -> None:
    """`--payload` cuts the bytes kept, never the size and format that are told of them."""
    full = load("every-state-0.26.0")
    cut = Reading(full.path, Options(payload_limit=3))
    for whole, short in zip(full.rows("jobs"), cut.rows("jobs"), strict=True):
        assert short["payload"] == (None if whole["payload"] is None else whole["payload"][:3])
        assert (short["payload_bytes"], short["payload_format"]) == (whole["payload_bytes"], whole["payload_format"])


def test_payload_limit_holds_for_all_that_may_hold_a_payload() -> None:
    """`--payload none` leaves no byte of a payload in workers, schedules, and messages that could not be decoded."""
    path = load("every-state-0.26.0").path
    full, none = (Reading(path, Options(payload_limit=limit)) for limit in (None, 0))
    payloads = {b64decode(w["payload"]).decode() for s in load("every-state-0.26.0").library["servers"]
                for w in s["active_workers"] if w["payload"]}  # fmt: skip
    assert payloads == {'{"month":7}', '{"month":8}'}
    assert payloads <= {r["details"]["payload"] for r in full.rows("workers") if r["kind"] == "worker"}
    for table in ("workers", "schedules"):
        for row, cut in zip(full.rows(table), none.rows(table), strict=True):
            whole, kept = row["details"] or {}, cut["details"] or {}
            assert kept.get("payload_bytes", "0") == str(len(whole.get("payload", "")))
            assert kept.get("payload", "") == ""
    faults = load("faults-0.26.0")
    rows = {row["job_id"]: row for row in Reading(faults.path, Options(payload_limit=5)).rows("jobs")}
    for fault in ("msg-garbage", "msg-json", "msg-truncated"):
        stored = faults.raw[rows[f"{fault}-victim"]["key"].encode()][b"msg"]
        assert rows[f"{fault}-victim"]["undecoded"] == stored[:5]
        assert rows[f"{fault}-victim"]["rest"]["msg.bytes"] == str(len(stored)).encode()
    assert "msg.bytes" not in rows["msg-garbage-bystander"]["rest"]


def test_damaged_messages_say_where() -> None:
    """The fault fixture's doctored messages: decode errors with an offset, unknown fields with number and wire type."""
    reading = load("faults-0.26.0")
    rows = {row["job_id"]: row for row in reading.rows("jobs")}
    for fault in ("msg-garbage", "msg-json", "msg-truncated"):
        row = rows[f"{fault}-victim"]
        stored = reading.raw[row["key"].encode()][b"msg"]
        assert " at byte " in row["decode_error"], fault
        assert row["undecoded"] == stored
        assert (row["name"], row["payload"], row["attempts"], row["record_id"]) == (None, None, None, None)
        assert row["state"] == "pending"
    assert "JSON" in rows["msg-json-victim"]["decode_error"]
    unknown = rows["msg-unknown-fields-victim"]
    assert (unknown["unknown_fields"], unknown["message_rest"]) == (
        ["99:varint", "77:bytes"],
        b"\x98\x06\x2a\xea\x04\x03new",
    )
    assert (unknown["decode_error"], unknown["name"]) == (None, "block:msg-unknown-fields")
    bystander = rows["msg-unknown-fields-bystander"]
    assert (bystander["unknown_fields"], bystander["message_rest"], bystander["undecoded"]) == (None, None, None)


def test_same_evidence_same_rows() -> None:
    """Reading a dump twice gives the same tables, row for row."""
    first = load("every-state-0.26.0")
    again = Reading(first.path)
    assert all(first.tables[name].equals(again.tables[name]) for name in first.tables)


def test_mutated_messages_are_judged_like_protobuf_does(dump: Dump) -> None:
    """Real messages cut, with bytes changed, doubled or inserted: an error with an offset exactly where the protobuf
    package refuses the bytes too, and the same values and unknown fields where it does not."""
    rnd = random.Random(20260202)
    real = [
        hash_[b"msg"] for key, hash_ in load("every-state-0.26.0").raw.items() if b"}:t:" in key and b"msg" in hash_
    ]
    tasks: dict[str, bytes] = {}
    for nth in range(600):
        data = rnd.choice(real)
        at = rnd.randrange(len(data))
        byte = rnd.randbytes(1)
        data = rnd.choice(
            [data[:at], data[:at] + byte + data[at + 1 :], data[:at] + byte + data[at:], data + data[:at]]
        )
        tasks[f"n{nth}"] = data

    def write(client: redis.Redis) -> None:
        pipe = client.pipeline()
        for id, data in tasks.items():
            pipe.hset(f"asynq:{{q}}:t:{id}", mapping={"msg": data, "state": "pending"})
        pipe.execute()

    refused = 0
    rows = {row["job_id"]: row for row in dump(write).rows("jobs")}
    for id, data in tasks.items():
        row = rows[id]
        try:
            said = Message.FromString(data)
        except DecodeError:
            refused += 1
            assert " at byte " in row["decode_error"] and row["undecoded"] == data, data.hex()
            assert (row["name"], row["payload"], row["unknown_fields"]) == (None, None, None)
            continue
        assert row["decode_error"] is None and row["undecoded"] is None, data.hex()
        assert (row["name"] or "", row["payload"] or b"", row["record_id"] or "", row["error"] or "") == (
            said.type, said.payload, said.id, said.error_msg,
        ), data.hex()  # fmt: skip
        assert (row["max_attempts"], row["attempts"], row["timeout_s"], row["retention_s"]) == (
            said.retry, said.retried, said.timeout, said.retention,
        ), data.hex()  # fmt: skip
        unknown = [f.field_number for f in UnknownFieldSet(said)]
        assert [int(name.partition(":")[0]) for name in row["unknown_fields"] or ()] == list(dict.fromkeys(unknown))
    assert 100 < refused < 500
