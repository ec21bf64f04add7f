"""JUnit XML: one test case a check, failed by findings at or above the threshold, skipped where it could not run.

Cases are checks, not causes, so that a run can be held against the one before; each failure begins with its causes.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from jobsleuth.reports.causes import Cause
from jobsleuth.reports.document import CheckFact, Document, at_or_above
from jobsleuth.reports.findings import SEVERITIES, Finding
from jobsleuth.reports.words import moment, number
from jobsleuth.safetext import terminal, xml

_LISTED = 50


def render(document: Document) -> Iterator[str]:
    """One suite. A check below the threshold passes and says what it found as output."""
    failing = at_or_above(document.fail_on)
    found: dict[str, list[Finding]] = {}
    counts: dict[str, dict[str, int]] = {}
    for group in document.groups:
        mine = counts.setdefault(group.check_id, dict.fromkeys(SEVERITIES, 0))
        mine[group.severity] += group.count
    for finding in document.findings:
        listed = found.setdefault(finding.check_id, [])
        if len(listed) < _LISTED:
            listed.append(finding)
    checks = [c for c in document.checks if c.status != "off"]
    failures = sum(any(counts.get(c.id, {}).get(s) for s in failing) for c in checks)
    skipped = sum(c.status == "could_not_run" for c in checks)
    taken = next((f.info.as_of_ms for f in document.evidence if f.info.as_of_ms is not None), None)
    # The snapshot's time, not the run's: the same case gives the same report.
    stamp = f" timestamp={_attribute(moment(taken, iso=True)[:19])}" if taken is not None else ""
    totals = f'tests="{len(checks)}" failures="{failures}" errors="0" time="0"'
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield f'<testsuites name="jobsleuth" {totals}>\n'
    # Readers that validate, as Jenkins' xUnit does, know `skipped` of a suite only.
    yield f' <testsuite name={_attribute(document.case)} {totals} skipped="{skipped}"{stamp}>\n'
    for check in checks:
        because = [c for c in document.causes if c.known and any(p.check_id == check.id for p in c.parts)]
        yield from _case(check, counts.get(check.id, {}), found.get(check.id, []), failing, because)
    yield " </testsuite>\n</testsuites>\n"


def _case(
    check: CheckFact, counts: dict[str, int], findings: list[Finding], failing: tuple[str, ...], causes: list[Cause]
) -> Iterator[str]:
    yield f'  <testcase classname="jobsleuth.{check.id[:2]}" name={_attribute(f"{check.id} {check.title}")} time="0">\n'
    total = sum(counts.values())
    if check.status == "could_not_run":
        yield f"   <skipped message={_attribute(check.reason or 'could not run')}/>\n"
    elif total:
        body = "".join(_explained(cause, check.id, total) for cause in causes)
        body += "".join(
            f"{f.severity} ({f.certainty}) {terminal(f.place)}{': ' if f.place else ''}{terminal(f.message)}\n"
            for f in findings
        )
        if total > len(findings):
            body += f"and {total - len(findings):,} more: jobsleuth check CASE --all\n"
        body += check.texts.get("What to do next", "")
        if any(counts.get(s) for s in failing):
            worst = next(s for s in SEVERITIES if counts.get(s))
            told = number(total, "finding")
            yield f'   <failure type="{worst}" message={_attribute(told)}>{_text(body)}</failure>\n'
        else:
            yield f"   <system-out>{_text(body)}</system-out>\n"
    yield "  </testcase>\n"


def _explained(cause: Cause, check_id: str, total: int) -> str:
    mine = sum(p.count for p in cause.parts if p.check_id == check_id)
    others = [p.check_id for p in cause.parts if p.check_id != check_id]
    beside = f", with {' '.join(others)}" if others else ""
    inferred = " (inferred)" if cause.basis == "inferred" else ""
    lead = f"cause of {mine:,} of {number(total, 'finding')}{beside}{inferred}"
    return f"{lead}: {terminal(cause.title)}. {cause.what_to_do}\n"


def _attribute(text: str) -> str:
    return quoteattr(xml(terminal(text)))


def _text(text: str) -> str:
    return escape(xml(text))
