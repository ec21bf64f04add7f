"""The tables against what the library's Inspector and the server said of the same instant: every id, exactly."""

from __future__ import annotations

import json
from base64 import b64decode
from collections import Counter, defaultdict
from datetime import datetime
from typing import Any

import pytest

from .conftest import NAMES, Fixture, Row, load, release

DECIDING = ("pending", "active", "scheduled", "retry", "archived", "completed")
ORDER = ("active", "pending", "retry", "scheduled", "aggregating", "archived", "completed")


def ms(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() * 1000)


def tasks_of(fixture: Fixture) -> dict[tuple[str, str], Row]:
    queues = fixture.library["queues"].items()
    return {(queue, id): task for queue, said in queues for id, task in said["tasks"].items()}


def jobs_of(fixture: Fixture) -> dict[tuple[str, str], Row]:
    return {(row["queue"], row["job_id"]): row for row in fixture.rows("jobs")}


def test_every_id_is_a_job_once(fixture: Fixture) -> None:
    """`jobs` has exactly the ids that the server's keys name, by a hash or by a structure, each once."""
    rows = fixture.rows("jobs")
    assert set(tasks_of(fixture)) <= {(r["queue"], r["job_id"]) for r in rows}
    keys = [r["key"].encode() for r in rows]
    assert len(set(keys)) == len(keys)
    named = {key for key in fixture.raw if b"}:t:" in key and isinstance(fixture.raw[key], dict)}
    for (queue, _structure, _), members in structures(fixture).items():
        named |= {b"asynq:{%s}:t:%s" % (queue.encode(), member) for member, _ in members}
    assert set(keys) == named
    assert {r["key"].encode() for r in rows if r["has_record"]} == {k for k in named if k in fixture.raw}


def test_claimed_state_is_the_inspectors(fixture: Fixture) -> None:
    """`claimed_state` of every task is the state that GetTaskInfo gives; where it gives none, what the hash says."""
    jobs = jobs_of(fixture)
    for name, task in tasks_of(fixture).items():
        hash_ = fixture.raw.get(jobs[name]["key"].encode())
        stored = None if hash_ is None else hash_.get(b"state")
        assert jobs[name]["claimed_state"] == (None if stored is None else stored.decode()), name
        if "error" not in task:
            assert jobs[name]["claimed_state"] == task["state"], name


def test_message_fields_are_the_inspectors(fixture: Fixture) -> None:
    """Every field that GetTaskInfo reports of a task's message and hash is in the shared columns, in the right unit."""
    jobs = jobs_of(fixture)
    compared = 0
    for name, task in tasks_of(fixture).items():
        if "error" in task:
            continue
        job = jobs[name]
        hash_ = fixture.raw[job["key"].encode()]
        said = {
            "id": job["record_id"] or "",
            "queue": job["record_queue"] or "",
            "type": job["name"] or "",
            "payload": job["payload"] or b"",
            "max_retry": job["max_attempts"] or 0,
            "retried": job["attempts"] or 0,
            "last_err": job["error"] or "",
            "last_failed_at": ms(job["last_failed_at"]),
            "timeout_s": job["timeout_s"] or 0,
            "deadline": ms(job["deadline"]),
            "retention_s": job["retention_s"] or 0,
            "group": (job["rest"] or {}).get("msg.group_key", (job["group"] or "").encode()).decode(),
            "completed_at": ms(job["finished_at"]) if job["state"] != "archived" else None,
            "result": job["result"] or b"",
        }
        asked = {key for key in said if key in task}  # releases before 0.19 and 0.23 know fewer
        assert set(said) - asked <= {"retention_s", "completed_at", "result", "group"}
        expected = {key: task[key] for key in asked}
        for key in asked & {"payload", "result"}:
            expected[key] = b64decode(task[key]) if task[key] else b""
        assert {key: said[key] for key in asked} == expected, name
        if "headers" in task and task["headers"] is not None:
            prefix = "msg.headers."
            headers = {k.removeprefix(prefix): v.decode() for k, v in job["rest"].items() if k.startswith(prefix)}
            assert headers == task["headers"], name
        assert job["payload_bytes"] == (len(expected["payload"]) if b"msg" in hash_ else None)
        compared += 1
    assert compared > 0


def listed_state(task: Row) -> str:
    """The structure served first among the listings that show the task."""
    return next((state for state in ORDER if state in task["listed_in"]), "unknown")


