"""`jobsleuth crosscheck`: a second opinion."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jobsleuth.cli import output
from jobsleuth.cli.options import JsonOption, MaxSpoolOption, TmpdirOption
from jobsleuth.safetext import terminal

if TYPE_CHECKING:
    from jobsleuth.sources import Crosscheck

EXAMPLE = "Example:  jobsleuth crosscheck dump.rdb"

_SHOWN = 20
_WHAT = {
    "type": "differ in type",
    "expiry": "differ in expiry",
    "value": "differ in value",
    "only_jobsleuth": "only jobsleuth read",
    "only_rdbtools": "only rdbtools read",
}
_PARTLY = {
    "stream": "streams were compared by their number of entries only: rdbtools does not decode them",
    "module": "module values were not compared: no reader but the module knows what they mean",
}


def command(
    evidence: Annotated[
        Path,
        typer.Argument(
            metavar="EVIDENCE",
            help="RDB file of version 9 or older, plain or compressed; - reads standard input.",
            show_default=False,
        ),
    ],
    tmpdir: TmpdirOption = None,
    max_spool_bytes: MaxSpoolOption = None,
    json: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Read a snapshot a second time, with rdbtools, and compare key by key: type, expiry, value.

    Exit 1 when the two do not agree, or one of them could not read the file to its end. Needs rdbtools:
    pip install 'jobsleuth\\[crosscheck]'.
    """
    from jobsleuth.sources import SpoolOptions, crosscheck

    with output.progress(quiet) as progress:
        result = crosscheck(evidence, spool=SpoolOptions(tmpdir, max_spool_bytes), progress=progress)
    if json:
        output.dump({**dataclasses.asdict(result), "same": result.same})
    else:
        _show(result)
    raise typer.Exit(0 if result.same else 1)


def _show(result: Crosscheck) -> None:
    about = f"RDB version {result.format_version}, checksum {result.checksum}"
    other = f"rdbtools {terminal(result.rdbtools_version)}"
    read = f"jobsleuth read {result.jobsleuth_keys:,} keys, {other} {result.rdbtools_keys:,}"
    output.show([((terminal(result.evidence), "strong"), (f"  {about}", "dim")), ((read, "plain"),)])
    for who, stopped in (("jobsleuth", result.jobsleuth_stopped), ("rdbtools", result.rdbtools_stopped)):
        if stopped is not None:
            output.show([((f"{who} could not read on: {terminal(stopped)}", "error"),)])
    output.show([((f"{result.agreed:,} keys agree", "ok" if result.same else "plain"),)])
    for what, count in sorted(result.counts.items()):
        output.show([((f"{count:,} keys: {_WHAT[what]}", "error"),)])
    for kind, count in sorted(result.not_compared.items()):
        output.show([((f"{count:,} {_PARTLY[kind]}", "dim"),)])
    if result.differences:
        shown = result.differences[:_SHOWN]
        rows = [[_WHAT[d.what], d.db, d.key, d.jobsleuth, d.rdbtools] for d in shown]
        output.show([()])
        output.table(["what", "db", "key", "jobsleuth", "rdbtools"], rows)
        left = sum(result.counts.values()) - len(shown)
        if left:
            output.show([((f"{left:,} more; --json lists {len(result.differences):,}", "dim"),)])
