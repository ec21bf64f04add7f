"""Streams after histories drawn by lot on a real server: states, holders and losses against what happened."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis

import jobsleuth
from tests.conftest import RedisServer
from tests.dialects.streams.conftest import number

STREAMS = 40
STEPS = ["add"] * 4 + ["read"] * 3 + ["ack", "delete", "trim", "create", "claim", "forget"]


@dataclass
class Group:
    """What happened to a group: the last id it was given, and entries that were removed behind its back."""

    last: int = 0
    lost: set[int] = field(default_factory=set)


def history(server: redis.Redis, key: str, draw: random.Random) -> dict[str, Group]:
    """Does something with the stream; ids are counted up, so that the number before the dash says all."""
    added, there = 0, []
    groups = {"g0": Group()}
    server.xgroup_create(key, "g0", id="0", mkstream=True)
    for step in draw.choices(STEPS, k=draw.randint(3, 30)):
        name = draw.choice(list(groups))
        if step == "add":
            added += 1
            there.append(added)
            server.xadd(key, {"n": added}, id=f"{added}-0")
        elif step == "read":
            for _, entries in server.xreadgroup(name, f"c{draw.randint(1, 2)}", {key: ">"}, count=draw.randint(1, 4)):
                groups[name].last = number(entries[-1][0].decode())[0]
        elif step in ("ack", "claim"):
            held = [entry["message_id"] for entry in server.xpending_range(key, name, "-", "+", 10)]
            if held and step == "ack":
                server.xack(key, name, draw.choice(held))
            elif held:
                server.xclaim(key, name, "c9", 0, [draw.choice(held)])
        elif step in ("delete", "trim") and there:
            gone = [draw.choice(there)] if step == "delete" else there[: draw.randint(0, len(there))]
            if step == "delete":
                server.xdel(key, f"{gone[0]}-0")
            else:
                server.xtrim(key, maxlen=len(there) - len(gone), approximate=False)
            there = [entry for entry in there if entry not in gone]
            for group in groups.values():
                group.lost |= {entry for entry in gone if entry > group.last}
        elif step == "create" and len(groups) < 3:
            start = draw.randint(0, added)
            groups[f"g{len(groups)}"] = Group(start)
            server.xgroup_create(key, f"g{len(groups) - 1}", id=f"{start}-0")
        elif step == "forget":
            server.xgroup_delconsumer(key, name, "c1")
    return groups


def pairs(flat: list[Any]) -> dict[str, Any]:
    return {name.decode(): value for name, value in zip(flat[::2], flat[1::2], strict=True)}


@pytest.mark.parametrize("seed", range(4))
def test_any_history(seed: int, redis_server: RedisServer, tmp_path: Path) -> None:
    """Every entry of every group as `XINFO STREAM … FULL` has it; who certainly missed entries did; and who missed some
    that were trimmed away, in a stream that nothing was deleted from, is told so."""
    server, raw = redis_server.client(), redis_server.raw(0)
    server.flushall()
    draw = random.Random(seed)
    happened = {f"s{n}": history(server, f"s{n}", draw) for n in range(STREAMS)}
    expected: dict[tuple[str, str, str], Any] = {}
    untouched = set()
    for key in happened:
        full = pairs(raw.execute_command("XINFO STREAM", key, "FULL", "COUNT", 0))
        if full["max-deleted-entry-id"] == b"0-0":
            untouched.add(key)
        for group in map(pairs, full["groups"]):
            name, last = group["name"].decode(), number(group["last-delivered-id"].decode())
            for entry, _ in full["entries"]:
                state = "undelivered" if number(entry.decode()) > last else "acknowledged"
                expected[key, name, entry.decode()] = (state, True, None, None)
            there = {entry for entry, _ in full["entries"]}
            for entry, consumer, at, _ in group["pending"]:
                expected[key, name, entry.decode()] = ("pending", entry in there, consumer.decode(), at)
    redis_server.save()
    options = jobsleuth.AnalyzeOptions(streams_acked=True)
    case = jobsleuth.analyze(redis_server.folder / "dump.rdb", tmp_path / "c", options)
    jobs = case.query(
        "select namespace, queue, job_id, state, has_record, worker_name, epoch_ms(started_at) as at from jobs"
    ).to_pylist()
    assert {
        (j["namespace"], j["queue"], j["job_id"]): (j["state"], j["has_record"], j["worker_name"], j["at"])
        for j in jobs
    } == expected
    rows = case.query("select namespace, queue, certainty from findings where check_id = 'SM006'").to_pylist()
    told = {(row["namespace"], row["queue"]): row["certainty"] for row in rows}
    missed = {(key, name) for key, groups in happened.items() for name, group in groups.items() if group.lost}
    assert {place for place, certainty in told.items() if certainty == "certain"} <= missed
    behind = {
        (key, name)
        for key, name in missed
        if key in untouched and any(entry > happened[key][name].last for entry in happened[key][name].lost)
    }
    assert behind <= told.keys() and behind
