"""Gives findings of one cause one key, by the rules of :mod:`.causes`: SQL over a thin copy of the findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from jobsleuth.case import conform
from jobsleuth.checks.base import Check
from jobsleuth.checks.causes import BY_KIND, EVIDENCE_CUT, RULES, CauseRule

if TYPE_CHECKING:
    import duckdb

_REACH = {
    "evidence": ("evidence",),
    "database": ("evidence", "db", "dialect"),
    "queue": ("evidence", "db", "namespace", "place"),
    "process": ("evidence", "db", "process"),
    "job": ("evidence", "db", "namespace", "subject"),
    "id": ("evidence", "db", "subject"),
}
_SUFFIX = {
    "evidence": "''",
    "database": "''",
    "queue": "':' || a.namespace || '/' || a.place",
    "process": "':' || a.process",
    "job": "':' || min(a.namespace || '/' || a.place)",
    "id": "':' || min(a.place)",
}
_NEEDS = {
    "workers": ("dialect", "namespace", "queue", "kind", "host", "pid", "job_id", "valid", "evidence", "db"),
    "membership": ("namespace", "queue", "structure", "evidence", "db"),
    "relations": (
        "kind", "via", "source_namespace", "source_queue", "source_id", "target_namespace", "target_queue",
        "target_id", "evidence", "db",
    ),
}  # fmt: skip
# `place` and `subject` are the queue and the job that a finding is about in the end: of a parent that waits for a
# paused queue that queue, of a parent whose child is gone the child.
_THIN = """
    CREATE OR REPLACE TEMP TABLE suspects AS
    SELECT nth, check_id::VARCHAR AS check_id, dialect::VARCHAR AS dialect, namespace::VARCHAR AS namespace,
        queue::VARCHAR AS queue, evidence, db, job_id,
        CASE WHEN check_id = 'RL009' THEN details::JSON ->> '$.child_queue' ELSE queue::VARCHAR END AS place,
        CASE
            WHEN check_id = 'RL002' THEN details::JSON ->> '$.children[0]'
            WHEN job_id IS NOT NULL THEN queue::VARCHAR || ':' || job_id
        END AS subject,
        CASE
            WHEN check_id IN ('LV028', 'SC011') THEN
                (details::JSON ->> '$.host') || ':' || (details::JSON ->> '$.pid')
            WHEN check_id IN ('SM002', 'SM003') THEN
                namespace::VARCHAR || '/' || queue::VARCHAR || '/' || (details::JSON ->> '$.worker_name')
            WHEN check_id = 'SM004' THEN
                namespace::VARCHAR || '/' || queue::VARCHAR || '/' || (details::JSON ->> '$.worker_id')
        END AS process,
        CASE WHEN check_id = 'MB002' THEN details::JSON ->> '$.claimed_state' END AS claimed,
        FALSE AS alive, NULL::VARCHAR AS cause
    FROM given_findings
"""
_ALIVE = """
    UPDATE suspects SET alive = TRUE
    FROM (
        SELECT DISTINCT namespace, queue, evidence, db FROM workers
        WHERE valid AND kind IN ('lock', 'worker') AND queue IS NOT NULL
    ) AS w
    WHERE w.evidence = suspects.evidence AND w.db = suspects.db AND w.namespace = suspects.namespace
        AND w.queue = suspects.place
"""
# A dead server names its tasks as long as its own entries are in the file; after that only one that died can have
# held them.
_PROCESS = (
    """
    UPDATE suspects SET process = w.process
    FROM (
        SELECT namespace, queue, job_id, evidence, db, min(host || ':' || pid) AS process FROM workers
        WHERE dialect = 'asynq' AND kind = 'worker' AND valid IS NOT TRUE
        GROUP BY ALL
    ) AS w
    WHERE suspects.process IS NULL AND suspects.dialect = 'asynq' AND w.evidence = suspects.evidence
        AND w.db = suspects.db AND w.namespace = suspects.namespace AND w.queue = suspects.queue
        AND w.job_id = suspects.job_id
    """,
    """
    UPDATE suspects SET process = o.process
    FROM (
        SELECT evidence, db, min(process) AS process FROM suspects WHERE check_id IN ('LV028', 'SC011')
        GROUP BY ALL HAVING count(DISTINCT process) = 1
    ) AS o
    ANTI JOIN (SELECT DISTINCT evidence, db FROM workers WHERE dialect = 'asynq' AND kind = 'server' AND valid) AS s
        USING (evidence, db)
    WHERE suspects.process IS NULL AND suspects.dialect = 'asynq' AND o.evidence = suspects.evidence
        AND o.db = suspects.db
    """,
)
_DELAYED = """
    CREATE OR REPLACE TEMP TABLE delayed AS
    SELECT DISTINCT namespace, queue, evidence, db FROM membership WHERE structure = 'delayed'
"""


_WAITING = """
    SELECT s.cause, count(DISTINCT (r.target_namespace, r.target_queue, r.target_id))
    FROM relations AS r
    JOIN (
        SELECT DISTINCT cause, namespace, queue, job_id, evidence, db
        FROM suspects
        WHERE cause IS NOT NULL AND dialect = 'bullmq' AND job_id IS NOT NULL
    ) AS s
        ON s.namespace = r.source_namespace AND s.queue = r.source_queue AND s.job_id = r.source_id
            AND s.evidence = r.evidence AND s.db = r.db
    WHERE r.kind = 'parent' AND r.via = 'dependencies'
    GROUP BY s.cause
