"""`jobsleuth report`: the case as one HTML page."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from jobsleuth.cli import lean, output, redaction
from jobsleuth.cli.options import (
    CaseArgument,
    ForceOption,
    JsonOption,
    QuietOption,
    RedactKeyOption,
    RedactOption,
    ShowPayloadOption,
)
from jobsleuth.errors import UsageError

EXAMPLE = "Example:  jobsleuth report case --redact --out shareable.html"


def command(
    case: CaseArgument,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write to this new file.", show_default=False)
    ] = None,
    show_payload: ShowPayloadOption = None,
    redact: RedactOption = False,
    redact_key: RedactKeyOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make the HTML page of a case anew: one file that needs no network. A case has one already: report.html.

    Of payloads and results the page shows size and digest. --json gives the report's facts instead of a page.
    """
    lean.without_pandas()
    from jobsleuth.reports import document, render, render_html

    if out is None and not json and sys.stdout.isatty():
        raise UsageError("a page is nothing for a terminal", hint=f"--out FILE, or open {case / 'report.html'}")
    opened = redaction.opened(case, redact, redact_key)
    with output.patience("writing the report", quiet):
        facts = document(opened)
        pieces = render(facts, "json") if json else render_html(opened, facts, shown=show_payload or None)
        if out is None:
            output.write(pieces)
            return
        with output.new_file(out, force=force) as file:
            file.writelines(piece.encode("utf-8") for piece in pieces)
    if not quiet:
        output.show([(("The report: ", "plain"), (os.fspath(out), "strong"))])
