"""`jobsleuth verify`: is it still what was made?"""

from __future__ import annotations

import typer

from jobsleuth.cli import output
from jobsleuth.cli.options import CaseArgument, JsonOption, QuietOption
from jobsleuth.safetext import terminal

EXAMPLE = "Example:  jobsleuth verify case"


def command(case: CaseArgument, json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Compare the case's files, and the evidence where it still lies, with the hashes in the manifest."""
    from jobsleuth.case import open_case

    opened = open_case(case)
    with output.patience("hashing", quiet):
        differences = opened.verify()
    streamed = [info for info in opened.manifest.evidence if info.streamed]
    if json:
        output.dump({"case": str(case), "differences": differences, "streamed": [i.number for i in streamed]})
    elif differences:
        output.show(((terminal(d), "error"),) for d in differences)
    elif not quiet:
        files, evidence = len(opened.manifest.files), len(opened.manifest.evidence) - len(streamed)
        told = (
            f"unchanged: {files:,} files of the case and {evidence:,} of the evidence have the hashes in the manifest"
        )
        output.show([((told, "ok"),)])
    if streamed and not json and not quiet:
        told = "evidence {}: came through standard input or a pipe and cannot be compared; its SHA-256 was {}"
        output.show(((told.format(info.number, info.sha256), "dim"),) for info in streamed)
    raise typer.Exit(1 if differences else 0)
