"""Cases made of rows: what the tests of the checks and of the runner build their case folders with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from jobsleuth.case import TABLES, Case, CaseWriter, EvidenceInfo, EvidenceWarning, Manifest

T = 1_700_000_000_000
_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SCHEMAS = {table.name: table.schema for table in TABLES}
NAMESPACES = {"bullmq": "bull", "asynq": "asynq", "streams": "orders", "lists": "queue", "layouts": "layouts"}
"""Dialect → namespace of rows that do not say."""


def moment(text: str | int) -> int:
    """`T-30s` and the like as Unix ms."""
    if isinstance(text, int):
        return text
    found = re.fullmatch(r"T(?:([+-]\d+)(ms|s|m|h|d))?", text)
    assert found, f"no time: {text}"
    return T + int(found[1] or 0) * _UNITS[found[2] or "ms"]


def evidence(number: int = 0, **facts: Any) -> EvidenceInfo:
    """An evidence entry; `as_of_ms` is T unless given."""
    warnings = [EvidenceWarning(**w) for w in facts.pop("warnings", [])]
    given: dict[str, Any] = {
        "path": "dump.rdb",
        "sha256": "0" * 64,
        "bytes": 100,
        "format": "rdb",
        "as_of_ms": T,
        "checksum": {"status": "ok"},
        **facts,
    }
    return EvidenceInfo(number=number, warnings=warnings, **given)


def rows_of(table: str, rows: Sequence[Mapping[str, Any]], dialect: str = "bullmq") -> pa.Table:
    """Rows with the defaults filled in, in the table's own types."""
    schema = _SCHEMAS[table]
    full = []
    for row in rows:
        own = str(row.get("dialect", dialect))
        defaults = {
            "dialect": own,
            "namespace": NAMESPACES.get(own, own),
            "queue": "q",
            "source_namespace": NAMESPACES.get(own, own),
            "source_queue": row.get("queue", "q"),
            "target_namespace": NAMESPACES.get(own, own),
            "target_queue": row.get("queue", "q"),
            "evidence": 0,
            "db": 0,
        }
        filled = {**{k: v for k, v in defaults.items() if k in schema.names}, **row}
        full.append(
            {name: _value(schema.field(name).type, value) for name, value in filled.items() if name in schema.names}
        )
        unknown = set(row) - set(schema.names) - {"queue"}
        assert not unknown, f"{table} has no column {unknown}"
    return pa.Table.from_pylist(full, schema=pa.schema([schema.field(n) for n in schema.names]))


def _value(kind: pa.DataType, value: Any) -> Any:
    if value is False and not pa.types.is_boolean(kind):
        return None  # TOML has no null
    if pa.types.is_timestamp(kind) and value is not None:
        return moment(value)
    if pa.types.is_map(kind) and value is not None:
        item = kind.item_type
        return [(k, _value(item, v)) for k, v in value.items()]
    if pa.types.is_binary(kind) and isinstance(value, str):
        return value.encode("latin-1")
    return value


def build(
    out: Path, tables: Mapping[str, pa.Table], infos: Sequence[EvidenceInfo] = (), version: str = "0.1.0"
) -> Case:
    """A finished case folder with these tables."""
    with CaseWriter(out) as writer:
        for name, table in tables.items():
            writer.append(name, table)
        return writer.finish(Manifest(version=version, evidence=list(infos) or [evidence()]))
