"""`jobsleuth baseline`: accept what is known, so that only new findings are reported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jobsleuth.cli import lean, output, policies, redaction
from jobsleuth.cli.options import (
    CaseArgument,
    ChecksOption,
    ConfigOption,
    ForceOption,
    JsonOption,
    QuietOption,
    RedactKeyOption,
    RedactOption,
)
from jobsleuth.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from jobsleuth.case import Case

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
    baseline: Annotated[
        Path | None,
        typer.Option(
            "--baseline",
            metavar="FILE",
            help="An older baseline, whose reasons and expiry dates are kept for findings that are still there.",
            show_default=False,
        ),
    ] = None,
    checks: ChecksOption = None,
    config: ConfigOption = None,
    redact: RedactOption = False,
    redact_key: RedactKeyOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write the findings of a case as a baseline for `check --baseline` and `analyze --baseline`.

    It is JSON; with --out, --json tells on standard output what was written. With --redact, findings whose queue, job
    or key was replaced are known only to a `check` with the same --redact-key.
    """
    lean.without_pandas()
    from jobsleuth.checks import all_checks, make_baseline, read_baseline, read_end, run_checks

    read_end(expires, "the command line", "--expires")
    if out is not None and out.exists() and not force:
        raise UsageError("the file exists", file=str(out), hint="--force replaces it")
    known = {} if baseline is None else read_baseline(baseline)
    own = policies.own(checks)
    policy = policies.chosen(config, own=own)
    with redaction.opened(case, redact, redact_key) as opened, output.patience("checking", quiet):
        judged = run_checks(opened, policy, [*all_checks(), *own])
    policies.require_own_ran(judged.checks, own, "no baseline was written: mend the check, or leave out its file")
    policies.tell_left_out(opened.manifest, own, quiet)
    text = make_baseline(judged.findings, reason, expires, known)
    if out is None:
        output.write([text])
    else:
        with output.new_file(out, force=force) as file:
            file.write(text.encode("utf-8"))
        if json:
            output.dump({"out": str(out), "findings": len(judged.findings["fingerprint"].unique())})
    if redact_key is None and not quiet and _names_digests(opened, judged.findings):
        output.note(
            "findings about redacted queues, jobs or keys are known to no other run: --redact-key keeps its key"
        )


def _names_digests(case: Case, findings: pa.Table) -> bool:
    """Whether findings are about something that this run's own key, which nobody has, replaced."""
    import pyarrow.compute as pc

    from jobsleuth.case import MARK

    if not case.redacted or case.manifest.options.get("redacted_with") is not None:
        return False
    places = (findings.column(name).cast("string") for name in ("namespace", "queue", "job_id", "key"))
    return any(pc.any(pc.match_substring(place, MARK)).as_py() for place in places)
