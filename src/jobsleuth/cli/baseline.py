"""`jobsleuth baseline`: accept what is known, so that only new findings are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jobsleuth.cli import lean, output, policies
from jobsleuth.cli.options import BaselineOption, CaseArgument, ChecksOption, ConfigOption, ForceOption, QuietOption
from jobsleuth.errors import UsageError

EXAMPLE = "Example:  jobsleuth baseline case --out known.json --reason 'before the migration'"


def command(
    case: CaseArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="File to write; otherwise standard output.", show_default=False
        ),
    ] = None,
    reason: Annotated[str, typer.Option("--reason", help="Why these findings are accepted.")] = "known",
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="DATE", help="From this date of a snapshot on they are reported again."),
    ] = None,
    baseline: BaselineOption = None,
    checks: ChecksOption = None,
    config: ConfigOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write the findings of a case as a baseline for `check --baseline` and `analyze --baseline`.

    With --baseline, what an older one says of reason and expiry is kept for findings that are still there.
    """
    lean.without_pandas()
    from jobsleuth.case import open_case
    from jobsleuth.checks import all_checks, make_baseline, read_baseline, read_end, run_checks

    read_end(expires, "the command line", "--expires")
    if out is not None and out.exists() and not force:
        raise UsageError("the file exists", file=str(out), hint="--force replaces it")
    known = {} if baseline is None else read_baseline(baseline)
    own = policies.own(checks)
    policy = policies.chosen(config, own=own)
    with open_case(case) as opened, output.patience("checking", quiet):
        judged = run_checks(opened, policy, [*all_checks(), *own])
    policies.require_own_ran(judged.checks, own, "no baseline was written: mend the check, or leave out its file")
    policies.tell_left_out(opened.manifest, own, quiet)
    text = make_baseline(judged.findings, reason, expires, known)
    if out is None:
        output.write([text])
    else:
        out.write_text(text, encoding="utf-8")