"""


def with_causes(
    connection: duckdb.DuckDBPyConnection,
    findings: pa.Table,
    columns: Mapping[str, set[str]],
    checks: Sequence[type[Check]],
) -> tuple[pa.Table, dict[str, int]]:
    """The findings, in their order, with `cause` filled where one explains findings of several checks; and, by cause,
    how many parents wait for the jobs it is about.

    Args:
        connection: over the case.
        findings: rows of the table `findings`.
        columns: table → columns that the case has; where what the rules read is not there, no cause is given.
        checks: those that were run.
    """
    made = set(pc.unique(findings.column("check_id").cast(pa.string())).to_pylist())
    absent = {check.id for check in checks if check.rests_on_absence()}
    rules = [rule for rule in RULES if made & rule.signs]
    if not rules or not all(set(needed) <= columns.get(table, set()) for table, needed in _NEEDS.items()):
        return findings, {}
    thin = findings.select(["check_id", "dialect", "namespace", "queue", "job_id", "details", "evidence", "db"])
    connection.register("given_findings", thin.append_column("nth", pa.array(range(thin.num_rows), pa.int64())))
    try:
        connection.execute(_THIN)
    finally:
        connection.unregister("given_findings")
    connection.execute(_ALIVE)
    for statement in _PROCESS:
        connection.execute(statement)
    if any("delayed" in rule.condition for rule in rules):
        connection.execute(_DELAYED)
    for rule in rules:
        for statement in _statements(rule, absent if rule is EVIDENCE_CUT else rule.explains):
            connection.execute(statement)
    causes = connection.sql("SELECT cause FROM suspects ORDER BY nth").to_arrow_table().column("cause")
    waiting = dict(connection.execute(_WAITING).fetchall())
    connection.execute("DROP TABLE suspects")
    connection.execute("DROP TABLE IF EXISTS delayed")
    at = findings.schema.get_field_index("cause")
    return conform("findings", findings.set_column(at, "cause", causes.cast(pa.string()))), waiting


def _statements(rule: CauseRule, explains: Iterable[str]) -> Iterable[str]:
    columns = _REACH[rule.reach]
    known = " AND ".join(f"a.{c} IS NOT NULL" for c in columns)
    same = " AND ".join(f"f.{c} = suspects.{c}" for c in columns)
    members = f"suspects.check_id IN {_listed(rule.signs)}"
    if explains:
        members += f" OR suspects.check_id IN {_listed(explains)} AND {rule.explained}"
    if rule.explains_idle:
        members += f" OR suspects.check_id IN {_listed(rule.explains_idle)} AND NOT suspects.alive"
    yield f"""
        UPDATE suspects SET cause = f.cause
        FROM (
            SELECT {", ".join(f"a.{c}" for c in columns)}, '{rule.kind}' || {_SUFFIX[rule.reach]} AS cause
            FROM suspects AS a
            WHERE a.cause IS NULL AND a.check_id IN {_listed(rule.signs)} AND {known} AND {rule.condition}
            GROUP BY {", ".join(f"a.{c}" for c in columns)}
            HAVING count(*) >= {rule.least}
        ) AS f
        WHERE suspects.cause IS NULL AND ({members}) AND {same}
    """
    if not rule.alone:
        # Findings of one check need no other name than the check's.
        whole = columns if rule.reach in ("job", "id") else ("evidence", "cause")
        yield f"""
            UPDATE suspects SET cause = NULL
            FROM (
                SELECT {", ".join(whole)} FROM suspects
                WHERE starts_with(cause, '{rule.kind}:') OR cause = '{rule.kind}'
                GROUP BY ALL HAVING count(DISTINCT check_id) = 1
            ) AS o
            WHERE (starts_with(suspects.cause, '{rule.kind}:') OR suspects.cause = '{rule.kind}')
                AND {" AND ".join(f"o.{c} = suspects.{c}" for c in whole)}
        """


def _listed(ids: Iterable[str]) -> str:
    return "(" + ", ".join(f"'{check_id}'" for check_id in sorted(ids)) + ")"


def causes_table(findings: pa.Table, waiting: Mapping[str, int]) -> pa.Table:
    """The case table `causes`: the causes that the findings name, and what each of them is.

    Args:
        findings: rows of the table `findings`.
        waiting: cause → parents that wait.
    """
    counted = pc.value_counts(findings.column("cause").drop_null()).to_pylist()
    rows: list[dict[str, Any]] = []
    for entry in sorted(counted, key=lambda e: str(e["values"])):
        rule = BY_KIND[str(entry["values"]).partition(":")[0]]
        rows.append(
            {
                "cause": entry["values"],
                "kind": rule.kind,
                "title": rule.title,
                "what_to_do": rule.to_do,
                "basis": rule.basis,
                "findings": entry["counts"],
            }
        )
    names = ("cause", "kind", "title", "what_to_do", "basis")
    columns: dict[str, Any] = {name: pa.array([row[name] for row in rows], pa.string()) for name in names}
    columns["findings"] = pa.array([row["findings"] for row in rows], pa.int64())
    columns["waiting_parents"] = pa.array([waiting.get(row["cause"], 0) for row in rows], pa.int64())
    return conform("causes", pa.table(columns))
