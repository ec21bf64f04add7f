"""`jobsleuth verify`: is it still what was made?"""

from __future__ import annotations

import typer

from jobsleuth.cli import output
from jobsleuth.cli.options import CaseArgument, JsonOption
from jobsleuth.safetext import terminal

EXAMPLE = "Example:  jobsleuth verify case"


def command(case: CaseArgument, json: JsonOption = False) -> None:
    """Compare the case's files, and the evidence where it still lies, with the hashes in the manifest."""
    from jobsleuth.case import open_case

    opened = open_case(case)
    differences = opened.verify()
    if json:
        output.dump({"case": str(case), "differences": differences})
    elif differences:
        output.show(((terminal(d), "error"),) for d in differences)
    else:
        files, evidence = len(opened.manifest.files), len(opened.manifest.evidence)
        told = (
            f"unchanged: {files:,} files of the case and {evidence:,} of the evidence have the hashes in the manifest"
        )
        output.show([((told, "ok"),)])
    raise typer.Exit(1 if differences else 0)
