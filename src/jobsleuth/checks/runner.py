"""Runs checks over a case: each one's SQL becomes rows of `findings`, and each gets its row in `checks`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from jobsleuth import safetext
from jobsleuth.case import TABLES, Case, conform, readable
from jobsleuth.checks.answers import answer
from jobsleuth.checks.base import SEVERITIES, Check
from jobsleuth.checks.catalogue import all_checks
from jobsleuth.checks.grouping import causes_table, with_causes
from jobsleuth.checks.macros import MACROS
from jobsleuth.checks.policy import Policy
from jobsleuth.checks.shown import LONGEST_SENTENCE, LONGEST_VALUE, as_read, as_stored, harmless, sound_json
from jobsleuth.errors import UsageError
from jobsleuth.memory import give_back

if TYPE_CHECKING:
    import duckdb

_PLACE = ("dialect", "namespace", "queue", "job_id", "key", "evidence", "db")
_VERDICT = {"severity": SEVERITIES, "certainty": ("certain", "possible")}
_ANSWERS = {
    "basis": "VARCHAR",
    "since_from": "TIMESTAMPTZ",
    "since_to": "TIMESTAMPTZ",
    "since_why": "VARCHAR",
    "since_basis": "VARCHAR",
    "held_by": "VARCHAR",
    "held_by_basis": "VARCHAR",
    "heals": "VARCHAR",
    "heals_at": "TIMESTAMPTZ",
    "heals_basis": "VARCHAR",
    "retry": "VARCHAR",
    "retry_why": "VARCHAR",
    "retry_basis": "VARCHAR",
}
_SENTENCES = ("since_why", "held_by", "heals", "retry_why")
_ORDER = ("evidence", "db", "namespace", "queue", "job_id", "key", "dialect", "severity", "details")
_LANES = 2
_EVIDENT = {table.name for table in TABLES} - {"checks", "causes", "findings"}
"""Tables that are made of evidence, not of judgement."""
_NO_TIME = "the evidence does not say when it was taken: give the time with --as-of"

_Outcome = tuple[str, str | None, pa.Table | None]
"""Status, reason and findings of a check."""


@dataclass(frozen=True)
class CheckRun:
    """The outcome, as the tables of a case.

    A check that could not run, your own included, raises nothing: its row in `checks` has the `status` `could_not_run`
    and the `reason`. No findings means clean only where `checks` says that all ran.
    """

    findings: pa.Table
    """What does not add up, by check id, evidence, database, queue and job."""
    checks: pa.Table
    """Every check by id: its `status` (`ran`, `off`, `could_not_run`), the `reason`, how many `findings` it made."""
    causes: pa.Table
    """What explains several findings at once, by key."""
    accepted: int = 0
    """Findings left out because the policy accepts them."""
    lapsed: int = 0
    """Findings reported although the policy accepted them once: their time is over, or they got worse."""


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
    odd_ids = case.has_odd_ids
    with case.connect(ids_apart=odd_ids) as connection:
        for macro in MACROS:
            connection.execute(macro)
        bench = _Bench(connection, odd_ids)
        for check, (status, reason, found) in zip(chosen, bench.run_all(chosen, policy), strict=True):
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
                    "impact": check.impact,
                    "versions": check.versions,
                    "texts": list(check.texts().items()),
                }
            )
        give_back()  # what the queries kept: the answers may need as much
        made = pa.concat_tables(findings) if findings else conform("findings", pa.table({}))
        made = _with_answers(connection, made, bench.columns, odd_ids)
        # Before known findings are left out: what is known may still explain what is new.
        made, waiting = with_causes(connection, made, bench.columns, chosen)
    if odd_ids:
        made = as_stored(made)
        waiting = {readable(cause): parents for cause, parents in waiting.items()}
    kept, accepted, lapsed = _unaccepted(made, policy, case)
    return CheckRun(kept, _checks_table(rows, kept), causes_table(kept, waiting), accepted, lapsed)


def _with_answers(
    connection: duckdb.DuckDBPyConnection, findings: pa.Table, columns: Mapping[str, set[str]], odd_ids: bool
) -> pa.Table:
    if not findings.num_rows:
        return findings
    answered = answer(connection, findings, columns)
    for name in _SENTENCES:
        at = answered.schema.get_field_index(name)
        sentences = as_read(answered.column(at)) if odd_ids else answered.column(at)
        answered = answered.set_column(at, answered.field(at), harmless(sentences, LONGEST_SENTENCE))
    return answered


def _unaccepted(findings: pa.Table, policy: Policy, case: Case) -> tuple[pa.Table, int, int]:
    """(findings to report, how many are accepted, how many were accepted once)."""
    if not policy.accepted or not findings.num_rows:
        return findings, 0, 0
    as_of = {info.number: info.as_of_ms for info in case.manifest.evidence}
    known = pc.is_in(findings.column("fingerprint"), value_set=pa.array(sorted(policy.accepted), pa.string()))
    hidden = known.to_pylist()
    lapsed = 0
    prints = findings.column("fingerprint").to_pylist()
    severities = findings.column("severity").to_pylist()
    numbers = findings.column("evidence").to_pylist()
    latest = max((ms for ms in as_of.values() if ms is not None), default=None)
    for row in [n for n, is_known in enumerate(hidden) if is_known]:
        when = as_of.get(numbers[row]) if numbers[row] is not None else latest
        known_once = policy.accepted[prints[row]]
        hidden[row] = known_once.holds_at(when) and known_once.covers(severities[row])
        lapsed += not hidden[row]
    kept = findings.filter(pa.array([not h for h in hidden], pa.bool_()))
    return kept, findings.num_rows - kept.num_rows, lapsed


def _require_known(policy: Policy, checks: Sequence[type[Check]]) -> None:
    parameters = {name for check in checks for name in check.parameters}
    ids = {check.id for check in all_checks()} | {check.id for check in checks}
    rules = policy.queues
    for name in sorted({*policy.parameters, *(n for r in rules for n in r.parameters)} - parameters):
        raise UsageError(
            f"no check has a parameter {safetext.terminal(name, 60)}",
            hint=f"there are: {', '.join(sorted(parameters))}",
        )
    named = {*policy.off, *policy.on, *policy.severities, *(n for r in rules for n in (*r.off, *r.severities))}
    for name in sorted(named - ids):
        raise UsageError(f"there is no check {safetext.terminal(name, 40)}", hint="jobsleuth explain lists them all")


def _checks_table(rows: list[dict[str, Any]], findings: pa.Table) -> pa.Table:
    names = ("check_id", "name", "title", "severity", "status", "reason", "impact", "versions")
    columns: dict[str, Any] = {name: pa.array([row[name] for row in rows], pa.string()) for name in names}
    counted = pc.value_counts(findings.column("check_id").cast(pa.string())).to_pylist()
    made = {row["values"]: row["counts"] for row in counted}
    columns["findings"] = pa.array([made.get(row["check_id"], 0) for row in rows], pa.int64())
    columns["texts"] = pa.array([row["texts"] for row in rows], pa.map_(pa.string(), pa.string()))
    return conform("checks", pa.table(columns))


class _Bench:
    """The case on the bench: one connection, what its tables have, which evidence has a time."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, odd_ids: bool) -> None:
        self._connection = connection
        self._odd_ids = odd_ids
        self._lock = Lock()
        self.columns: dict[str, set[str]] = {}
        for table, column in connection.execute(
            # Commented are the columns that the case is too old to have: null in every row, which judges nothing.
            "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal AND comment IS NULL"
        ).fetchall():
            self.columns.setdefault(table, set()).add(column)
        evidence = connection.execute("SELECT evidence, as_of_ms IS NOT NULL FROM evidence ORDER BY 1").fetchall()
        tables = [name for name, names in self.columns.items() if "dialect" in names and name in _EVIDENT]
        seen = " UNION ".join(f'SELECT DISTINCT dialect FROM "{name}"' for name in sorted(tables))
        self._dialects = {dialect for (dialect,) in connection.execute(seen).fetchall()} if tables else set()
        self._places: list[tuple[str, str]] = []
        if "queues" in self.columns:
            self._places = connection.execute(
                "SELECT DISTINCT namespace::VARCHAR, queue::VARCHAR FROM queues ORDER BY ALL"
            ).fetchall()
        self._timed = [number for number, timed in evidence if timed]
        self._untimed = [number for number, timed in evidence if not timed]

    def run_all(self, checks: Sequence[type[Check]], policy: Policy) -> list[_Outcome]:
        """Outcome of each check, in their order; two run at a time, since planning keeps one core busy only."""
        waiting = iter(enumerate(checks))
        done: dict[int, _Outcome] = {}

        def lane() -> None:
            with self._connection.cursor() as connection:
                for macro in MACROS:
                    connection.execute(macro)
                while True:
                    with self._lock:
                        at, check = next(waiting, (None, None))
                    if at is None or check is None:
                        return
                    done[at] = self._run(connection, check, policy)

        with ThreadPoolExecutor(_LANES, thread_name_prefix="jobsleuth-check") as pool:
            for running in [pool.submit(lane) for _ in range(_LANES)]:
                running.result()
        return [done[at] for at in range(len(checks))]

    def _run(self, connection: duckdb.DuckDBPyConnection, check: type[Check], policy: Policy) -> _Outcome:
        import duckdb

        if not policy.runs(check):
            wanted = check.opt_in and check.id not in policy.off
            return "off", "runs only if the policy enables it" if wanted else "switched off by the policy", None
        lack = self._lack(check)
        if lack is not None:
            return "could_not_run", lack, None
        reason = None
        if check.needs_time and self._untimed:
            if not self._timed:
                return "could_not_run", _NO_TIME, None
            reason = f"left out evidence {', '.join(map(str, self._untimed))}: {_NO_TIME}"
        if check.dialects and self._dialects.isdisjoint(check.dialects):
            return "ran", reason, None  # of what is not there nothing can be said, and asking costs time
        try:
            return "ran", reason, _settled(check, policy, self._judged(connection, check, policy))
        except (duckdb.Error, pa.ArrowException) as error:
            text = " ".join(str(error).split())
            return "could_not_run", f"its query failed: {safetext.terminal(text, 300)}", None

    def _judged(self, connection: duckdb.DuckDBPyConnection, check: type[Check], policy: Policy) -> pa.Table:
        """What the check says of each queue by the thresholds that are meant for it."""
        usual = policy.thresholds(check, None, None)
        if not policy.differs(check):
            return self._findings(connection, check, usual)
        waiting = [usual, *(policy.thresholds(check, *place) for place in self._places)]
        done: list[dict[str, int]] = []
        kept = []
        while waiting:
            thresholds = waiting.pop(0)
            if thresholds in done:
                continue
            done.append(thresholds)
            part = self._findings(connection, check, thresholds)
            places = _places_of(part)
            meant = {place: policy.thresholds(check, *place) for place in dict.fromkeys(places)}
            waiting += meant.values()  # a finding may be about a queue that the table of queues does not have
            kept.append(part.filter(pa.array([meant[place] == thresholds for place in places], pa.bool_())))
        return pa.concat_tables(kept)

    def _lack(self, check: type[Check]) -> str | None:
        for table, columns in check.needs.items():
            have = self.columns.get(table)
            if have is None:
                return f"the case has no table {table}"
            missing = [c for c in columns if c not in have]
            if missing:
                return f"the case's table {table} has no column {', '.join(missing)}"
        return None

    def _findings(
        self, connection: duckdb.DuckDBPyConnection, check: type[Check], parameters: dict[str, int]
    ) -> pa.Table:
        # Planning a query costs more than most of them take to run, and most find nothing.
        made = connection.execute(f"CREATE OR REPLACE TEMP TABLE _found AS {check.sql}", parameters).fetchone()
        if made is not None and made[0] == 0:
            return conform("findings", pa.table({}))
        described = connection.execute("DESCRIBE _found").fetchall()
        shown = list(dict.fromkeys(re.findall(r"\{(\w+)\}", check.message)))
        query = _wrapped(check, [str(row[0]) for row in described], shown)
        reader = pa.RecordBatchReader.from_stream(connection.sql(query))
        found = [_batch(check, batch, shown, self._odd_ids) for batch in reader if batch.num_rows]
        return pa.concat_tables(found) if found else conform("findings", pa.table({}))


