"""`jobsleuth check`: judge a case afresh."""

from __future__ import annotations

from typing import Annotated

import typer

from jobsleuth.cli import lean, output
from jobsleuth.cli.options import CaseArgument, ReportFormat, Threshold

EXAMPLE = "Example:  jobsleuth check case --format junit > findings.xml"


def command(
    case: CaseArgument,
    fail_on: Annotated[
        Threshold, typer.Option("--fail-on", help="Exit 1 when a finding is this severe or worse.")
    ] = Threshold.ERROR,
    fmt: Annotated[ReportFormat, typer.Option("--format", help="Format of the report.")] = ReportFormat.TEXT,
    everything: Annotated[bool, typer.Option("--all", help="Text: every finding, not three of each kind.")] = False,
) -> None:
    """Judge a case with the checks of this jobsleuth; nothing in the case changes."""
    lean.without_pandas()
    from jobsleuth.case import open_case
    from jobsleuth.checks import run_checks
    from jobsleuth.reports import document, lines, render

    opened = open_case(case)
    judged = run_checks(opened)
    report = document(opened, checks=judged.checks, findings=judged.findings, fail_on=fail_on)
    if fmt is ReportFormat.TEXT:
        output.show(lines(report, width=output.width(), everything=everything))
    else:
        output.write(render(report, fmt))
    raise typer.Exit(1 if report.failing else 0)
