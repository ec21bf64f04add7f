"""Releases before 0.18 against what they and the server said of the same instant: every message, exactly."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from .conftest import WHOLE_NAMES, Fixture, Row, load, release

LISTS = {"in_progress": "active", "active": "active"}
ZSETS = {"scheduled": "scheduled", "retry": "retry", "dead": "archived", "archived": "archived", "deadlines": "lease"}
ZERO = "0001-01-01T00:00:00Z"


def ms(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() * 1000)


def said_ms(text: str) -> int | None:
    """A time as Go puts it into JSON, its nanoseconds cut."""
    if text == ZERO:
        return None
    whole, _, fraction = text.removesuffix("Z").partition(".")
    seconds = datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp()
    return round(seconds) * 1000 + int((fraction + "000")[:3])


def elements(fixture: Fixture) -> list[tuple[str, bytes, int, bytes, str | None]]:
    """(structure, key, position, element, score) of everything the server had, by the keys' documented names."""
    out = []
    for key, value in fixture.raw.items():
        name = key.decode()
        word = name.rpartition(":")[2]
        is_pending = re.fullmatch(r"asynq:queues:.*|asynq:\{.*\}", name) is not None
        structure = "pending" if is_pending else LISTS.get(word) or ZSETS.get(word)
        if not isinstance(value, list) or structure is None or name.startswith(("asynq:servers", "asynq:workers")):
            continue
        for position, element in enumerate(value):
            member, score = element if isinstance(element, tuple) else (element, None)
            out.append((structure, key, position, member, score))
    return out


def listed(fixture: Fixture) -> dict[str, tuple[str, Row, int | None]]:
    """Id → (state, what the library says of the task, score)."""
    out = {}
    for state, tasks in fixture.library["listings"].items():
        for task in tasks or ():
            message = task.get("Message", task)
            assert message["ID"] not in out
            out[message["ID"]] = (state, message, task.get("Score"))
    return out


def test_every_message_is_a_job_once(whole: Fixture) -> None:
    """`jobs` has exactly the ids that the library lists, each once, in the state whose listing shows it."""
    rows = whole.rows("jobs")
    assert len({r["job_id"] for r in rows}) == len(rows)
    assert {r["job_id"]: r["state"] for r in rows} == {id: state for id, (state, _, _) in listed(whole).items()}
    assert {r["decided_by"] for r in rows} == {r["state"] for r in rows}
    assert {json.loads(e[3])["ID"] for e in elements(whole)} == {r["job_id"] for r in rows}
    for row in rows:
        # The record is inside the structure: it exists, and no key of its own is where it would be.
        assert (row["has_record"], row["record_complete"], row["key"], row["claimed_state"]) == (True, True, None, None)


def test_fields_are_the_librarys(whole: Fixture) -> None:
    """Each field that the library's inspector gives is in the shared columns, in the right unit."""
    jobs = {r["job_id"]: r for r in whole.rows("jobs")}
    for id, (state, said, score) in listed(whole).items():
        job = jobs[id]
        columns = {
            "Type": job["name"],
            "Payload": json.loads(job["payload"]),
            "Queue": job["record_queue"],
            "Retry": job["max_attempts"],
            "Retried": job["attempts"],
            "ErrorMsg": job["error"] or "",
            "Timeout": job["timeout_s"],
            "Deadline": (ms(job["deadline"]) or 0) // 1000,
            "UniqueKey": job["deduplication_id"] or "",
        }
        for name, value in columns.items():
            if name == "Payload" and release(whole.name) < (0, 10):  # that inspector rounds numbers to floats
                assert rounded(value) == rounded(said[name])
            elif name in said:
                assert value == said[name], (id, name)
        assert job["queue"] == said.get("Queue", job["record_queue"])
        assert ms(job["scheduled_at"]) == (score * 1000 if state in ("scheduled", "retry") else None)
        assert ms(job["finished_at"]) == (score * 1000 if state == "archived" else None)
        for name, column in (("ProcessAt", "scheduled_at"), ("LastFailedAt", "finished_at")):
            if name in said:
                assert ms(job[column]) == said_ms(said[name])


def rounded(value: Any) -> Any:
    return json.loads(json.dumps(value), parse_int=float)


