#!/usr/bin/env python3
"""Makes dumps of a chosen size through a real redis-server: the files the benchmarks measure on.

    python benchmarks/generate.py --shape bullmq --megabytes 300 --out benchmarks/data/bullmq-300.rdb

Shapes: `bullmq` (job hashes of four queues), `asynq` (task hashes of three queues), `cache` (a cache with sessions,
counters, sets and streams of other people, of which about 5 % of the keys are a BullMQ queue).
The content is drawn from a seed, so that two runs differ only in times, and in what the server itself adds. The queues
are healthy: what is due lies ahead of the snapshot, and who works holds a lock or a lease.
Give `--server-binary` an older server for an older RDB version (6.2 writes RDB 9).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import redis

NOW_MS = int(time.time()) * 1000
HOUR_MS = 3_600_000
WORDS = [
    *("order", "invoice", "customer", "shipment", "refund", "retry", "webhook", "delivery", "account", "region"),
    *("warehouse", "carrier", "label", "picked", "packed", "sent", "queued", "address", "street", "city"),
    *("country", "postal", "amount", "currency", "total", "item", "quantity", "weight", "status", "pending", "paid"),
]
Command = tuple[bytes | str | int | float, ...]


class Words:
    """Text that compresses about as well as real job payloads do."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def uuid(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def sentence(self, words: int) -> str:
        return " ".join(self.random.choices(WORDS, k=words))

    def payload(self) -> str:
        r = self.random
        items = [
            {"sku": self.uuid(), "title": self.sentence(4), "qty": r.randrange(1, 9), "price": r.randrange(100, 99999)}
            for _ in range(r.randrange(2, 9))
        ]
        return json.dumps(
            {
                "orderId": self.uuid(),
                "customer": {"id": r.randrange(10**9), "email": f"user{r.randrange(10**7)}@example.com"},
                "items": items,
                "note": self.sentence(r.randrange(5, 40)),
                "trace": self.uuid(),
            }
        )


def bullmq(words: Words, jobs: int, prefix: str = "bull") -> Iterator[Command]:
    """Queues of BullMQ 5.x as its scripts leave them."""
    r = words.random
    queues = ["emails", "reports", "invoices", "webhooks"]
    for queue in queues:
        base = f"{prefix}:{queue}"
        yield "HSET", f"{base}:meta", "opts.maxLenEvents", 10000, "version", "bullmq:5.81.5"
        yield "SET", f"{base}:stalled-check", NOW_MS, "PX", 30000
        yield "ZADD", f"{base}:marker", 0, "0"
    for number in range(1, jobs + 1):
        base = f"{prefix}:{queues[number % 4]}"
        job, created = str(number), NOW_MS - r.randrange(10**8)
        fields: list[bytes | str | int] = [
            *("name", f"job-{number % 7}", "data", words.payload(), "timestamp", created),
            *("opts", '{"attempts":3,"backoff":{"type":"exponential","delay":1000},"removeOnComplete":{"count":5000}}'),
            *("delay", 0, "priority", 0),
        ]
        dice = r.random()
        if dice < 0.70:
            done = created + r.randrange(10**6)
            fields += ["processedOn", done - 500, "finishedOn", done, "atm", 1, "ats", 1]
            fields += ["returnvalue", json.dumps({"ok": True, "id": words.uuid()})]
            yield "ZADD", f"{base}:completed", done, job
        elif dice < 0.80:
            yield "LPUSH", f"{base}:wait", job
        elif dice < 0.90:
            due = NOW_MS + HOUR_MS + r.randrange(10**8)
            fields[9] = due - created
            yield "ZADD", f"{base}:delayed", due * 4096, job
        elif dice < 0.95:
            done = created + r.randrange(10**6)
            fields += ["processedOn", done - 500, "finishedOn", done, "atm", 3, "ats", 3]
            fields += ["failedReason", "connect ETIMEDOUT 10.0.0.7:443", "stacktrace", json.dumps([words.sentence(60)])]
            yield "ZADD", f"{base}:failed", done, job
        elif dice < 0.98:
            fields[11] = 5
            yield "ZADD", f"{base}:prioritized", 5 * 2**32 + number, job
        else:
            fields += ["processedOn", NOW_MS - 1000, "ats", 1]
            yield "LPUSH", f"{base}:active", job
            yield "SET", f"{base}:{job}:lock", f"{words.uuid()}:1", "PX", 86_400_000
        yield "HSET", f"{base}:{job}", *fields
        if number % 8 == 0:
            yield "XADD", f"{base}:events", "MAXLEN", "~", 10000, "*", "event", "waiting", "jobId", job
    for queue in queues:
        yield "SET", f"{prefix}:{queue}:id", jobs