def test_state_is_where_the_listings_show_it(fixture: Fixture) -> None:
    """`state` is the listing that shows the task; what listings leave out is where the server has it."""
    jobs = jobs_of(fixture)
    homes = homes_of(fixture)
    for name, task in tasks_of(fixture).items():
        state = jobs[name]["state"]
        assert state == next((s for s in ORDER if s in homes[name]), "unknown"), name
        if task.get("listed_in"):
            assert state == listed_state(task), name
        counted = Counter(task.get("listed_in", ()))
        if "aggregating" not in homes[name] and sum(counted.values()):
            assert counted == Counter(homes[name]), name


def homes_of(fixture: Fixture) -> dict[tuple[str, str], list[str]]:
    """(queue, id) → states of the structures that the server has it in, once for each element."""
    homes: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (queue, structure, _), members in structures(fixture).items():
        for member, _ in members:
            if structure in DECIDING:
                homes[queue, member.decode()].append(structure)
            elif structure in ("group", "aggregation_set"):
                homes[queue, member.decode()].append("aggregating")
    return homes


def structures(fixture: Fixture) -> dict[tuple[str, str, bytes], list[tuple[bytes, str | None]]]:
    """(queue, structure, key) → [(member, score text)], from the server's replies.

    Queues are those the Inspector was asked for, so that the split of a key owes nothing to the code under test.
    """
    found: dict[tuple[str, str, bytes], list[tuple[bytes, str | None]]] = {}
    for queue in fixture.library["queues"]:
        base = b"asynq:{" + queue.encode() + b"}:"
        sets = {key for key, _ in fixture.raw.get(base + b"aggregation_sets", [])}
        for key, value in fixture.raw.items():
            if not key.startswith(base) or not isinstance(value, list):
                continue
            word = key[len(base) :].decode()
            scored = [(member, None) if isinstance(member, bytes) else member for member in value]
            if word in (*DECIDING, "lease"):
                found[queue, word, key] = scored
            elif word == "deadlines":  # before 0.22 what the recoverer reads
                found[queue, "lease", key] = scored
            elif word.startswith("g:"):
                found[queue, "aggregation_set" if key in sets else "group", key] = scored
    return found


def test_membership_is_the_servers_reply(fixture: Fixture) -> None:
    """Each element of each structure has its row, with position and score as the server replied."""
    rows: dict[tuple[str, str, bytes], list[tuple[int, bytes, float | None]]] = defaultdict(list)
    for row in fixture.rows("membership"):
        name = (row["queue"], row["structure"], row["key"].encode())
        rows[name].append((row["position"], row["job_id"].encode(), row["score"]))
    expected = {
        name: [(at, member, None if score is None else float(score)) for at, (member, score) in enumerate(members)]
        for name, members in structures(fixture).items()
    }
    assert {name: sorted(found) for name, found in rows.items()} == expected


def test_times_in_scores(fixture: Fixture) -> None:
    """`due_at` is the score in seconds; a score that is no time of our calendar gives none but keeps the score."""
    for row in fixture.rows("membership"):
        if row["score"] is not None and row["score"] <= 253_402_300_799:
            assert ms(row["due_at"]) == int(row["score"] * 1000)
        else:
            assert row["due_at"] is None
        assert row["decides_state"] == (row["structure"] != "lease")


def test_queues_are_the_inspectors(fixture: Fixture) -> None:
    """Counts, counters, pause and registration of each queue are what GetQueueInfo and the server say."""
    queues = {row["queue"]: row for row in fixture.rows("queues")}
    registered = {name.decode() for name in fixture.raw.get(b"asynq:queues", [])}
    assert set(fixture.library["queues"]) <= set(queues)
    listed = Counter((queue, name) for (queue, name, _), members in structures(fixture).items() for _ in members)
    members = Counter((r["queue"], r["structure"]) for r in fixture.rows("membership"))
    assert members == listed
    for name, said in fixture.library["queues"].items():
        queue, info = queues[name], said["info"]
        assert queue["registered"] == (name in registered)
        assert sum(queue["counts"].values()) == len(said["tasks"])
        if "error" in info:
            continue
        assert queue["paused"] == info["paused"]
        for state in DECIDING:
            assert members[name, state] == info.get(state, 0), (name, state)
        counters = queue["counters"] or {}
        if "processed_total" in info:
            assert counters.get("processed", 0) == info["processed_total"]
            assert counters.get("failed", 0) == info["failed_total"]
        day = max((c.rpartition(":")[2] for c in counters if ":" in c), default="")
        assert counters.get(f"processed:{day}", 0) == info["processed"]
        assert counters.get(f"failed:{day}", 0) == info["failed"]
        links = [r for r in fixture.rows("relations") if r["kind"] == "group"]
        groups = {r["source_id"] for r in links if r["source_queue"] == name}
        assert groups == set(said["groups"])
        waiting = [r for r in fixture.rows("membership") if r["structure"] == "group"]
        in_groups = Counter(r["group"] for r in waiting if r["queue"] == name)
        assert {g: in_groups[g] for g in groups} == said["groups"]


