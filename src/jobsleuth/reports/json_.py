"""The report as one JSON object, findings last: a reader may stream them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from jobsleuth.reports.causes import Cause
from jobsleuth.reports.document import CheckFact, Document
from jobsleuth.reports.findings import TIMES, Finding
from jobsleuth.reports.verdict import verdict
from jobsleuth.reports.words import moment
from jobsleuth.safetext import as_json

FORMAT = "jobsleuth-report/1"


def render(document: Document) -> Iterator[str]:
    """The report as JSON text; the case's own escapes are kept, control characters are JSON escapes."""
    head = {
        "format": FORMAT,
        "tool": document.tool,
        "case": document.case,
        "verdict": verdict(document),
        "fail_on": document.fail_on,
        "counts": document.counts,
        "failing": document.failing,
        "accepted": document.accepted,
        "evidence": [
            {
                "number": f.info.number,
                "path": f.info.path,
                "sha256": f.info.sha256,
                "bytes": f.info.bytes,
                "format": f.info.format,
                "format_version": f.info.format_version,
                "family": f.info.family,
                "redis_version": f.info.redis_version,
                "as_of": _moment(f.info.as_of_ms),
                "as_of_ms": f.info.as_of_ms,
                "as_of_source": f.info.as_of_source,
                "atomic": f.info.atomic,
                "checksum": dict(sorted(f.info.checksum.items())),
                "keys": f.keys,
                "keys_of_queues": f.claimed,
                "warnings": [asdict(w) for w in f.info.warnings],
                "fault": dict(sorted(f.info.fault.items())) if f.info.fault else None,
            }
            for f in document.evidence
        ],
        "queues": [
            {
                **{k: v for k, v in asdict(q).items() if k != "oldest_waiting_ms"},
                "oldest_waiting_at": _moment(q.oldest_waiting_ms),
            }
            for q in document.queues
        ],
        "checks": [_check(c) for c in document.checks],
        "limits": list(document.limits),
        "causes": [_cause(c) for c in document.causes],
    }
    yield from streamed(head, "findings", (_finding(f) for f in document.findings))
    yield "\n"


def _check(check: CheckFact) -> dict[str, Any]:
    return {**{k: v for k, v in asdict(check).items() if k != "own"}, "help_url": check.help_url}


def _finding(finding: Finding) -> dict[str, Any]:
    stored = asdict(finding)
    return {**stored, "details": finding.facts(), **{name: _moment(stored[name]) for name in TIMES}}


def _cause(cause: Cause) -> dict[str, Any]:
    told = {k: v for k, v in asdict(cause).items() if not k.endswith("_ms") and k not in ("parts", "examples")}
    return {
        **told,
        "first_at": _moment(cause.first_ms),
        "last_at": _moment(cause.last_ms),
        "heals_at": _moment(cause.heals_at_ms),
        "places": [{"place": name, "findings": n} for name, n in cause.places],
        "checks": [asdict(part) for part in cause.parts],
        "examples": [_finding(example) for example in cause.examples],
    }


def _moment(ms: int | None) -> str | None:
    return None if ms is None else moment(ms, iso=True)


def streamed(head: Mapping[str, Any], name: str, items: Iterable[Any]) -> Iterator[str]:
    """One JSON object: `head`'s members, then the array `name`, one item a line, never whole in memory.

    ASCII only: a log viewer or a terminal that shows it cannot be steered by what it holds.
    """
    yield as_json(head, 1)[: -len("\n}")] + f',\n "{name}": ['
    comma = ""
    for item in items:
        yield f"{comma}\n  {as_json(item)}"
        comma = ","
    yield "\n ]\n}" if comma else "]\n}"
