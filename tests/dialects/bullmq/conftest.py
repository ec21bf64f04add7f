"""Real dumps of BullMQ, read once each, with the library's and the server's own answers beside them."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from jobsleuth.case import conform
from jobsleuth.dialects import Options
from jobsleuth.dialects.bullmq import DIALECT
from jobsleuth.keyspace import Claims
from jobsleuth.sources.rdb import RdbKeyspace

FIXTURES = Path(__file__).parents[3] / "fixtures" / "bullmq"
NAMES = sorted(p.parent.name for p in FIXTURES.glob("*/evidence.rdb"))


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


def read(path: Path, options: Options | None = None) -> Evidence:
    """Claims and tables of one RDB file."""
    options = options or Options()
    keyspace = RdbKeyspace.open(path)
    claims = DIALECT.claim(keyspace, np.ones(keyspace.keys.num_rows, np.bool_), options)
    parts: dict[str, list[pa.Table]] = {}
    for name, table in DIALECT.tables(keyspace, claims, options):
        parts.setdefault(name, []).append(conform(name, table))
    empty = ("jobs", "membership", "queues", "workers", "schedules", "relations", "events")
    tables = {
        name: pa.concat_tables(parts.get(name, [])) if name in parts else conform(name, pa.table({})) for name in empty
    }
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
def read_rdb() -> Any:
    """Reads any RDB file."""
    return read