def test_oldest_waiting(fixture: Fixture) -> None:
    """`oldest_waiting_at` is the `pending_since` of the task that runs next, as in the library's latency."""
    for row in fixture.rows("queues"):
        base = b"asynq:{" + row["queue"].encode() + b"}:"
        pending = fixture.raw.get(base + b"pending", [])
        stored = fixture.raw.get(base + b"t:" + pending[-1], {}).get(b"pending_since") if pending else None
        assert ms(row["oldest_waiting_at"]) == (None if stored is None else int(stored) // 1_000_000)
        info = fixture.library["queues"].get(row["queue"], {}).get("info", {})
        if info.get("latency_ms"):
            since = info["timestamp"] - info["latency_ms"]  # the library reads its clock twice
            assert abs(since - ms(row["oldest_waiting_at"])) <= 50


def test_orphans_are_the_librarys(fixture: Fixture) -> None:
    """A lease is no longer valid exactly where the Inspector calls the active task orphaned."""
    as_of = fixture.keyspace.as_of.ms
    leases = {(r["queue"], r["job_id"]): r for r in fixture.rows("workers") if r["kind"] == "lease"}
    for name, task in tasks_of(fixture).items():
        if task.get("is_orphaned") is None or name not in leases:
            continue
        lease = leases[name]
        assert lease["valid"] == (ms(lease["valid_until"]) > as_of)
        asked_ms = fixture.library["asked_until"]
        if (ms(lease["valid_until"]) > asked_ms) == (ms(lease["valid_until"]) > as_of):
            assert lease["valid"] is not task["is_orphaned"], name


def test_servers_and_workers(fixture: Fixture) -> None:
    """Live servers and their busy workers are those that Servers() lists, in every detail it gives."""
    rows = fixture.rows("workers")
    live = {r["worker_id"]: r for r in rows if r["kind"] == "server" and r["valid"]}
    busy: dict[tuple[str, str, str], Row] = {
        (r["worker_id"], r["queue"], r["job_id"]): r for r in rows if r["kind"] == "worker" and r["valid"]
    }
    said = {server["id"]: server for server in fixture.library["servers"]}
    if fixture.name.startswith(("crash", "leftovers")):  # a heartbeat may fall between the save and the question
        said = {id: server for id, server in said.items() if id in live}
    assert set(live) == set(said)
    entries = {}
    for id, server in said.items():
        row = live[id]
        assert (row["host"], row["pid"], ms(row["started_at"])) == (server["host"], server["pid"], server["started"])
        details = row["details"]
        assert details["concurrency"] == str(server["concurrency"])
        assert details["strict_priority"] == str(server["strict_priority"]).lower()
        assert details["status"] == server["status"]

        assert json.loads(details["queues"]) == server["queues"]
        entries |= {(id, w["queue"], w["task_id"]): w for w in server["active_workers"]}
    assert set(busy) == set(entries)
    for name, worker in entries.items():
        row = busy[name]
        assert (ms(row["started_at"]), ms(row["deadline"])) == (worker["started"], worker["deadline"])
        assert row["details"]["type"] == worker["type"]
        job = jobs_of(fixture).get(name[1:])
        if job is not None and job["has_record"]:
            assert ms(job["started_at"]) == worker["started"]


def test_schedules_and_events(fixture: Fixture) -> None:
    """Scheduler entries and what they enqueued are those that SchedulerEntries() and its history list."""
    live = {r["schedule_id"]: r for r in fixture.rows("schedules") if r["has_record"]}
    said = {entry["id"]: entry for entry in fixture.library["schedulers"]}
    assert set(live) == set(said)
    events: dict[str, list[tuple[int | None, str]]] = defaultdict(list)
    for event in fixture.rows("events"):
        events[event["fields"]["schedule_id"]].append((ms(event["at"]), event["job_id"]))
    for id, entry in said.items():
        row = live[id]
        assert (row["spec"], ms(row["next_at"]), ms(row["last_at"])) == (entry["spec"], entry["next"], entry["prev"])
        assert row["details"]["type"] == entry["type"]
        assert events[id] == sorted((e["enqueued_at"], e["task_id"]) for e in entry["events"])
        assert row["job_id"] == (max(events[id])[1] if events[id] else None)
        options = [o for o in entry["opts"] if o.startswith("Queue(")]
        assert row["queue"] == (options[-1][len('Queue("') : -2] if options else "default")
    history = {k: v for k, v in fixture.raw.items() if k.startswith(b"asynq:scheduler_history:")}
    assert len(fixture.rows("events")) == sum(map(len, history.values()))


def test_locks(fixture: Fixture) -> None:
    """Each lock that the server still has is a relation to the task that holds it, until the lock's expiry."""
    expiry = {k["key"]: k["expire_at_ms"] for k in fixture.raw_keys if isinstance(k["key"], str)}
    found = {
        r["key"]: (r["target_id"], ms(r["valid_until"])) for r in fixture.rows("relations") if r["kind"] == "uniqueness"
    }
    expected = {
        key.decode(): (value.decode(), expiry[key.decode()])
        for key, value in fixture.raw.items()
        if b"}:unique:" in key and isinstance(value, bytes)
    }
    assert found == expected


def test_hash_fields_are_all_there(fixture: Fixture) -> None:
    """Every stored field of every task is in a column or in `rest`: nothing of a record is lost."""
    columns: dict[bytes, tuple[str, Any]] = {
        b"state": ("claimed_state", bytes.decode),
        b"group": ("group", bytes.decode),
        b"result": ("result", bytes),
    }
    for row in fixture.rows("jobs"):
        stored = fixture.raw.get(row["key"].encode())
        if stored is None:
            continue
        rest = row["rest"] or {}
        for field, value in stored.items():
            if field in columns:
                column, read = columns[field]
                assert row[column] == read(value)
            elif field == b"pending_since":
                assert ms(row["pending_since"]) == int(value) // 1_000_000
            elif field != b"msg":
                assert rest[field.decode()] == value
        own = {f.decode() for f in stored} | {k for k in rest if k.startswith("msg.")}
        assert set(rest) <= own


def test_no_key_is_unplaced_by_mistake(fixture: Fixture) -> None:
    """Everything the library wrote has a role."""
    unplaced = fixture.claims.rows_of("unplaced")
    assert [fixture.keyspace.keys["key"][int(row)].as_py() for row in unplaced] == []


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("every-state")])
def test_layout(name: str) -> None:
    """Queues show the release that brought what they hold, and not a later one."""
    layouts = {row["queue"]: row["layout"] for row in load(name).rows("queues")}
    of = release(name)
    if of >= (0, 23):
        assert layouts["groups"] == "asynq 0.23+"
    if of >= (0, 22):
        assert layouts["active"] == "asynq 0.22+"
        assert layouts["default"] == ("asynq 0.26+" if of >= (0, 26) else "asynq 0.22+")
    elif of >= (0, 20):
        assert layouts["retry"] == "asynq 0.20–0.21"
        assert layouts["default"] == "asynq 0.19.1–0.21"
    else:
        assert layouts["default"] == layouts["retry"] == "asynq 0.18–0.21"