def test_fields_are_the_messages(whole: Fixture) -> None:
    """Each member of each stored message is in its column; the payload's bytes are those of the message."""
    jobs = {r["job_id"]: r for r in whole.rows("jobs")}
    for _, _, _, element, _ in elements(whole):
        message = json.loads(element)
        job = jobs[message["ID"]]
        said: dict[str, Any] = {
            "Type": job["name"], "ID": job["record_id"], "Queue": job["record_queue"], "Retry": job["max_attempts"],
            "Retried": job["attempts"], "ErrorMsg": job["error"] or "", "UniqueKey": job["deduplication_id"] or "",
        }  # fmt: skip
        assert said == {"UniqueKey": "", **{k: v for k, v in message.items() if k in said}}
        assert b'"Payload":' + job["payload"] + b',"ID":' in element
        assert (job["payload_bytes"], job["payload_format"]) == (len(job["payload"]), "json")
        assert json.loads(job["payload"]) == message["Payload"]
        assert job["unknown_fields"] is None and job["decode_error"] is None
        if release(whole.name) >= (0, 10):
            assert (job["timeout_s"], ms(job["deadline"]) or 0) == (message["Timeout"], message["Deadline"] * 1000)
        elif "Deadline" in message:
            assert ms(job["deadline"]) == said_ms(message["Deadline"])


def test_ids_tell_when_up_to_09(whole: Fixture) -> None:
    """Ids up to 0.9 (xid: four bytes of Unix seconds, in base32hex) tell when a task was enqueued; UUIDs do not."""
    asked = whole.library["asked_from"]
    for row in whole.rows("jobs"):
        if release(whole.name) >= (0, 10):
            assert row["created_at"] is None
            continue
        digits = "0123456789abcdefghijklmnopqrstuv"
        number = int("".join(f"{digits.index(char):05b}" for char in row["job_id"])[:32], 2)
        assert ms(row["created_at"]) == number * 1000
        assert asked - 60_000 < number * 1000 <= asked
        if row["started_at"] is not None:
            assert row["created_at"] <= row["started_at"]


def test_durations_in_words() -> None:
    """Up to 0.9 a timeout is text such as `1m30s`: here are those that the fixture's program asked for."""
    jobs = {json.loads(r["payload"] or b"null")["name"]: r for r in named("every-state-0.9.4")}
    asked = {"timeout": 90, "timeout-and-deadline": 60, "deadline-exceeded": 1, "retry-0": 0}
    assert {name: jobs[name]["timeout_s"] for name in asked} == asked
    sub_second = jobs["timeout-sub-second"]  # 1.5 s: whole seconds in the column, the rest as stored
    assert (sub_second["timeout_s"], sub_second["rest"]) == (1, {"msg.Timeout": b'"1.5s"'})


def named(name: str) -> list[Row]:
    """Jobs of a fixture whose payload has a name."""
    rows = load(name).rows("jobs")
    return [r for r in rows if isinstance(json.loads(r["payload"]), dict) and "name" in json.loads(r["payload"])]


def test_membership_is_the_servers_reply(whole: Fixture) -> None:
    """Each element of each structure has its row, with position, score and the id that the message has inside."""
    expected = {
        (structure, key.decode(), position, json.loads(element)["ID"], None if score is None else float(score))
        for structure, key, position, element, score in elements(whole)
    }
    found = [(r["structure"], r["key"], r["position"], r["job_id"], r["score"]) for r in whole.rows("membership")]
    assert len(set(found)) == len(found)
    assert set(found) == expected
    for row in whole.rows("membership"):
        assert row["decides_state"] == (row["structure"] != "lease")
        assert ms(row["due_at"]) == (None if row["score"] is None else int(row["score"]) * 1000)


def test_deadlines(whole: Fixture) -> None:
    """An active message and its copy in `deadlines` are one job; the copy is what its recoverer reads (0.10 on)."""
    as_of = whole.keyspace.as_of.ms
    deadlines = {json.loads(e[3])["ID"]: int(e[4] or 0) * 1000 for e in elements(whole) if e[0] == "lease"}
    leases = {r["job_id"]: r for r in whole.rows("workers") if r["kind"] == "lease"}
    assert {id: ms(row["valid_until"]) for id, row in leases.items()} == deadlines
    assert {id: row["valid"] for id, row in leases.items()} == {id: at > as_of for id, at in deadlines.items()}
    active = {r["job_id"] for r in whole.rows("jobs") if r["state"] == "active"}
    assert active
    if release(whole.name) >= (0, 10):
        assert set(deadlines) == active
        assert whole.name.startswith("crash") == (False in {row["valid"] for row in leases.values()})
    else:
        assert deadlines == {}


