#!/usr/bin/env python3
"""Times all checks over cases of 1, 3 and 10 million jobs, made as tables, without any evidence behind them.

    python benchmarks/checks.py [--jobs 1000000 3000000 10000000] [--each] [--data benchmarks/data]

The tables are BullMQ-shaped: four queues, one record and one place a job, flows, locks, event streams; every thousandth
job has a fault (no record, no place, two places, overdue, active without a lock). Each case is made once and kept in
the data folder. `--each` also runs every check alone, to find what is slow. DuckDB gets two threads; its memory limit
is that of any case. Memory is the peak of the whole process.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa

from jobsleuth.case import CaseWriter, EvidenceInfo, Manifest, conform, open_case

T = 1_772_417_647_000
PIECE = 500_000
QUEUES = ("mails", "orders", "reports", "search")
# The share of each state, in thousandths, and the structure it stands for.
STATES = (
    (550, "completed", "completed", "zset"),
    (630, "failed", "failed", "zset"),
    (830, "waiting", "wait", "list"),
    (940, "delayed", "delayed", "zset"),
    (990, "prioritized", "prioritized", "zset"),
    (1000, "active", "active", "list"),
)
PARENT = ("waiting-children", "waiting-children", "zset")
CHILD = ("waiting", "wait", "list")
"""Every fiftieth job is a parent, and the one after it the child that it waits for."""
FAULTS = ("ghost", "orphan", "twice", "overdue", "unlocked")
"""Each is that of every five-thousandth job."""


def _case(column: int) -> str:
    whens = " ".join(f"WHEN share < {state[0]} THEN '{state[column]}'" for state in STATES)
    return f"CASE WHEN n % 50 = 0 THEN '{PARENT[column - 1]}' WHEN n % 50 = 1 THEN '{CHILD[column - 1]}' {whens} END"


_JOBS = f"""
    CREATE OR REPLACE TEMP TABLE made AS
    SELECT n, 'job-' || n AS job_id, ['{"', '".join(QUEUES)}'][1 + n % {len(QUEUES)}] AS queue,
        planned, {_case(2)} AS structure, {_case(3)} AS kind, fault,
        make_timestamp_ms({T} - CASE WHEN planned = 'active' OR fault = 'unlocked' THEN 9000
            ELSE 86400000 - (n * 7919) % 86000000 END)::TIMESTAMPTZ AS created_at
    FROM (
        SELECT *, {_case(1)} AS planned
        FROM (
            SELECT n, hash(n) % 1000 AS share,
                CASE n % 5000 {" ".join(f"WHEN {7 + 1000 * nth} THEN '{fault}'" for nth, fault in enumerate(FAULTS))}
                    END AS fault
            FROM range($first, $last) AS r(n)
        )
    )
