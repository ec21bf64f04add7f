"""`jobsleuth analyze`: the main job."""

from __future__ import annotations

import re
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from jobsleuth.cli import lean, moments, output, policies, redaction
from jobsleuth.cli.moments import UntilOffsetOption, UntilOption, unix_ms
from jobsleuth.cli.options import (
    BaselineOption,
    ChecksOption,
    ConfigOption,
    JsonOption,
    LayoutOption,
    MaxSpoolOption,
    MaxValueOption,
    RedactKeyOption,
    RedactOption,
    Threshold,
    TmpdirOption,
)
from jobsleuth.errors import UsageError


class Streams(StrEnum):
    """Which entries of streams become jobs."""

    OPEN = "open"
    ACKED = "acked"


EXAMPLE = "Example:  jobsleuth analyze dump.rdb --out case"
_MENDED = "the case was made without its findings; mend the check and judge again: jobsleuth check CASE --checks FILE"


def command(
    evidence: Annotated[
        list[Path],
        typer.Argument(
            metavar="EVIDENCE...",
            help="RDB file, append-only file or folder, keyspace export; or several; gzip, zstd, LZ4, bzip2 and xz"
            " are unpacked; - reads standard input.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="CASE", help="Folder to make.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing case.")] = False,
    salvage: Annotated[
        bool, typer.Option("--salvage", help="Use what stands before the damage in a broken file.")
    ] = False,
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", metavar="TIME", help="When the snapshot was taken: ISO 8601 with zone, or Unix time."),
    ] = None,
    until: UntilOption = None,
    until_offset: UntilOffsetOption = None,
    prefix: Annotated[
        list[str] | None, typer.Option("--prefix", metavar="P", help="A BullMQ prefix in use; may be repeated.")
    ] = None,
    payload: Annotated[
        str, typer.Option("--payload", metavar="full|head:N|none", help="How much of each payload the case keeps.")
    ] = "full",
    streams: Annotated[
        Streams,
        typer.Option("--streams", help="Entries of streams that become jobs: all but acknowledged ones, or those too."),
    ] = Streams.OPEN,
    layout: LayoutOption = None,
    redact: RedactOption = False,
    redact_key: RedactKeyOption = None,
    fail_on: Annotated[
        Threshold, typer.Option("--fail-on", help="Exit 1 when a finding is this severe or worse.")
    ] = Threshold.NEVER,
    checks: ChecksOption = None,
    config: ConfigOption = None,
    baseline: BaselineOption = None,
    tmpdir: TmpdirOption = None,
    max_spool_bytes: MaxSpoolOption = None,
    max_value_bytes: MaxValueOption = None,
    json: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No summary, no progress.")] = False,
) -> None:
    """Make a case from a snapshot, append-only file or export: tables of every job, findings of what is amiss."""
    limit = _payload_limit(payload)
    as_of_ms = None if as_of is None else unix_ms(as_of, "--as-of")
    until_ms, place = moments.until(until), moments.until_offset(until_offset)
    lean.without_pandas()
    from jobsleuth.pipeline import AnalyzeOptions, analyze_and_tell
    from jobsleuth.reports import lines, render

    own = policies.own(checks)
    # Before the layouts: a file that cannot be read is the policy, which may hold layouts too.
    policy = policies.chosen(config, baseline, own)
    options = AnalyzeOptions(
        force=force,
        salvage=salvage,
        as_of_ms=as_of_ms,
        until_ms=until_ms,
        until_offset=place,
        prefixes=tuple(prefix or ()),
        payload_limit=limit,
        streams_acked=streams is Streams.ACKED,
        described=policies.described(layout, config),
        checks=tuple(own),
        policy=policy,
        redactor=redaction.redactor(redact, redact_key),
        tmpdir=tmpdir,
        max_spool_bytes=max_spool_bytes,
        **({} if max_value_bytes is None else {"max_value_bytes": max_value_bytes}),
    )
    with output.progress(quiet) as progress:
        case, report = analyze_and_tell(evidence, out, options, progress)
    report = replace(report, fail_on=fail_on)
    if json:
        output.write(render(report, "json"))
    elif not quiet:
        output.show(lines(report, width=output.width()))
        output.show([(), (("The case: ", "plain"), (str(out), "strong"))])
    if own:
        judged = case.arrow("checks", ["check_id", "status", "reason"])
        policies.require_own_ran(judged, own, _MENDED)
    raise typer.Exit(1 if report.failing else 0)


def _payload_limit(text: str) -> int | None:
    """Bytes of each payload to keep; None: all.

    Raises:
        UsageError: not `full`, `none` or `head:N`.
    """
    if text == "full":
        return None
    if text == "none":
        return 0
    found = re.fullmatch(r"head:([0-9]{1,12})", text)
    if found is None:
        raise UsageError(f"--payload {text!r} is not full, none or head:N", hint="e.g. --payload head:200")
    return int(found[1])