def test_queues_are_the_librarys(whole: Fixture) -> None:
    """Sizes, pauses and counters are those of the library's statistics."""
    queues = {row["queue"]: row for row in whole.rows("queues")}
    members = Counter((r["queue"], r["structure"]) for r in whole.rows("membership"))
    states = Counter(state for state, _, _ in listed(whole).values())
    assert Counter({s: sum(q["counts"][s] for q in queues.values()) for s in states}) == states
    said = whole.library["queues"]
    if release(whole.name) >= (0, 12):
        for name, stats in said.items():
            queue = queues[name]
            assert (queue["paused"], queue["registered"]) == (stats["Paused"], True)
            archived = stats.get("Archived", stats.get("Dead"))
            sizes = {"pending": stats["Pending"], "active": stats["Active"], "scheduled": stats["Scheduled"]}
            for structure, size in {**sizes, "retry": stats["Retry"], "archived": archived}.items():
                assert members[name, structure] == size == queue["counts"][structure]
            counters = dict(queue["counters"] or {})
            assert sum(n for day, n in counters.items() if day.startswith("processed:")) == stats["Processed"]
            assert sum(n for day, n in counters.items() if day.startswith("failed:")) == stats["Failed"]
    else:
        listed_queues = said.get("Queues", ())
        if isinstance(listed_queues, dict):  # up to 0.8 sizes by name, and no pauses
            listed_queues = [{"Name": name, "Size": size, "Paused": False} for name, size in listed_queues.items()]
        for stats in listed_queues:
            queue = queues[stats["Name"]]
            assert (queue["paused"], members[stats["Name"], "pending"]) == (stats["Paused"], stats["Size"])
            assert queue["registered"]
        sizes = {"scheduled": said["Scheduled"], "retry": said["Retry"], "archived": said["Dead"]}
        for state, size in {**sizes, "active": said["InProgress"], "pending": said["Enqueued"]}.items():
            assert states[state] == size
        for queue in queues.values():  # one set of counters for all queues
            counts = {key.rpartition(":")[0]: count for key, count in (queue["counters"] or {}).items()}
            assert counts.get("asynq:processed", 0) == said["Processed"]
            assert counts.get("asynq:failure", 0) == said["Failed"]


def test_servers_and_workers(whole: Fixture) -> None:
    """Live servers and busy workers are those that the library lists, in every detail it gives."""
    rows = whole.rows("workers")
    live = {r["worker_id"]: r for r in rows if r["kind"] == "server" and r["valid"]}
    # Before 0.8 they have no ids.
    said = {server.get("ServerID"): server for server in whole.library.get("servers") or ()}
    assert set(live) == set(said)
    for id, server in said.items():
        row, details = live[id], live[id]["details"]
        assert (row["host"], row["pid"], ms(row["started_at"])) == (
            server["Host"], server["PID"], said_ms(server["Started"]),
        )  # fmt: skip
        assert json.loads(details["queues"]) == server["Queues"]
        assert details["concurrency"] == str(server["Concurrency"])
        assert details["active_worker_count"] == str(server["ActiveWorkerCount"])
        assert (details["status"], details["strict_priority"]) == (
            server["Status"], str(server["StrictPriority"]).lower(),
        )  # fmt: skip
    busy = {r["job_id"]: r for r in rows if r["kind"] == "worker" and r["valid"]}
    workers = {w["ID"]: w for w in whole.library.get("workers") or ()}
    assert set(busy) == set(workers)
    jobs = {r["job_id"]: r for r in whole.rows("jobs")}
    for id, worker in workers.items():
        row = busy[id]
        assert (row["queue"], row["worker_id"]) == (worker["Queue"], next(iter(said)))
        assert ms(row["started_at"]) == said_ms(worker["Started"]) == ms(jobs[id]["started_at"])
        assert ms(row["deadline"]) == said_ms(worker.get("Deadline", ZERO))
        assert json.loads(row["details"]["payload"]) == worker["Payload"]