"""
_TABLES = {
    "jobs": """
        SELECT 'bullmq' AS dialect, 'bull' AS namespace, queue, job_id,
            CASE WHEN fault = 'orphan' THEN 'unknown' WHEN fault = 'overdue' THEN 'delayed'
                WHEN fault = 'unlocked' THEN 'active' ELSE planned END AS state,
            fault IS DISTINCT FROM 'ghost' AS has_record,
            CASE WHEN fault IS DISTINCT FROM 'ghost' THEN TRUE END AS record_complete,
            CASE WHEN fault IS DISTINCT FROM 'ghost' THEN 'send' END AS name,
            CASE WHEN fault IS DISTINCT FROM 'ghost' THEN created_at END AS created_at, 40 + n % 900 AS payload_bytes,
            CASE WHEN planned IN ('completed', 'failed', 'active') OR fault = 'unlocked'
                THEN created_at + INTERVAL 1 SECOND END AS started_at,
            CASE WHEN planned IN ('completed', 'failed') AND fault IS NULL THEN created_at + INTERVAL 2 SECOND END
                AS finished_at,
            CASE WHEN planned = 'completed' AND fault IS NULL THEN '{}'::BLOB END AS result,
            CASE WHEN planned = 'failed' AND fault IS NULL THEN 'no route' END AS error,
            CASE WHEN planned = 'failed' THEN 1 ELSE 0 END AS attempts, 3 AS max_attempts,
            CASE WHEN planned = 'prioritized' THEN 5 ELSE 0 END AS priority, 0 AS stalled_count,
            'bull:' || queue || ':' || job_id AS key, 0 AS evidence, 0 AS db
        FROM made
    """,
    "membership": f"""
        SELECT 'bullmq' AS dialect, 'bull' AS namespace, queue, structure, kind, n AS position, job_id,
            CASE structure WHEN 'prioritized' THEN 5 * 4294967296 + n WHEN 'delayed' THEN epoch_ms(due_at) * 4096
                WHEN 'completed' THEN epoch_ms(created_at) + 2000 WHEN 'failed' THEN epoch_ms(created_at) + 2000
                END::DOUBLE AS score,
            due_at, TRUE AS decides_state, 'bull:' || queue || ':' || structure AS key, 0 AS evidence, 0 AS db
        FROM (
            SELECT * REPLACE (CASE fault WHEN 'overdue' THEN 'delayed' WHEN 'unlocked' THEN 'active'
                    ELSE structure END AS structure),
                CASE WHEN fault = 'overdue' THEN make_timestamp_ms({T} - 3600000)
                    WHEN structure = 'delayed' THEN make_timestamp_ms({T} + 3600000)
                    WHEN structure IN ('completed', 'failed') THEN created_at + INTERVAL 2 SECOND
                    END::TIMESTAMPTZ AS due_at
            FROM made
            WHERE fault IS DISTINCT FROM 'orphan'
            UNION ALL
            SELECT * REPLACE ('failed' AS structure), NULL FROM made WHERE fault = 'twice' AND structure <> 'failed'
        )
    """,
    "keys": """
        SELECT 0 AS evidence, 0 AS db, 'bull:' || queue || ':' || job_id AS key, 'hash' AS type, 'listpack' AS encoding,
            FALSE AS expired, n * 400 AS "offset", 400 AS nbytes, 8 AS elements, 'bullmq' AS dialect,
            'bull' AS namespace, queue, 'job' AS role
        FROM made
        WHERE fault IS DISTINCT FROM 'ghost'
        UNION ALL
        SELECT 0, 0, 'bull:' || queue || ':' || job_id || ':lock', 'string', 'raw', FALSE, n * 400 + 399, 1, 1,
            'bullmq', 'bull', queue, 'lock'
        FROM made
        WHERE planned = 'active' AND fault IS NULL
    """,
    "workers": f"""
        SELECT 'bullmq' AS dialect, 'bull' AS namespace, queue, 'lock' AS kind, 'token-' || n % 50 AS worker_id, job_id,
            make_timestamp_ms({T} + 20000)::TIMESTAMPTZ AS valid_until, TRUE AS valid,
            'bull:' || queue || ':' || job_id || ':lock' AS key, 0 AS evidence, 0 AS db
        FROM made
        WHERE planned = 'active' AND fault IS NULL
    """,
    # Each parent waits for the job after it, where that one is still to run.
    "relations": """
        SELECT 'bullmq' AS dialect, 'parent' AS kind, 'dependencies' AS via, 'bull' AS source_namespace,
            c.queue AS source_queue, c.job_id AS source_id, 'bull' AS target_namespace, p.queue AS target_queue,
            p.job_id AS target_id, 'bull:' || p.queue || ':' || p.job_id || ':dependencies' AS key, 0 AS evidence,
            0 AS db
        FROM made AS p
        JOIN made AS c ON c.n = p.n + 1
        WHERE p.planned = 'waiting-children'
    """,
    "events": f"""
        SELECT 'bullmq' AS dialect, 'bull' AS namespace, queue, make_timestamp_ms({T} - 5000)::TIMESTAMPTZ AS "at",
            'waiting' AS event, job_id, n || '-0' AS stream_id, 0 AS evidence, 0 AS db
        FROM made
        WHERE n % 250 = 0
    """,
}


def _queues(jobs: int) -> Iterator[dict[str, object]]:
    for name in QUEUES:
        yield {
            "dialect": "bullmq",
            "namespace": "bull",
            "queue": name,
            "layout": "bullmq 5.x",
            "library_version": "bullmq:5.60.0",
            "paused": False,
            "counts": [("waiting", jobs // 20), ("active", jobs // 400)],
            "oldest_waiting_at": T - 60_000,
            "last_activity_at": T - 100,
            "last_worker_sign_at": T - 100,
            "limits": [],
            "counters": [("id", jobs)],
            "evidence": 0,
            "db": 0,
        }


def make(jobs: int, out: Path) -> None:
    """The case of so many jobs."""
    info = EvidenceInfo(0, "none.rdb", "0" * 64, jobs * 400, "rdb", 12, as_of_ms=T, checksum={"status": "ok"})
    with CaseWriter(out, True) as writer, duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for first in range(0, jobs, PIECE):
            connection.execute(_JOBS, {"first": first, "last": min(jobs, first + PIECE)})
            for table, query in _TABLES.items():
                for batch in connection.sql(query).to_arrow_reader(100_000):
                    writer.append(table, _fitted(table, pa.Table.from_batches([batch])))
        schema = conform("queues", pa.table({})).schema
        rows = list(_queues(jobs))
        writer.append(
            "queues", pa.table({name: pa.array([r[name] for r in rows], schema.field(name).type) for name in rows[0]})
        )
        keys = [
            {"key": f"bull:{queue}:{role}", "type": kind, "role": role, "queue": queue, "namespace": "bull"}
            for queue in QUEUES
            for role, kind in (("meta", "hash"), ("id", "string"), ("stalled-check", "string"), ("events", "stream"))
        ]
        own = {"evidence": 0, "db": 0, "dialect": "bullmq", "expired": False}
        writer.append("keys", _fitted("keys", pa.Table.from_pylist([{**own, **key} for key in keys])))
        writer.finish(Manifest(version="0", evidence=[info]))


def _fitted(table: str, rows: pa.Table) -> pa.Table:
    schema = conform(table, pa.table({})).schema
    return pa.table({name: rows.column(name).cast(schema.field(name).type) for name in rows.column_names})


def judge(case: Path, each: bool) -> dict[str, object]:
    """One process's figures: wall clock and CPU seconds of all checks, findings, peak MB; of each check alone, too."""
    from jobsleuth.checks import all_checks, run_checks

    opened = open_case(case)
    wall, cpu = time.perf_counter(), time.process_time()
    run = run_checks(opened)
    told: dict[str, object] = {
        "wall": round(time.perf_counter() - wall, 2),
        "cpu": round(time.process_time() - cpu, 2),
        "findings": run.findings.num_rows,
        "by_check": dict(Counter(run.findings.column("check_id").to_pylist())),
        "could_not_run": run.checks.column("status").to_pylist().count("could_not_run"),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    if each:
        alone = {}
        for check in all_checks():
            cpu = time.process_time()
            run_checks(opened, checks=[check])
            alone[check.id] = round(time.process_time() - cpu, 2)
        told["each"] = dict(sorted(alone.items(), key=lambda item: -item[1])[:25])
    return told


def main() -> None:
    """Makes what is not there, runs each size in a process of its own, prints a line a size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1_000_000, 3_000_000, 10_000_000])
    parser.add_argument("--data", type=Path, default=Path(__file__).parent / "data")
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--judge", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.judge is not None:
        print(json.dumps(judge(options.judge, options.each)))
        return
    options.data.mkdir(parents=True, exist_ok=True)
    print(f"cores {os.cpu_count()}, load {os.getloadavg()[0]:.1f}")
    for jobs in options.jobs:
        case = options.data / f"checks-{jobs}"
        if not case.exists():
            make(jobs, case)
        command = [sys.executable, __file__, "--judge", str(case), *(["--each"] if options.each else [])]
        made = subprocess.run(command, check=True, capture_output=True, text=True)
        print(f"{jobs:>12,}  {made.stdout.strip()}", flush=True)


if __name__ == "__main__":
    main()
