"""Cases made by hand, so that what a report must say is known without the code that reads evidence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobsleuth.case import Case, CaseWriter, EvidenceInfo, EvidenceWarning, Manifest, conform

NOW = 1_772_417_647_000  # 2026-03-02 02:14:07 UTC
HOSTILE = "\x1b[2J\x1b]0;owned\x07<script>alert(1)</script>|`*_[x](javascript:1)\u202egpj.exe\n::error::=cmd()'\"&%"
"""A name that moves the cursor, sets the title, runs as HTML, as Markdown, as a workflow command, hides its end."""

SEVERITY = {"MB001": "error", "ST001": "warning", "CN001": "info"}


def rows(table: str, *given: dict[str, Any]) -> pa.Table:
    """Rows of a case table from the columns that matter."""
    schema = {c.name: c.type for c in conform(table, pa.table({})).schema}
    names = list(dict.fromkeys(name for row in given for name in row))
    return conform(
        table, pa.table({n: pa.array([row.get(n) for row in given], schema[n]) for n in names if n in schema})
    )


def check(check_id: str, status: str = "ran", reason: str | None = None, findings: int = 0) -> dict[str, Any]:
    return {
        "check_id": check_id,
        "name": f"pattern-{check_id.lower()}",
        "title": f"Title of {check_id}",
        "severity": SEVERITY.get(check_id, "error"),
        "status": status,
        "reason": reason,
        "findings": findings,
        "texts": [("What it finds", f"About {check_id}."), ("What to do next", "Look at the job.")],
    }


def finding(check_id: str, queue: str, job_id: str | None, **more: Any) -> dict[str, Any]:
    return {
        "check_id": check_id,
        "severity": SEVERITY[check_id],
        "certainty": "certain",
        "dialect": "bullmq",
        "namespace": "bull",
        "queue": queue,
        "job_id": job_id,
        "key": f"bull:{queue}:{job_id}",
        "message": f"{job_id} of {queue} does not add up",
        "details": json.dumps({"age_ms": 12}),
        "help_url": f"docs/checks/{check_id}.md",
        "fingerprint": f"of {check_id} {queue} {job_id}",
        "evidence": 0,
        "db": 0,
        **more,
    }


def queue(name: str, counts: dict[str, int], oldest: int | None = None) -> dict[str, Any]:
    return {
        "dialect": "bullmq",
        "namespace": "bull",
        "queue": name,
        "layout": "bullmq 5.x",
        "paused": False,
        "counts": list(counts.items()),
        "oldest_waiting_at": oldest,
        "evidence": 0,
        "db": 0,
    }


def job(in_queue: str, job_id: str, **more: Any) -> dict[str, Any]:
    return {
        "dialect": "bullmq",
        "namespace": "bull",
        "queue": in_queue,
        "job_id": job_id,
        "state": "active",
        "has_record": True,
        "name": "send",
        "key": f"bull:{in_queue}:{job_id}",
        "evidence": 0,
        "db": 0,
        **more,
    }


def build(folder: Path, tables: dict[str, pa.Table], **evidence: Any) -> Case:
    info = EvidenceInfo(
        number=0,
        path=evidence.pop("path", "dump.rdb"),
        sha256="ab" * 32,
        bytes=1_030_000_000,
        format="rdb",
        format_version=12,
        family="redis",
        redis_version="7.4.1",
        as_of_source="ctime",
        checksum={"status": "ok"},
        **{"as_of_ms": NOW, **evidence},
    )
    manifest = Manifest(version="0.1.0", evidence=[info])
    with CaseWriter(folder, False) as writer:
        for name, table in tables.items():
            writer.append(name, table)
        return writer.finish(manifest)


@pytest.fixture(scope="session")
def small_case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Two queues: `emails` with 5 errors of one check and a warning, `reports` without findings; one check silent."""
    return build(
        tmp_path_factory.mktemp("small") / "case",
        {
            "keys": rows(
                "keys",
                {"evidence": 0, "db": 0, "key": "bull:emails:1", "type": "hash", "dialect": "bullmq"},
                {"evidence": 0, "db": 0, "key": "cache:1", "type": "string"},
            ),
            "queues": rows(
                "queues",
                queue("emails", {"wait": 310, "prioritized": 2, "active": 5, "completed": 5000}, NOW - 360_000),
                queue("reports", {"delayed": 41}),
            ),
            "jobs": rows("jobs", *(job("emails", str(n), created_at=NOW - 1000) for n in range(1, 7))),
            "checks": rows(
                "checks",
                check("MB001", findings=5),
                check("ST001", findings=1),
                check("CN001"),
                check("LV001", "could_not_run", "no snapshot time"),
                check("UQ001", "off", "switched off"),
            ),
            "findings": rows(
                "findings",
                finding("ST001", "emails", "6", certainty="possible"),
                *(finding("MB001", "emails", str(n)) for n in (10, 2, 1, 4, 3)),
            ),
        },
    )


@pytest.fixture(scope="session")
def clean_case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """No findings; one check could not run."""
    return build(
        tmp_path_factory.mktemp("clean") / "case",
        {
            "queues": rows("queues", queue("emails", {"wait": 1})),
            "checks": rows("checks", check("MB001"), check("LV001", "could_not_run", "no snapshot time")),
        },
        as_of_ms=None,
    )


@pytest.fixture(scope="session")
def hostile_case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Every name and text that the evidence decides is hostile."""
    return build(
        tmp_path_factory.mktemp("hostile") / "case",
        {
            "keys": rows("keys", {"evidence": 0, "db": 0, "key": HOSTILE, "type": "hash", "dialect": "bullmq"}),
            "queues": rows("queues", {**queue(HOSTILE, {HOSTILE: 3, "wait": 1}), "layout": HOSTILE}),
            "jobs": rows(
                "jobs",
                job(
                    HOSTILE,
                    HOSTILE,
                    name=HOSTILE,
                    error=HOSTILE,
                    worker_name=HOSTILE,
                    payload=HOSTILE.encode(),
                    payload_bytes=len(HOSTILE.encode()),
                    rest=[(HOSTILE, HOSTILE.encode() + b"\xff")],
                    parent_id=HOSTILE,
                    scheduled_at=2**62,
                ),
            ),
            "membership": rows(
                "membership",
                {
                    "dialect": "bullmq",
                    "namespace": "bull",
                    "queue": HOSTILE,
                    "structure": "active",
                    "kind": "list",
                    "position": 0,
                    "job_id": HOSTILE,
                    "decides_state": True,
                    "key": HOSTILE,
                    "evidence": 0,
                    "db": 0,
                },
            ),
            "events": rows(
                "events",
                {
                    "namespace": "bull",
                    "queue": HOSTILE,
                    "event": HOSTILE,
                    "job_id": HOSTILE,
                    "fields": [(HOSTILE, HOSTILE)],
                    "evidence": 0,
                    "db": 0,
                },
            ),
            "checks": rows("checks", check("MB001", findings=1)),
            "findings": rows("findings", finding("MB001", HOSTILE, HOSTILE, message=HOSTILE, key=HOSTILE)),
        },
        path=f"../{HOSTILE}.rdb",
        warnings=[EvidenceWarning("odd", HOSTILE)],
    )
