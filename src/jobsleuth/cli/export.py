"""`jobsleuth export`: what is needed to enqueue jobs again."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Annotated, Any

import typer

from jobsleuth.cli import lean, output, redaction
from jobsleuth.cli.options import (
    CaseArgument,
    ForceOption,
    JsonOption,
    OutOption,
    QuietOption,
    RedactKeyOption,
    RedactOption,
)
from jobsleuth.cli.places import QueueOption, require
from jobsleuth.errors import UsageError
from jobsleuth.safetext import as_json

EXAMPLE = "Example:  jobsleuth export case --lost --stuck --out recovery.ndjson"


class ExportFormat(StrEnum):
    """Formats of the list."""

    NDJSON = "ndjson"
    CSV = "csv"
    JSON = "json"


def command(
    case: CaseArgument,
    lost: Annotated[bool, typer.Option("--lost", help="Jobs that no worker will find.")] = False,
    stuck: Annotated[bool, typer.Option("--stuck", help="Unfinished jobs that a finding says do not go on.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Jobs that failed for good.")] = False,
    queue: QueueOption = None,
    fmt: Annotated[ExportFormat, typer.Option("--format", help="Format of the list.")] = ExportFormat.NDJSON,
    out: OutOption = None,
    redact: RedactOption = False,
    redact_key: RedactKeyOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write the recovery list: what an engineer needs to enqueue jobs again by their own code.

    An entry has queue, name, data and options of a job, why it is listed, and whether it may already have run: a job
    that ran may do its work twice. It has payloads in full. jobsleuth never writes commands for Redis.
    """
    lean.without_pandas()
    from jobsleuth.reports import COLUMNS, recovery

    kinds = [kind for kind, wanted in (("lost", lost), ("stuck", stuck), ("failed", failed)) if wanted]
    if not kinds:
        raise UsageError("nothing chosen to export", hint="give --lost, --stuck or --failed, or several of them")
    opened = redaction.opened(case, redact, redact_key)
    require(opened, queue)
    entries = recovery(opened, kinds, queue)
    count = 0

    def counted() -> Iterator[dict[str, Any]]:
        nonlocal count
        for entry in entries:
            count += 1
            yield entry

    fmt = ExportFormat.JSON if json else fmt
    pieces: Iterable[str]
    if fmt is ExportFormat.CSV:
        pieces = output.csv_rows([*COLUMNS, "data_base64"], map(_row, counted()))
    elif fmt is ExportFormat.JSON:
        pieces = output.array(counted())
    else:
        pieces = (f"{as_json(entry)}\n" for entry in counted())
    if out is None:
        with output.patience("exporting", quiet):
            output.write(pieces)
        return
    with output.patience("exporting", quiet), output.new_file(out, force=force) as file:
        file.writelines(piece.encode("utf-8") for piece in pieces)
    if not quiet:
        output.show([((f"{count:,} jobs: ", "plain"), (str(out), "strong"))])


def _row(entry: dict[str, Any]) -> list[Any]:
    """Values as CSV holds them; data that a spreadsheet's text could not give back exactly goes to `data_base64`."""
    data, exact = entry["data"], None
    if isinstance(data, dict):
        exact = data["b64"]
    elif isinstance(data, str) and output.csv_text(data) != data:
        exact = base64.b64encode(data.encode("utf-8")).decode("ascii")
    shown = {**entry, "data": None if exact is not None else data}
    return [*shown.values(), exact]