def _places_of(findings: pa.Table) -> list[tuple[Any, Any]]:
    return list(zip(*(findings.column(c).to_pylist() for c in ("namespace", "queue")), strict=True))


def _settled(check: type[Check], policy: Policy, findings: pa.Table) -> pa.Table:
    """The findings less those about queues for which the check is off, as severe as the policy wants them."""
    if not policy.queues and check.id not in policy.severities:
        return findings
    places = _places_of(findings)
    silent = {place for place in dict.fromkeys(places) if policy.silent(check.id, *place)}
    findings = findings.filter(pa.array([place not in silent for place in places], pa.bool_()))
    places = [place for place in places if place not in silent]
    wanted = {place: policy.severity_of(check.id, *place) for place in dict.fromkeys(places)}
    given = pa.array([wanted[place] for place in places], pa.string())
    severity = pc.coalesce(given, findings.column("severity").cast(pa.string()))
    return conform("findings", findings.set_column(1, "severity", severity))


def _wrapped(check: type[Check], columns: list[str], shown: list[str]) -> str:
    """What the check found, with certainty, details and order; `_m0`, `_m1`, … are the message's values as text."""
    unknown = [name for name in shown if name not in columns]
    if unknown:
        raise pa.ArrowInvalid(f"its message names {unknown[0]}, which its query does not return")
    picked = [f'found."{c}"' if c in columns else f'NULL AS "{c}"' for c in _PLACE]
    severity = f"'{check.severity}'"
    if "severity" in columns:
        severity = f"coalesce(found.severity, {severity})"
    certainty = "coalesce(found.certainty, 'certain')" if "certainty" in columns else "'certain'"
    doubts = []
    if check.moving:
        doubts.append("e.atomic IS FALSE OR e.checksum IS NOT DISTINCT FROM 'mismatch'")
    if check.rests_on_absence():
        doubts.append("e.fault IS NOT NULL")
    if not check.id.startswith("EV"):
        # What the export could not hold (an expiry, a type), or stood behind damage within a value, is missing in the
        # tables, whatever a check looks at.
        lost = "starts_with(w.kind, 'loss_') OR w.kind = 'value_damaged'"
        doubts.append(f"EXISTS (FROM warnings AS w WHERE w.evidence = e.evidence AND ({lost}))")
    if doubts:
        certainty = f"CASE WHEN {' OR '.join(doubts)} THEN 'possible' ELSE {certainty} END"
    told = [f'found."{c}"::{kind} AS "{c}"' if c in columns else f"NULL::{kind} AS {c}" for c, kind in _ANSWERS.items()]
    told.append("found._same::VARCHAR AS fingerprint" if "_same" in columns else "NULL::VARCHAR AS fingerprint")
    own = (*_PLACE, *_VERDICT, *_ANSWERS)
    facts = [c for c in columns if c not in own and not c.startswith("_")]
    struct = ", ".join(f"'{c}': found.\"{c}\"" for c in facts)
    details = f"to_json({{{struct}}})::VARCHAR" if facts else "'{}'"
    values = "".join(f', found."{c}"::VARCHAR AS _m{i}' for i, c in enumerate(shown))
    timed = "WHERE e.as_of_ms IS NOT NULL" if check.needs_time else ""
    evidence = 'found."evidence"' if "evidence" in columns else "NULL"
    order = ", ".join(f'made."{c}" NULLS FIRST' for c in _ORDER)
    return f"""
        SELECT * FROM (
            SELECT {", ".join(picked)}, {severity} AS severity, {certainty} AS certainty, {details} AS details,
                {", ".join(told)}{values}
            FROM _found AS found
            LEFT JOIN evidence AS e ON e.evidence = {evidence}
            {timed}
        ) AS made
        ORDER BY {order}
    """


