"""Real servers for tests that compare with their replies."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis


class RedisServer:
    """A redis-server of our own on a unix socket, which saves only when told."""

    def __init__(self, folder: Path, *more: str) -> None:
        binary = shutil.which("redis-server")
        if binary is None:
            pytest.skip("redis-server is not installed: NOTHING was compared with a real server")
        self.folder = folder
        self._raw: dict[int, redis.Redis] = {}
        self._socket = folder / "s"
        options = ["--port", "0", "--unixsocket", str(self._socket), "--save", "", "--dir", str(folder), *more]
        self._process = subprocess.Popen([binary, *options], stdout=subprocess.DEVNULL)
        for _ in range(200):
            try:
                self.client().ping()
                return
            except redis.ConnectionError:
                time.sleep(0.05)
        self.stop()
        raise RuntimeError("redis-server did not start")

    def client(self, db: int = 0) -> redis.Redis:
        return redis.Redis(unix_socket_path=str(self._socket), db=db, protocol=2)

    def raw(self, db: int) -> redis.Redis:
        """A client that gives replies as the server sends them."""
        if db not in self._raw:
            self._raw[db] = self.client(db)
            self._raw[db].response_callbacks.clear()
        return self._raw[db]

    def configure(self, **settings: object) -> None:
        for name, value in settings.items():
            self.client().config_set(name.replace("_", "-"), value)

    def save(self) -> bytes:
        """The file that SAVE writes now."""
        self.client().save()
        return (self.folder / "dump.rdb").read_bytes()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(10)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """One for all; tests empty it before use."""
    with tempfile.TemporaryDirectory(prefix="jobsleuth-") as folder:
        server = RedisServer(Path(folder))
        yield server
        server.stop()
