"""One server and one saved file for the tests of a module."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import RedisServer
from tests.sources.native.served import Dump, answers, fill, saved


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with tempfile.TemporaryDirectory(prefix="jobsleuth-native-") as folder:
        started = RedisServer(Path(folder), "--rdbchecksum", "yes", "--proto-max-bulk-len", "1gb")
        yield started
        started.stop()


@pytest.fixture(scope="module")
def dump(server: RedisServer) -> Dump:
    rng = random.Random(1)
    server.client().flushall()
    for db in (0, 3):
        fill(server.client(db), rng)
    dump = Dump(saved(server, "all.rdb"))
    for db in (0, 3):
        answers(dump, server.client(db), db)
    return dump