def _batch(check: type[Check], batch: pa.RecordBatch, shown: list[str], odd_ids: bool) -> pa.Table:
    table = pa.Table.from_batches([batch])
    columns: dict[str, Any] = {
        name: table.column(name) for name in (*_PLACE, *_VERDICT, "details", *_ANSWERS, "fingerprint")
    }
    for name, words in _VERDICT.items():
        for word in pc.unique(columns[name].cast(pa.string())).to_pylist():
            if word not in words:
                raise pa.ArrowInvalid(f"it gives the {name} {word}, which is none of {', '.join(words)}")
    for name, otherwise in (("basis", check.basis), ("heals", check.heals), ("heals_basis", "derived")):
        columns[name] = pc.fill_null(columns[name], otherwise)
    columns["details"] = sound_json(columns["details"])
    rows = table.num_rows
    texts = {name: table.column(f"_m{i}") for i, name in enumerate(shown)}
    if odd_ids:
        texts = {name: as_read(column) for name, column in texts.items()}
    values = {name: pc.fill_null(harmless(column, LONGEST_VALUE), "unknown") for name, column in texts.items()}
    pieces: list[Any] = []
    for index, piece in enumerate(re.split(r"\{(\w+)\}", check.message)):
        pieces.append(values[piece] if index % 2 else pa.scalar(piece, pa.string()))
    message = pc.binary_join_element_wise(*pieces, pa.scalar("", pa.string()))
    columns["message"] = message if isinstance(message, pa.Array) else pa.repeat(message, rows)
    columns["check_id"] = pa.repeat(pa.scalar(check.id), rows)
    columns["help_url"] = pa.repeat(pa.scalar(check.help_url() or None, pa.string()), rows)
    return conform("findings", pa.table(columns))
