"""SARIF 2.1.0: rules from the checks, results from the findings, hashes of the evidence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from jobsleuth.reports.causes import Cause
from jobsleuth.reports.document import CheckFact, Document
from jobsleuth.reports.findings import Finding
from jobsleuth.reports.json_ import streamed
from jobsleuth.reports.verdict import unable
from jobsleuth.safetext import markdown, sarif, terminal

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_WHOLE_FILE = {"startLine": 1}
"""Evidence has no lines, but GitHub's code scanning wants one in every place."""
_Causes = dict[tuple[int | None, str], Cause]
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def render(document: Document) -> Iterator[str]:
    """One run. GitHub keeps the first 25,000 results; they come worst first."""
    causes = {(c.evidence, c.kind): c for c in document.causes if c.known}
    rules = {c.id: nth for nth, c in enumerate(document.checks)}
    paths = {f.info.number: _uri(f.info.path) for f in document.evidence}
    name, _, version = document.tool.partition(" ")
    run = {
        "tool": {"driver": {"name": name, "version": version, "rules": [_rule(c) for c in document.checks]}},
        "columnKind": "unicodeCodePoints",
        "properties": {
            "causes": [
                {
                    "kind": c.kind,
                    "title": c.title,
                    "findings": c.count,
                    "severity": c.severity,
                    "basis": c.basis,
                    "whatToDo": c.what_to_do,
                    "rules": [p.check_id for p in c.parts],
                }
                for c in causes.values()
            ]
        },
        "artifacts": [
            {"location": {"uri": paths[f.info.number]}, "length": f.info.bytes, "hashes": {"sha-256": f.info.sha256}}
            for f in document.evidence
        ],
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [
                    {
                        "level": "note",
                        "message": {"text": sarif(f"{c.id} could not run: {c.reason or 'no reason given'}")},
                        "associatedRule": {"id": c.id, "index": rules[c.id]},
                    }
                    for c in unable(document)
                ],
            }
        ],
    }
    head = json.dumps({"$schema": SCHEMA, "version": "2.1.0"}, indent=1)[: -len("\n}")]
    yield f'{head},\n "runs": [\n'
    yield from streamed(run, "results", (_result(f, rules, paths, causes) for f in document.findings))
    yield "\n]}\n"


def _rule(check: CheckFact) -> dict[str, Any]:
    text = "\n\n".join(f"{heading}\n{body}" for heading, body in check.texts.items()) or check.title
    marked = "\n\n".join(f"**{heading}**\n\n{body}" for heading, body in check.texts.items()) or markdown(check.title)
    rule: dict[str, Any] = {
        "id": check.id,
        "name": check.name,
        "shortDescription": {"text": check.title},
        "help": {"text": text, "markdown": marked},
        "defaultConfiguration": {"level": _LEVELS[check.severity]},
    }
    if check.texts.get("What it finds"):
        rule["fullDescription"] = {"text": check.texts["What it finds"]}
    return rule


def _result(finding: Finding, rules: dict[str, int], paths: dict[int, str], causes: _Causes) -> dict[str, Any]:
    names = [n for n in (finding.namespace, finding.queue, finding.job_id) if n is not None]
    location: dict[str, Any] = {}
    # A finding of no file in particular stands at the first: GitHub takes no result without a place.
    first = next(iter(paths.values()), None)
    uri = first if finding.evidence is None else paths.get(finding.evidence, first)
    if uri is not None:
        location["physicalLocation"] = {"artifactLocation": {"uri": uri}, "region": _WHOLE_FILE}
    if names:
        location["logicalLocations"] = [
            {
                "name": terminal(names[-1]),
                "fullyQualifiedName": terminal("/".join(names)),
                "kind": "job" if finding.job_id is not None else "queue",
            }
        ]
    result: dict[str, Any] = {
        "ruleId": finding.check_id,
        "level": _LEVELS[finding.severity],
        "message": {"text": sarif(finding.message + _because(finding, causes))},
        "locations": [location] if location else [],
        # The number that baselines and suppressions know the finding by.
        "partialFingerprints": {"finding/v1": finding.fingerprint} if finding.fingerprint else {},
        "properties": {
            "certainty": finding.certainty,
            "dialect": finding.dialect,
            "key": finding.key,
            "db": finding.db,
            "cause": finding.cause,
        },
    }
    if finding.check_id in rules:
        result["ruleIndex"] = rules[finding.check_id]
    return result


def _because(finding: Finding, causes: _Causes) -> str:
    """What explains the finding: alerts are shown one by one, and many of them may be one incident."""
    cause = causes.get((finding.evidence, (finding.cause or "").partition(":")[0]))
    if cause is None or cause.count < 2:
        return ""
    return f". One of {cause.count:,} findings with one cause: {cause.title}"


def _uri(path: str) -> str:
    """A relative path as it is, an absolute one as the standard wants it."""
    quoted = quote(path.encode("utf-8", "surrogateescape"), safe="/")
    return f"file://{quoted}" if path.startswith("/") else quoted