def test_dead_machine_is_still_told(whole: Fixture) -> None:
    """Of a killed worker's expired heartbeat the file still tells which messages it held, and since when."""
    if not whole.name.startswith("crash"):
        return
    held = {r["job_id"]: r for r in whole.rows("workers") if r["kind"] == "worker"}
    active = {r["job_id"] for r in whole.rows("jobs") if r["state"] == "active"}
    # Up to 0.9 it takes one message more than it has workers, before one is free.
    assert set(held) <= active and len(active - set(held)) == (release(whole.name) < (0, 10))
    for row in held.values():
        assert row["valid"] is False and row["pid"] and row["host"] and row["started_at"]
        assert (row["worker_id"] is not None) == (release(whole.name) >= (0, 8))


def test_schedulers(whole: Fixture) -> None:
    """Scheduler entries and what they enqueued are those that the library lists (0.13 on)."""
    live = {r["schedule_id"]: r for r in whole.rows("schedules") if r["has_record"]}
    said = {s["entry"]["ID"]: s for s in whole.library.get("schedulers") or ()}
    assert set(live) == set(said)
    for id, scheduler in said.items():
        row, entry = live[id], scheduler["entry"]
        assert (row["spec"], row["queue"], row["details"]["type"]) == (entry["Spec"], "periodic", entry["Type"])
        assert (ms(row["next_at"]), ms(row["last_at"])) == (said_ms(entry["Next"]), said_ms(entry["Prev"]))
        assert json.loads(row["details"]["options"]) == entry["Opts"]
        events = [(ms(e["at"]), e["job_id"]) for e in whole.rows("events") if e["fields"]["schedule_id"] == id]
        asked = {(said_ms(e["EnqueuedAt"]), e["TaskID"]) for e in scheduler["events"] or ()}
        assert set(events) <= asked  # it is asked a moment after the save
        assert whole.name != "every-state-0.17.2" or (entry["Prev"] == ZERO or events)


def test_locks(whole: Fixture) -> None:
    """Locks are relations to their holder; before 0.12 their keys have no prefix, and the messages tell them."""
    wanted = {json.loads(e[3])["ID"]: json.loads(e[3]).get("UniqueKey") for e in elements(whole)}
    expected = {
        (key.decode(), value.decode())
        for key, value in whole.raw.items()
        if isinstance(value, bytes) and key.decode() in wanted.values()
    }
    found = {(r["source_id"], r["target_id"]) for r in whole.rows("relations") if r["kind"] == "uniqueness"}
    assert found == expected
    assert bool(found) == (release(whole.name) >= (0, 7) and whole.name != "crash-servers-gone-0.7.1")


def test_every_key_has_a_role(whole: Fixture) -> None:
    """Everything the library wrote is claimed and has a role."""
    keys = whole.keyspace.keys["key"].to_pylist()
    odd = [key for key, role in zip(keys, whole.claims.role.tolist(), strict=True) if role < 0]
    assert odd == []
    assert whole.claims.rows_of("unplaced").tolist() == []


@pytest.mark.parametrize("name", WHOLE_NAMES)
def test_layout(name: str) -> None:
    """The layout is the oldest and newest release that the queue could be of."""
    layouts = Counter(row["layout"] for row in load(name).rows("queues"))
    of = release(name)
    if of >= (0, 12):
        narrow = "asynq 0.14–0.17" if of >= (0, 14) else "asynq 0.12–0.13"
        assert set(layouts) <= {narrow, "asynq 0.12–0.17"}
        assert (narrow in layouts) == (not name.startswith("crash"))  # nothing had died there
    else:
        narrow = {(0, 10): "asynq 0.10–0.11", (0, 4): "asynq 0.4–0.9", (0, 2): "asynq 0.2–0.3", (0, 1): "asynq 0.1"}
        expected = next(layout for since, layout in narrow.items() if of >= since)
        assert set(layouts) - {"asynq 0.2–0.9"} == {expected}  # a queue may have nothing but a name
        assert of < (0, 10) or set(layouts) == {expected}
