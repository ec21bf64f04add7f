"""Real dumps of BullMQ, read once each, with the library's and the server's own answers beside them."""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from jobsleuth.case import conform
from jobsleuth.case.schema import BY_NAME as TABLES
from jobsleuth.dialects import Options
from jobsleuth.dialects.bullmq import DIALECT
from jobsleuth.keyspace import Claims
from jobsleuth.sources.rdb import RdbKeyspace

FIXTURES = Path(__file__).parents[3] / "fixtures" / "bullmq"
NAMES = sorted(p.parent.name for p in FIXTURES.glob("*/evidence.rdb"))
assert NAMES, f"no dumps in {FIXTURES}: make them with fixtures/make/bullmq/make.sh"


def text(value: Any) -> str:
    """A byte string of the answers as a case shows it."""
    return raw_bytes(value).decode("utf-8", "backslashreplace")


def raw_bytes(value: Any) -> bytes:
    return base64.b64decode(value["b64"]) if isinstance(value, dict) else value.encode()


@dataclass
class Evidence:
    """One dump read by the dialect, and the answers about it."""

    folder: Path
    keyspace: RdbKeyspace
    claims: Claims
    tables: dict[str, pa.Table]
    _rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Rows of a case table as dicts; times as Unix ms."""
        if table not in self._rows:
            columns = {}
            data = self.tables[table]
            for name in data.column_names:
                column = data.column(name)
                if pa.types.is_timestamp(column.type):
                    column = column.cast(pa.int64())
                columns[name] = column.to_pylist()
            self._rows[table] = [
                dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
            ]
        return self._rows[table]

    @cached_property
    def library(self) -> dict[str, Any]:
        return json.loads((self.folder / "expect" / "library.json").read_text())

    @cached_property
    def raw(self) -> list[dict[str, Any]]:
        return json.loads((self.folder / "expect" / "raw.json").read_text())["keys"]

    @cached_property
    def raw_values(self) -> dict[tuple[int, str], dict[str, Any]]:
        """(db, key) → the server's reply."""
        return {(k["db"], text(k["key"])): k for k in self.raw}

    @cached_property
    def jobs(self) -> dict[tuple[int, str, str, str], dict[str, Any]]:
        """(db, namespace, queue, id) → row of `jobs`."""
        out = {}
        for row in self.rows("jobs"):
            place = (row["db"], row["namespace"], row["queue"], row["job_id"])
            assert place not in out, f"two rows for {place}"
            out[place] = row
        return out

    def role(self, key: str, db: int = 0) -> str | None:
        """Role that the key got."""
        names = self.keyspace.keys.column("key").to_pylist()
        dbs = self.keyspace.keys.column("db").to_pylist()
        code = int(self.claims.role[list(zip(dbs, names, strict=True)).index((db, key.encode()))])
        return None if code < 0 else self.claims.roles[code]


def read(path: Path, options: Options | None = None, free: Any = None) -> Evidence:
    """Claims and tables of one RDB file; `free` says of a key's name whether it may be claimed."""
    options = options or Options()
    keyspace = RdbKeyspace.open(path)
    names = keyspace.keys.column("key").to_pylist()
    allowed = np.array([free is None or free(name) for name in names], np.bool_)
    claims = DIALECT.claim(keyspace, allowed, options)
    parts: dict[str, list[pa.Table]] = {}
    for name, table in DIALECT.tables(keyspace, claims, options):
        parts.setdefault(name, []).append(conform(name, table))
    tables = {}
    for name in ("jobs", "membership", "queues", "workers", "schedules", "relations", "events", "logs"):
        tables[name] = pa.concat_tables(parts.get(name) or [TABLES[name].schema.empty_table()])
    return Evidence(path.parent, keyspace, claims, tables)


@cache
def _fixture(name: str) -> Evidence:
    return read(FIXTURES / name / "evidence.rdb")


@pytest.fixture(params=NAMES)
def evidence(request: pytest.FixtureRequest) -> Evidence:
    """Each committed dump in turn."""
    return _fixture(request.param)


@pytest.fixture
def fixture() -> Any:
    """A committed dump by name."""
    return _fixture


@pytest.fixture
def reread() -> Any:
    """A committed dump by name, read afresh."""
    return lambda name: read(FIXTURES / name / "evidence.rdb")


@dataclass
class Writer:
    """Writes small RDB files (version 9, plain encodings, no checksum) for cases that no library would make."""

    path: Path
    now_ms: int = 1_700_000_000_000
    _out: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self._out += b"REDIS0009" + b"\xfa" + _str(b"ctime") + _str(str(self.now_ms // 1000).encode())

    def db(self, number: int) -> None:
        """The keys that follow are of this database."""
        self._out += b"\xfe" + _len(number)

    def put(self, key: bytes, value: Any, expire_at: int | None = None) -> None:
        """bytes: string, list: list, set: set, dict of floats: zset, dict of bytes: hash."""
        if expire_at is not None:
            self._out += b"\xfc" + struct.pack("<q", expire_at)
        name = _str(key)
        if isinstance(value, bytes):
            self._out += b"\x00" + name + _str(value)
        elif isinstance(value, list | set):
            kind = b"\x01" if isinstance(value, list) else b"\x02"
            items = value if isinstance(value, list) else sorted(value)
            self._out += kind + name + _len(len(items)) + b"".join(map(_str, items))
        elif all(isinstance(v, float) for v in value.values()):
            self.put_zset(key, sorted(value.items(), key=lambda p: (p[1], p[0])))
        else:
            self.put_hash(key, list(value.items()))

    def put_zset(self, key: bytes, pairs: list[tuple[bytes, float]]) -> None:
        """A zset as given, members repeated and out of order as may be."""
        self._out += b"\x05" + _str(key) + _len(len(pairs))
        self._out += b"".join(_str(m) + struct.pack("<d", s) for m, s in pairs)

    def put_hash(self, key: bytes, pairs: list[tuple[bytes, bytes]]) -> None:
        """A hash as given, fields repeated as may be."""
        self._out += b"\x04" + _str(key) + _len(len(pairs)) + b"".join(_str(f) + _str(v) for f, v in pairs)

    def queue(self, base: bytes, version: bytes | None = None) -> None:
        """What a Queue object leaves behind."""
        meta = {b"opts.maxLenEvents": b"10000"}
        self.put(base + b":meta", meta | ({b"version": version} if version else {}))

    def job(self, key: bytes, expire_at: int | None = None, **fields: bytes) -> None:
        """A whole job's hash."""
        whole = {"name": b"n", "data": b"{}", "opts": b'{"attempts":0}', "timestamp": b"1699999990000"}
        whole |= {"delay": b"0", "priority": b"0"}
        self.put(key, {f.encode(): v for f, v in (whole | fields).items()}, expire_at)

    def read(self, options: Options | None = None, free: Any = None) -> Evidence:
        """What the dialect says of the file."""
        self.path.write_bytes(bytes(self._out) + b"\xff" + bytes(8))
        return read(self.path, options, free)


def _len(number: int) -> bytes:
    return b"\x80" + struct.pack(">I", number)


def _str(data: bytes) -> bytes:
    return _len(len(data)) + data


@pytest.fixture
def rdb(tmp_path: Path) -> Writer:
    """A file to write keys into."""
    return Writer(tmp_path / "evidence.rdb")
