"""What a `migrate` command that was cut short left in `:backup` keys: tasks that stand nowhere else.

The real commands (of 0.12.0 and 0.18.0, stopped by a memory limit after their renames) leave keys such as these.
"""

from __future__ import annotations

import json

import redis
from google.protobuf import message_factory

from jobsleuth.dialects.asynq.messages import TASK

from .conftest import Dump, Fixture, load
from .test_whole_messages import elements, listed

Message = message_factory.GetMessageClass(TASK)


def restore(client: redis.Redis, fixture: Fixture) -> None:
    """Puts every key of a fixture back that is none of its servers'."""
    for key, value in fixture.raw.items():
        if key.startswith((b"asynq:servers", b"asynq:workers", b"asynq:schedulers")):
            continue
        if isinstance(value, bytes):
            client.set(key, value)
        elif key == b"asynq:queues":
            client.sadd(key, *value)
        elif isinstance(value[0], tuple):
            client.zadd(key, dict(value))
        else:
            client.rpush(key, *value)


def test_tasks_in_backups_only_are_jobs(dump: Dump) -> None:
    """After 0.18's renames every task is still a job, with all that the library said of it, in no state; its place is
    the backup, whose key says where it was."""
    fixture = load("healthy-0.17.2")
    renamed: dict[str, str] = {}

    def write(client: redis.Redis) -> None:
        restore(client, fixture)
        for queue in client.smembers("asynq:queues"):
            base = f"asynq:{{{queue.decode()}}}"
            if client.exists(base):
                client.rename(base, f"{base}:pending")
            for structure in ("active", "pending", "scheduled", "retry", "archived"):
                if client.exists(f"{base}:{structure}"):
                    client.rename(f"{base}:{structure}", f"{base}:{structure}:backup")
                    renamed[base if structure == "pending" else f"{base}:{structure}"] = f"{base}:{structure}:backup"

    reading = dump(write)
    jobs = {row["job_id"]: row for row in reading.rows("jobs")}
    assert set(jobs) == set(listed(fixture))
    for id, (_, said, _) in listed(fixture).items():
        job = jobs[id]
        assert (job["state"], job["decided_by"], job["has_record"], job["record_complete"], job["key"]) == (
            "unknown", None, True, True, None,
        )  # fmt: skip
        assert (job["name"], json.loads(job["payload"]), job["attempts"], job["max_attempts"], job["error"] or "") == (
            said["Type"], said["Payload"], said["Retried"], said["Retry"], said["ErrorMsg"],
        )  # fmt: skip
    places = [row for row in reading.rows("membership") if row["structure"] == "backup"]
    assert {(r["key"], r["kind"], r["position"], r["job_id"], r["score"], r["decides_state"]) for r in places} == {
        (
            renamed[key.decode()], "list" if score is None else "zset", position, json.loads(message)["ID"],
            None if score is None else float(score), False,
        )
        for structure, key, position, message, score in elements(fixture)
        if structure != "lease"
    }  # fmt: skip
    for queue in reading.rows("queues"):
        assert queue["layout"] == "asynq 0.12–0.17"
        assert "backup keys of an interrupted migration" in queue["layout_why"]
        assert {state for state, count in queue["counts"].items() if count} == {"unknown"}


def test_migrated_tasks_are_where_they_went(dump: Dump) -> None:
    """A task that was already moved is in its new state and also in the backup; one that a structure names without a
    record stays without one; bytes that are no message are kept."""
    old = '{"Type":"t","Payload":{"n":1},"ID":"%s","Queue":"q","Retry":3,"Retried":0,"ErrorMsg":""}'

    def write(client: redis.Redis) -> None:
        client.sadd("asynq:queues", "q")
        message = Message(type="t", id="moved", queue="q", retry=3)
        client.hset("asynq:{q}:t:moved", mapping={"msg": message.SerializeToString(), "state": "pending"})
        client.rpush("asynq:{q}:pending", "moved", "ghost")
        client.rpush("asynq:{q}:pending:backup", *(old % id for id in ("moved", "ghost", "left")), b"\xff no message")

    reading = dump(write)
    rows = {row["job_id"]: row for row in reading.rows("jobs")}
    assert {id: (row["state"], row["has_record"]) for id, row in rows.items() if not id.startswith("sha256:")} == {
        "moved": ("pending", True), "ghost": ("pending", False), "left": ("unknown", True),
    }  # fmt: skip
    (kept,) = (row for id, row in rows.items() if id.startswith("sha256:"))
    assert (kept["undecoded"], kept["state"], kept["queue"]) == (b"\xff no message", "unknown", "q")
    places = [(r["structure"], r["job_id"]) for r in reading.rows("membership")]
    assert sorted(places) == sorted(
        [("backup", id) for id in ("moved", "ghost", "left", kept["job_id"])]
        + [("pending", "moved"), ("pending", "ghost")]
    )


def test_backups_of_global_structures(dump: Dump) -> None:
    """Before 0.12: a backup belongs to the queue of its messages, that of a list to the list's queue; a queue that is
    really called so is a queue, and the registry's own backup is none."""
    fixture = load("healthy-0.11.0")

    def write(client: redis.Redis) -> None:
        restore(client, fixture)
        for key in ("in_progress", "scheduled", "retry", "dead", "queues:mail"):
            client.rename(f"asynq:{key}", f"asynq:{key}:backup")
        client.sadd("asynq:queues:backup", "asynq:queues:mail")
        client.sadd("asynq:queues", "asynq:queues:mail", "asynq:queues:mail:backup:backup")
        client.rpush("asynq:queues:mail:backup:backup", '{"ID":"real","Queue":"mail:backup:backup","Type":"t"}')

    reading = dump(write)
    jobs = {row["job_id"]: row for row in reading.rows("jobs")}
    real = jobs.pop("real")
    assert (real["queue"], real["state"]) == ("mail:backup:backup", "pending")
    assert set(jobs) == set(listed(fixture))
    for id, (_, said, _) in listed(fixture).items():
        assert (jobs[id]["queue"], jobs[id]["state"], jobs[id]["name"]) == (said["Queue"], "unknown", said["Type"])
    backups = {row["key"] for row in reading.rows("membership") if row["structure"] == "backup"}
    assert backups == {f"asynq:{key}:backup" for key in ("in_progress", "scheduled", "retry", "dead", "queues:mail")}
    assert reading.role_of(b"asynq:queues:backup") == ("backup", None)
    assert reading.role_of(b"asynq:queues:mail:backup") == ("backup", b"mail")
    for queue in reading.rows("queues"):
        assert "backup keys of an interrupted migration" in queue["layout_why"]