def test_deadlines_are_leases_before_022(fixture: Fixture) -> None:
    """Before 0.22 the row of kind lease is the task's deadline; the task is past it exactly when the score is."""
    as_of = fixture.keyspace.as_of.ms
    expected = {}
    for (queue, structure, key), members in structures(fixture).items():
        if structure == "lease" and key.endswith(b":deadlines"):
            expected |= {(queue, id.decode()): int(score) * 1000 for id, score in members}
    if release(fixture.name) >= (0, 22):
        assert expected == {}
        return
    rows = {(r["queue"], r["job_id"]): r for r in fixture.rows("workers") if r["kind"] == "lease"}
    assert {name: ms(row["valid_until"]) for name, row in rows.items()} == expected
    assert {name: row["valid"] for name, row in rows.items()} == {n: at > as_of for n, at in expected.items()}
    assert fixture.name.startswith("crash") == (False in {row["valid"] for row in rows.values()})
    for name, row in rows.items():
        job = jobs_of(fixture)[name]
        assert ms(job["deadline"]) in (None, ms(row["valid_until"]))
        assert (
            job["rest"][  # what such a release stores beside the message
                "timeout"
            ]
            == str(job["timeout_s"]).encode()
        )


def test_what_decides_the_state(fixture: Fixture) -> None:
    """`decided_by` is a structure that holds the task as the server has it: the first in the order of precedence."""
    holds: dict[tuple[str, str], set[str]] = defaultdict(set)
    for (queue, structure, _), members in structures(fixture).items():
        for member, _ in members:
            holds[queue, member.decode()].add(structure)
    order = ("active", "pending", "retry", "scheduled", "group", "aggregation_set", "archived", "completed")
    for name, job in jobs_of(fixture).items():
        assert job["decided_by"] == next((s for s in order if s in holds[name]), None), name
