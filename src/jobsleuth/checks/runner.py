"""Runs checks over a case: each one's SQL becomes rows of `findings`, and each gets its row in `checks`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from jobsleuth import safetext
from jobsleuth.case import Case, conform
from jobsleuth.checks.base import Check
from jobsleuth.checks.catalogue import all_checks
from jobsleuth.errors import UsageError

if TYPE_CHECKING:
    import duckdb

_VALUE_CHARACTERS = 120
"""Longest value shown in a message; `details` has it whole."""
_PLACE = ("dialect", "namespace", "queue", "job_id", "key", "evidence", "db")
_VERDICT = ("severity", "certainty")
_ORDER = ("evidence", "db", "namespace", "queue", "job_id", "key", "dialect", "severity", "details")
_NO_TIME = "the evidence does not say when it was taken: give the time with --as-of"

MACROS = (
    # Milliseconds as words, two units at most: `40 ms`, `12 s`, `3 min 20 s`, `5 h 02 min`, `3 d 4 h`.
    """
    CREATE TEMP MACRO duration_text(ms) AS CASE
        WHEN ms < 1000 THEN (ms)::BIGINT || ' ms'
        WHEN ms < 60000 THEN (ms // 1000)::BIGINT || ' s'
        WHEN ms < 3600000 THEN (ms // 60000)::BIGINT || ' min ' || ((ms // 1000) % 60)::BIGINT || ' s'
        WHEN ms < 86400000 THEN (ms // 3600000)::BIGINT || ' h ' || ((ms // 60000) % 60)::BIGINT || ' min'
        ELSE (ms // 86400000)::BIGINT || ' d ' || ((ms // 3600000) % 24)::BIGINT || ' h'
    END
    """,
    # A count with its noun: `1 job`, `1,234 jobs`.
    """
    CREATE TEMP MACRO count_text(n, noun) AS format('{:,} ', n::BIGINT) || noun || CASE WHEN n = 1 THEN '' ELSE 's' END
    """,
)
"""SQL macros that the checks may use besides DuckDB's own functions."""


@dataclass(frozen=True)
class Policy:
    """How strictly to judge.

    Attributes:
        parameters: thresholds by name, instead of the checks' defaults, e.g. `{"overdue_after_ms": 60_000}`.
        off: ids of checks that are not run.
    """

    parameters: Mapping[str, int] = field(default_factory=dict)
    off: frozenset[str] = frozenset()


@dataclass(frozen=True)
class CheckRun:
    """The outcome: the case tables `findings` (by check id, evidence, database, queue, job) and `checks` (by id)."""

    findings: pa.Table
    checks: pa.Table


def run_checks(case: Case, policy: Policy | None = None, checks: Sequence[type[Check]] | None = None) -> CheckRun:
    """Judges a case; writes nothing into it. Same case, same policy: same tables.

    A check that lacks a table, a column or the snapshot's time, or whose SQL fails, is `could_not_run` with the reason.

    Args:
        case: the case, or the preview of one.
        policy: thresholds and switched-off checks.
        checks: those to run; default: all.

    Raises:
        UsageError: the policy names a parameter or a check that does not exist.
        CaseError: the case cannot be read.
    """
    chosen = sorted(checks if checks is not None else all_checks(), key=lambda c: c.id)
    policy = policy or Policy()
    _require_known(policy, chosen)
    findings: list[pa.Table] = []
    rows = []
    with case.connect() as connection:
        for macro in MACROS:
            connection.execute(macro)
        bench = _Bench(connection)
        for check in chosen:
            outcome: tuple[str, str | None, pa.Table | None]
            if check.id in policy.off:
                outcome = "off", "switched off by the policy", None
            else:
                outcome = bench.run(check, policy)
            status, reason, found = outcome
            if found is not None and found.num_rows:
                findings.append(found)
            rows.append(
                {
                    "check_id": check.id,
                    "name": check.name,
                    "title": check.title,
                    "severity": check.severity,
                    "status": status,
                    "reason": reason,
                    "findings": found.num_rows if found is not None else 0,
                    "texts": list(check.texts().items()),
                }
            )
    empty = conform("findings", pa.table({}))
    return CheckRun(
        findings=pa.concat_tables(findings) if findings else empty,
        checks=_checks_table(rows),
    )


def _require_known(policy: Policy, checks: Sequence[type[Check]]) -> None:
    known = {name for check in checks for name in check.parameters}
    for name in sorted(set(policy.parameters) - known):
        raise UsageError(
            f"no check has a parameter {safetext.terminal(name, 60)}", hint=f"there are: {', '.join(sorted(known))}"
        )
    for name in sorted(policy.off - {check.id for check in checks}):
        raise UsageError(f"there is no check {safetext.terminal(name, 40)}", hint="jobsleuth explain lists them all")


def _checks_table(rows: list[dict[str, Any]]) -> pa.Table:
    names = ("check_id", "name", "title", "severity", "status", "reason")
    columns: dict[str, Any] = {name: pa.array([row[name] for row in rows], pa.string()) for name in names}
    columns["findings"] = pa.array([row["findings"] for row in rows], pa.int64())
    columns["texts"] = pa.array([row["texts"] for row in rows], pa.map_(pa.string(), pa.string()))
    return conform("checks", pa.table(columns))


class _Bench:
    """The case on the bench: one connection, what its tables have, which evidence has a time."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._columns: dict[str, set[str]] = {}
        for table, column in connection.execute(
            "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal"
        ).fetchall():
            self._columns.setdefault(table, set()).add(column)
        evidence = connection.execute("SELECT evidence, as_of_ms IS NOT NULL FROM evidence ORDER BY 1").fetchall()
        self._timed = [number for number, timed in evidence if timed]
        self._untimed = [number for number, timed in evidence if not timed]

    def run(self, check: type[Check], policy: Policy) -> tuple[str, str | None, pa.Table | None]:
        """(status, reason, findings) of one check."""
        import duckdb

        lack = self._lack(check)
        if lack is not None:
            return "could_not_run", lack, None
        reason = None
        if check.needs_time and self._untimed:
            if not self._timed:
                return "could_not_run", _NO_TIME, None
            reason = f"left out evidence {', '.join(map(str, self._untimed))}: {_NO_TIME}"
        parameters = {name: policy.parameters.get(name, default) for name, default in check.parameters.items()}
        try:
            return "ran", reason, self._findings(check, parameters)
        except (duckdb.Error, pa.ArrowException) as error:
            text = " ".join(str(error).split())
            return "could_not_run", f"its query failed: {safetext.terminal(text, 300)}", None

    def _lack(self, check: type[Check]) -> str | None:
        for table, columns in check.needs.items():
            have = self._columns.get(table)
            if have is None:
                return f"the case has no table {table}"
            missing = [c for c in columns if c not in have]
            if missing:
                return f"the case's table {table} has no column {', '.join(missing)}"
        return None

    def _findings(self, check: type[Check], parameters: dict[str, int]) -> pa.Table:
        described = self._connection.execute(f"DESCRIBE {check.sql}", parameters).fetchall()
        shown = list(dict.fromkeys(re.findall(r"\{(\w+)\}", check.message)))
        query = _wrapped(check, [str(row[0]) for row in described], shown)
        relation = self._connection.sql(query, params=parameters)
        reader = pa.RecordBatchReader.from_stream(relation)
        found = [_batch(check, batch, shown) for batch in reader if batch.num_rows]
        return pa.concat_tables(found) if found else conform("findings", pa.table({}))


def _wrapped(check: type[Check], columns: list[str], shown: list[str]) -> str:
    """The check's SQL with certainty, details and order around it; `_m0`, `_m1`, … are the message's values as text."""
    unknown = [name for name in shown if name not in columns]
    if unknown:
        raise pa.ArrowInvalid(f"its message names {unknown[0]}, which its query does not return")
    picked = [f'found."{c}"' if c in columns else f'NULL AS "{c}"' for c in _PLACE]
    severity = f"'{check.severity}'"
    if "severity" in columns:
        severity = f"coalesce(found.severity, {severity})"
    certainty = "coalesce(found.certainty, 'certain')" if "certainty" in columns else "'certain'"
    if check.moving:
        whole = "(e.atomic AND e.fault IS NULL AND e.checksum IS DISTINCT FROM 'mismatch')"
        certainty = f"CASE WHEN {whole} IS NOT FALSE THEN {certainty} ELSE 'possible' END"
    facts = [c for c in columns if c not in _PLACE and c not in _VERDICT and not c.startswith("_")]
    struct = ", ".join(f"'{c}': found.\"{c}\"" for c in facts)
    details = f"to_json({{{struct}}})::VARCHAR" if facts else "'{}'"
    values = "".join(f', found."{c}"::VARCHAR AS _m{i}' for i, c in enumerate(shown))
    timed = "WHERE e.as_of_ms IS NOT NULL" if check.needs_time else ""
    evidence = 'found."evidence"' if "evidence" in columns else "NULL"
    order = ", ".join(f'made."{c}" NULLS FIRST' for c in _ORDER)
    return f"""
        SELECT * FROM (
            SELECT {", ".join(picked)}, {severity} AS severity, {certainty} AS certainty, {details} AS details{values}
            FROM ({check.sql}) AS found
            LEFT JOIN evidence AS e ON e.evidence = {evidence}
            {timed}
        ) AS made
        ORDER BY {order}
    """


def _batch(check: type[Check], batch: pa.RecordBatch, shown: list[str]) -> pa.Table:
    table = pa.Table.from_batches([batch])
    columns: dict[str, Any] = {name: table.column(name) for name in (*_PLACE, *_VERDICT, "details")}
    rows = table.num_rows
    values = {name: _shown(table.column(f"_m{i}").combine_chunks()) for i, name in enumerate(shown)}
    pieces: list[Any] = []
    for index, piece in enumerate(re.split(r"\{(\w+)\}", check.message)):
        pieces.append(values[piece] if index % 2 else pa.scalar(piece, pa.string()))
    message = pc.binary_join_element_wise(*pieces, pa.scalar("", pa.string()))
    columns["message"] = message if isinstance(message, pa.Array) else pa.repeat(message, rows)
    columns["check_id"] = pa.repeat(pa.scalar(check.id), rows)
    columns["help_url"] = pa.repeat(pa.scalar(check.help_url()), rows)
    return conform("findings", pa.table(columns))


def _shown(values: Any) -> Any:
    """Values as a message shows them: hostile characters escaped, long ones cut, missing ones called unknown."""
    filled = pc.fill_null(values.cast(pa.string()), "unknown")
    harmful = pc.invert(pc.match_substring_regex(filled, rf"\A[ -~]{{0,{_VALUE_CHARACTERS}}}\z"))
    if not pc.any(harmful).as_py():
        return filled
    texts = pc.filter(filled, harmful).to_pylist()
    safe = pa.array([safetext.terminal(text, _VALUE_CHARACTERS) for text in texts], pa.string())
    return pc.replace_with_mask(filled, harmful, safe)
