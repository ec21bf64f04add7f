"""Evidence for the tests of this dialect: committed dumps with their answers, and dumps made on the spot."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import redis

from jobsleuth.case.schema import BY_NAME, conform
from jobsleuth.dialects import Options
from jobsleuth.dialects.asynq import DIALECT
from jobsleuth.keyspace import Claims
from jobsleuth.sources.rdb import RdbKeyspace

FIXTURES = Path(__file__).parents[3] / "fixtures" / "asynq"
Row = dict[str, Any]


class Reading:
    """What the dialect makes of one dump."""

    def __init__(self, path: Path, options: Options | None = None) -> None:
        self.path = path
        self.keyspace = RdbKeyspace.open(path)
        self.options = options or Options()
        free = np.ones(self.keyspace.keys.num_rows, bool)
        self.claims: Claims = DIALECT.claim(self.keyspace, free, self.options)
        parts: dict[str, list[pa.Table]] = {}
        for name, rows in DIALECT.tables(self.keyspace, self.claims, self.options):
            parts.setdefault(name, []).append(conform(name, rows))
        self.tables = {
            name: pa.concat_tables(parts.get(name, [])) if name in parts else BY_NAME[name].schema.empty_table()
            for name in BY_NAME
        }

    @cache  # noqa: B019 - readings live as long as the session
    def rows(self, table: str) -> list[Row]:
        """Rows of a case table, maps as dicts."""
        maps = [c.name for c in BY_NAME[table].columns if pa.types.is_map(c.type)]
        rows = self.tables[table].to_pylist()
        for row in rows:
            for name in maps:
                if row[name] is not None:
                    row[name] = dict(row[name])
        return rows

    def role_of(self, key: bytes, db: int = 0) -> tuple[str | None, bytes | None]:
        """(role, queue) that one key was given."""
        for number, (name, at) in enumerate(
            zip(self.keyspace.keys["key"].to_pylist(), self.keyspace.keys["db"].to_pylist(), strict=True)
        ):
            if (at, name) == (db, key):
                role, queue = int(self.claims.role[number]), int(self.claims.queue[number])
                return (
                    self.claims.roles[role] if role >= 0 else None,
                    self.claims.queues[queue].queue if queue >= 0 else None,
                )
        raise KeyError(key)


def text(value: str | dict[str, str]) -> bytes:
    """A byte string of keyspace NDJSON."""
    return value.encode() if isinstance(value, str) else b64decode(value["b64"])


class Fixture(Reading):
    """A committed dump with the library's and the server's own answers."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "evidence.rdb")
        self.name = folder.name
        self.library = json.loads((folder / "expect" / "library.json").read_text())
        self.raw_keys: list[Row] = json.loads((folder / "expect" / "raw.json").read_text())["keys"]

    @cached_property
    def raw(self) -> dict[bytes, Any]:
        """Key → value as the server gave it: bytes, list, set as list, [(member, score text)], or {field: value}."""
        out: dict[bytes, Any] = {}
        for key in self.raw_keys:
            value = key["value"]
            match key["type"]:
                case "string":
                    out[text(key["key"])] = text(value)
                case "hash":
                    out[text(key["key"])] = {text(field): text(stored) for field, stored in value}
                case "zset":
                    out[text(key["key"])] = [(text(member), score) for member, score in value]
                case _:
                    out[text(key["key"])] = [text(member) for member in value]
        return out


@cache
def load(name: str) -> Fixture:
    return Fixture(FIXTURES / name)


def release(name: str) -> tuple[int, ...]:
    """The release that a fixture's name ends with."""
    return tuple(int(part) for part in name.rpartition("-")[2].split("."))


_ALL = sorted(p.parent.name for p in FIXTURES.glob("*/case.toml"))
NAMES = [name for name in _ALL if release(name) >= (0, 18)]
"""Dumps of releases that keep each task in a hash of its own."""
WHOLE_NAMES = [name for name in _ALL if release(name) < (0, 18)]
"""Dumps of releases whose lists and zsets hold whole messages."""


@pytest.fixture(params=NAMES)
def fixture(request: pytest.FixtureRequest) -> Fixture:
    """Each committed dump of 0.18 or later."""
    return load(request.param)


@pytest.fixture(params=WHOLE_NAMES)
def whole(request: pytest.FixtureRequest) -> Fixture:
    """Each committed dump of a release before 0.18."""
    return load(request.param)


Dump = Callable[[Callable[[redis.Redis], None]], Reading]


@pytest.fixture
def dump(tmp_path: Path) -> Iterator[Dump]:
    """Writes keys into a real server and reads the dump it saves. Keys that expire are not deleted before the save."""
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("redis-server is not installed: no dump could be made")
    socket = tmp_path / "s"
    server = subprocess.Popen(
        [binary, "--port", "0", "--unixsocket", socket, "--dir", tmp_path, "--save", "",
         "--enable-debug-command", "local", "--databases", "64"],
        stdout=subprocess.DEVNULL,
    )  # fmt: skip

    def make(write: Callable[[redis.Redis], None]) -> Reading:
        client = redis.Redis(unix_socket_path=str(socket))
        for _ in range(100):
            try:
                client.ping()
                break
            except redis.ConnectionError:
                time.sleep(0.05)
        client.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", "0")
        write(client)
        client.save()
        client.close()
        return Reading(tmp_path / "dump.rdb")

    try:
        yield make
    finally:
        server.kill()
        server.wait()