def varint(value: int) -> bytes:
    """A protobuf varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def message(number: int, payload: bytes, task: str, queue: str) -> bytes:
    """An Asynq TaskMessage on the wire: type 1, payload 2, id 3, queue 4, retry 5, timeout 8."""
    out = b""
    for field, data in ((1, f"mail:{number % 5}".encode()), (2, payload), (3, task.encode()), (4, queue.encode())):
        out += varint(field << 3 | 2) + varint(len(data)) + data
    return out + varint(5 << 3) + varint(25) + varint(8 << 3) + varint(1800)


def asynq(words: Words, jobs: int) -> Iterator[Command]:
    """Queues of Asynq 0.22 and later as its scripts leave them."""
    r = words.random
    queues = ["default", "critical", "low"]
    now_s = NOW_MS // 1000
    yield "SADD", "asynq:queues", *queues
    for number in range(jobs):
        queue = queues[number % 3]
        base, task = f"asynq:{{{queue}}}", words.uuid()
        dice = r.random()
        state, extra = "pending", ["pending_since", NOW_MS * 10**6]
        if dice < 0.30:
            yield "LPUSH", f"{base}:pending", task
        elif dice < 0.60:
            state, extra = "scheduled", []
            yield "ZADD", f"{base}:scheduled", now_s + 3600 + r.randrange(10**6), task
        elif dice < 0.80:
            state, extra = "retry", []
            yield "ZADD", f"{base}:retry", now_s + 3600 + r.randrange(10**5), task
        elif dice < 0.98:
            state, extra = "archived", []
            yield "ZADD", f"{base}:archived", now_s - r.randrange(10**6), task
        else:
            state, extra = "active", []
            yield "LPUSH", f"{base}:active", task
            yield "ZADD", f"{base}:lease", now_s + 3600, task
        stored = message(number, words.payload().encode(), task, queue)
        yield "HSET", f"{base}:t:{task}", "msg", stored, "state", state, *extra


def cache(words: Words, keys: int) -> Iterator[Command]:
    """Mostly other people's keys; one in about twenty belongs to a queue."""
    r = words.random
    for number in range(keys):
        dice = r.random()
        if dice < 0.55:
            yield "SET", f"session:{words.uuid()}", words.payload(), "PX", 86_400_000
        elif dice < 0.75:
            yield "HSET", f"user:{number}", "email", f"user{number}@example.com", "name", words.sentence(2), "n", number
        elif dice < 0.85:
            yield "SET", f"counter:{number}", r.randrange(10**9)
        elif dice < 0.92:
            yield "ZADD", f"board:{number % 5000}", r.random() * 1e6, f"user:{number}"
        elif dice < 0.97:
            yield "SADD", f"tags:{number}", *r.choices(WORDS, k=6)
        else:
            yield "RPUSH", f"feed:{number % 2000}", words.payload()
    yield from bullmq(words, keys // 22)


SHAPES: dict[str, tuple[Callable[[Words, int], Iterator[Command]], int]] = {
    "bullmq": (bullmq, 1010),
    "asynq": (asynq, 960),
    "cache": (cache, 560),
}
"""Shape → its commands, and about how many bytes of the file one unit takes."""


@contextlib.contextmanager
def server(binary: str) -> Iterator[tuple[redis.Redis, Path]]:
    """A private redis-server on a Unix socket in a folder of its own, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="jobsleuth-bench-"))
    socket = folder / "s"
    process = subprocess.Popen(
        [binary, "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(folder), "--appendonly", "no"],
        stdout=subprocess.DEVNULL,
    )
    try:
        client = redis.Redis(unix_socket_path=str(socket), socket_timeout=None)
        for _ in range(100):
            with contextlib.suppress(redis.ConnectionError):
                client.ping()
                break
            time.sleep(0.05)
        yield client, folder
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


def generate(shape: str, megabytes: int, out: Path, binary: str, seed: int) -> None:
    """Writes a dump of about `megabytes` to `out`."""
    commands, unit = SHAPES[shape]
    with server(binary) as (client, folder):
        pipe = client.pipeline(transaction=False)
        for number, command in enumerate(commands(Words(seed), megabytes * 1_000_000 // unit)):
            pipe.execute_command(*command)
            if number % 2000 == 1999:
                pipe.execute()
        pipe.execute()
        client.save()
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(folder / "dump.rdb", out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=sorted(SHAPES), required=True)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--server-binary", default="redis-server")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    generate(options.shape, options.megabytes, options.out, options.server_binary, options.seed)
    print(f"{options.out}: {options.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
