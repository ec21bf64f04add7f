"""Faults that no library writes and no fixture holds, put into a real server key by key and saved by it.

A check that has only seen tables may be reading columns that no dialect fills. What stands here is written as the
libraries' schemas say, not as jobsleuth reads it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from jobsleuth.checks import Policy, all_checks, run_checks
from jobsleuth.pipeline import AnalyzeOptions, analyze
from tests.conftest import RedisServer

DAY = 86_400


def varint(number: int) -> bytes:
    """Of protobuf: seven bits a byte, the lowest first."""
    out = b""
    while True:
        number, low = number >> 7, number & 127
        out += bytes([low | 128 if number else low])
        if not number:
            return out


def field(number: int, value: int | str | bytes) -> bytes:
    """One field of a protobuf message; what is empty or zero is left out, as proto3 does."""
    if not value:
        return b""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


class Asynq:
    """Writes what Asynq 0.23 to 0.26 stores for queue `a`; numbers of fields as in its `asynq.proto`."""

    def __init__(self, client: Any, now: int) -> None:
        self.client, self.now = client, now

    def task(self, task_id: str, state: str, payload: bytes = b"{}", **more: int | str) -> None:
        numbers = {"retry": 5, "retried": 6, "error": 7, "last_failed_at": 11, "group": 14}
        given: dict[str, int | str] = {"retry": 25, **more}
        message = field(1, "mail") + field(2, payload) + field(3, task_id) + field(4, "a")
        message += b"".join(field(numbers[name], value) for name, value in sorted(given.items()))
        stored: dict[str, bytes | str] = {"msg": message, "state": state}
        if "group" in more:
            stored["group"] = str(more["group"])
        self.client.hset(f"asynq:{{a}}:t:{task_id}", mapping=stored)

    def server(self, busy: int) -> None:
        info = field(1, "h") + field(2, 1) + field(3, "s") + field(4, 10) + field(5, field(1, "a") + field(2, 1))
        info += field(7, "active") + field(8, field(1, self.now - 100)) + field(9, busy)
        self.client.set("asynq:servers:{h:1:s}", info, ex=10)
        self.client.zadd("asynq:servers", {"asynq:servers:{h:1:s}": self.now + 10})

    def worker(self, task_id: str, deadline: int) -> None:
        info = field(1, "h") + field(2, 1) + field(3, "s") + field(4, task_id) + field(5, "mail") + field(7, "a")
        info += field(8, field(1, self.now - 60)) + field(9, field(1, self.now + deadline))
        self.client.hset("asynq:workers:{h:1:s}", task_id, info)
        self.client.expire("asynq:workers:{h:1:s}", 10)

    def scheduler(self, pid: int, next_in: int) -> None:
        times = field(6, field(1, self.now + next_in)) + field(7, field(1, self.now + next_in - 3600))
        entry = field(1, f"entry-{pid}") + field(2, "@every 1h") + field(3, "mail") + field(4, b"{}") + times
        key = f"asynq:schedulers:{{h:{pid}:u}}"
        self.client.lpush(key, entry)
        self.client.expire(key, 20)
        self.client.zadd("asynq:schedulers", {key: self.now + 20})


def found(server: RedisServer, folder: Path, as_of: int) -> dict[str, set[str]]:
    """Check → messages of the dump that the server saves now, judged at that Unix second."""
    (folder / "dump.rdb").write_bytes(server.save())
    with analyze([folder / "dump.rdb"], folder / "case", AnalyzeOptions(as_of_ms=as_of * 1000)) as case:
        rows = run_checks(case, Policy(on=frozenset(c.id for c in all_checks()))).findings.to_pylist()
    told: dict[str, set[str]] = {}
    for row in rows:
        told.setdefault(row["check_id"], set()).add(row["message"])
    return told


def test_faults_of_asynq_that_nothing_else_shows(redis_server: RedisServer, tmp_path: Path) -> None:
    """Each is found, and said of the task, server, group or scheduler that has it."""
    client = redis_server.client()
    client.flushall()
    now = int(time.time())
    asynq = Asynq(client, now)
    client.sadd("asynq:queues", "a")
    asynq.task("over", "retry", retry=2, retried=5, error="x", last_failed_at=now - 50)
    asynq.task("never", "retry")
    client.zadd("asynq:{a}:retry", {"over": now + 100, "never": now + 100})
    asynq.task("big", "pending", payload=b"x" * 1_100_000)
    client.lpush("asynq:{a}:pending", "big")
    asynq.task("old", "archived", error="x", last_failed_at=now - 91 * DAY)
    client.zadd("asynq:{a}:archived", {"old": now - 91 * DAY})
    asynq.server(busy=3)
    client.mset({"asynq:{a}:processed": 5, "asynq:{a}:failed": 9})
    asynq.task("ahead", "active")
    client.lpush("asynq:{a}:active", "ahead")
    client.zadd("asynq:{a}:lease", {"ahead": now + 300})
    client.zadd("asynq:{a}:deadlines", {"ahead": now + 100})
    asynq.worker("ahead", deadline=-100)
    asynq.worker("elsewhere", deadline=100)
    client.zadd("asynq:sema:api", {"gone": now - 50})
    asynq.task("g1", "aggregating", group="grp")
    asynq.task("g2", "aggregating", group="one")
    client.sadd("asynq:{a}:groups", "grp", "two")
    leaked, missing = (f"asynq:{{a}}:g:grp:0b0e8a2e-1111-4222-8333-44445555{n}" for n in ("6666", "7777"))
    client.zadd(leaked, {"g1": now - 10})
    client.zadd("asynq:{a}:aggregation_sets", {missing: now + 100})
    client.zadd("asynq:{a}:g:two", {"g2": now - 10})
    asynq.scheduler(1, next_in=-500)
    asynq.scheduler(2, next_in=-500)
    told = found(redis_server, tmp_path, now)
    expected = {
        "CN011": "Task over of queue a (retry) was retried 5 times, but may be 2 times",
        "CN012": "Task never of queue a waits for a retry, but its message names no failure",
        "CN014": "Queue a has 1 job with large payloads, the largest of 1100000 bytes (big)",
        "CT005": "The next task archived in queue a deletes 1 task that went there long ago",
        "CT006": "Server h:1 counts 3 busy workers and lists 2",
        "CT007": "Counters of queue a contradict each other: 9 failed, but 5 processed in all",
        "EV005": "Queue a holds keys of older releases (deadlines) beside newer ones "
        "(group, groups, job, lease, pending)",
        "LV019": "In queue a a worker's clock is ahead: 1 lease, up to 4 min 30 s further ahead "
        "than the library sets them",
        "LV025": "A worker is still at task ahead of queue a, 1 min 40 s after its time was over",
        "LV027": "A server still works on task elsewhere of queue a, which is not active",
        "LV030": "Semaphore api has 1 token of tasks that are over, such as gone",
        "MB017": f"The aggregation set {leaked} of queue a with 1 task is in nobody's hands",
        "MB018": f"The aggregation set {missing} of queue a is listed, but does not exist: "
        "its tasks are in no structure",
        "SC009": "Periodic task mail (@every 1h) should have been enqueued 8 min 20 s before the snapshot",
        "SC010": "Periodic task mail (@every 1h) is enqueued by 2 schedulers",
        "ST006": "Task g2 of queue a is in group two, its record says one",
    }
    assert {check: told.get(check) for check in expected} == {check: {text} for check, text in expected.items()}


def test_faults_of_bullmq_that_nothing_else_shows(redis_server: RedisServer, tmp_path: Path) -> None:
    """Each is found, and said of its queue or job."""
    client = redis_server.client()
    client.flushall()
    now = int(time.time()) * 1000

    def queue(name: str, version: str = "5.81.5") -> None:
        client.hset(f"bull:{name}:meta", mapping={"opts.maxLenEvents": "10000", "version": f"bullmq:{version}"})
        client.xadd(f"bull:{name}:events", {"event": "drained"})
        client.set(f"bull:{name}:id", 100)

    def job(name: str, job_id: str, **fields: str) -> None:
        whole = {"name": "n", "data": "{}", "opts": '{"attempts":0}', "timestamp": str(now - 60_000)}
        client.hset(f"bull:{name}:{job_id}", mapping={**whole, "delay": "0", "priority": "0", **fields})

    queue("flags")
    client.set("bull:flags:meta-paused", "1")
    queue("ended")
    job("ended", "1", finishedOn=str(now), returnvalue="1", defa="child failed")
    client.zadd("bull:ended:completed", {"1": now})
    queue("late")
    job("late", "1", timestamp=str(now + 100_000), delay="5000")
    client.zadd("bull:late:delayed", {"1": (now + 5_000) * 4096})
    queue("ranked")
    job("ranked", "1", priority="3")
    client.zadd("bull:ranked:prioritized", {"1": 3 * 2**32 + 9})
    client.set("bull:ranked:pc", "2")
    client.zadd("bull:ranked:priority", {"1": 3})
    queue("kids")
    queue("flows")
    job("flows", "P")
    client.zadd("bull:flows:waiting-children", {"P": now})
    client.sadd("bull:flows:P:dependencies", "bull:kids:1")
    client.hset("bull:flows:P:processed", "bull:kids:99", "1")
    for child in ("1", "2"):
        job("kids", child, parentKey="bull:flows:P", parent='{"id":"P","queueKey":"bull:flows"}')
        client.lpush("bull:kids:wait", child)
    queue("newer", "9.1.0")
    told = found(redis_server, tmp_path, now // 1000)
    expected = {
        "CN006": "Delayed job 1 of queue late was due 1 min 35 s before it was created",
        "CT002": "The tie-breaker of prioritized jobs of queue ranked stands at 2, but 9 is in use",
        "EV005": "Queue flags holds keys of older releases (meta-paused) beside newer ones (events)",
        "EV009": "Queue newer was last opened by bullmq:9.1.0, newer than the releases that the checks were held "
        "against",
        "MB008": "bull:ranked:priority with 1 id is left over from BullMQ 3 or older",
        "MB010": "Queue flags is paused for Bull, by its key meta-paused, and not for BullMQ",
        "RL005": "Job 2 of queue kids is a child of P in flows, which waits, but not for this child",
        "RL007": "Queue flows has 1 parent with results of 1 removed child job, for example P",
        "ST003": "Job 1 of queue ended is completed, but was to fail at its next start: child failed",
    }
    assert {check: told.get(check) for check in expected} == {check: {text} for check, text in expected.items()}
