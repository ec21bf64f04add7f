"""`jobsleuth verify`: is it still what was made?"""

from __future__ import annotations

from typing import Annotated

import typer

from jobsleuth.cli import lean, output
from jobsleuth.cli.options import CaseArgument, JsonOption, QuietOption

EXAMPLE = "Example:  jobsleuth verify case"


def command(
    case: CaseArgument,
    require_evidence: Annotated[
        bool, typer.Option("--require-evidence", help="Exit 1 also when evidence could not be compared.")
    ] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare the case with its manifest: hashes of its files, rows of its tables, and the evidence.

    Evidence is looked for at the path that analyze was given. Other bytes there are a difference: exit 1. Evidence that
    is not there any more was perhaps put in a safe place: it is named with its SHA-256, to compare by hand, and is no
    difference, unless --require-evidence. Nothing vouches for the manifest itself: note its SHA-256 elsewhere.
    """
    lean.without_pandas()
    from jobsleuth.case import open_case
    from jobsleuth.reports import number

    opened = open_case(case)
    with output.patience("hashing", quiet):
        found = opened.verification()
    if json:
        facts = {
            "case": str(case),
            "differences": found.differences,
            "not_compared": found.uncompared,
            "streamed": [info.number for info in opened.manifest.evidence if info.streamed],
            "files": found.files,
            "evidence": found.evidence,
            "manifest_sha256": found.manifest_sha256,
        }
        output.dump(facts)
    else:
        output.show(((line, "error"),) for line in found.differences)
        if not quiet:
            if not found.differences:
                told = f"unchanged: {number(found.files, 'file')} of the case and {found.evidence:,} of the evidence"
                output.show([((f"{told} have the hashes in the manifest", "ok"),)])
            output.show(((line, "warning"),) for line in found.uncompared)
            output.show([((f"manifest.json has the SHA-256 {found.manifest_sha256}", "dim"),)])
    raise typer.Exit(1 if found.differences or (require_evidence and found.uncompared) else 0)
