"""`jobsleuth check`: judge a case afresh."""

from __future__ import annotations

from typing import Annotated

import typer

from jobsleuth.cli import lean, output, policies, redaction
from jobsleuth.cli.options import (
    BaselineOption,
    CaseArgument,
    ChecksOption,
    ConfigOption,
    JsonOption,
    QuietOption,
    RedactKeyOption,
    RedactOption,
    ReportFormat,
    Threshold,
)

EXAMPLE = "Example:  jobsleuth check case --format junit > findings.xml"


def command(
    case: CaseArgument,
    fail_on: Annotated[
        Threshold, typer.Option("--fail-on", help="Exit 1 when a finding is this severe or worse.")
    ] = Threshold.ERROR,
    fmt: Annotated[ReportFormat, typer.Option("--format", help="Format of the report.")] = ReportFormat.TEXT,
    everything: Annotated[
        bool, typer.Option("--all", help="Text: all causes, findings and limits, not one screen.")
    ] = False,
    checks: ChecksOption = None,
    config: ConfigOption = None,
    baseline: BaselineOption = None,
    redact: RedactOption = False,
    redact_key: RedactKeyOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Judge a case with the checks of this jobsleuth; nothing in the case changes.

    A check of your own that could not run ends it with exit code 2, after the report.
    """
    lean.without_pandas()
    own = policies.own(checks)
    policy = policies.chosen(config, baseline, own)
    from jobsleuth.checks import all_checks, run_checks
    from jobsleuth.reports import document, lines, render

    opened = redaction.opened(case, redact, redact_key)
    fmt = ReportFormat.JSON if json else fmt
    with output.patience("checking", quiet):
        judged = run_checks(opened, policy, [*all_checks(), *own])
    report = document(
        opened,
        checks=judged.checks,
        findings=judged.findings,
        known=judged.causes,
        fail_on=fail_on,
        accepted=judged.accepted,
        own={check.id for check in own},
    )
    if fmt is ReportFormat.TEXT and not quiet:
        output.show(lines(report, width=output.width(), everything=everything))
    elif fmt is not ReportFormat.TEXT:
        output.write(render(report, fmt))
    policies.tell(judged.accepted, judged.lapsed, quiet)
    policies.tell_left_out(opened.manifest, own, quiet)
    policies.require_own_ran(judged.checks, own, "the report lacks its findings: mend the check, or leave out its file")
    raise typer.Exit(1 if report.failing else 0)
