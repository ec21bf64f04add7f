"""`jobsleuth cat`: every key as keyspace NDJSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jobsleuth.cli import moments, output
from jobsleuth.cli.moments import UntilOffsetOption, UntilOption
from jobsleuth.cli.options import MaxSpoolOption, MaxValueOption, TmpdirOption, reading

EXAMPLE = "Example:  jobsleuth cat dump.rdb | head -n 3"


def command(
    evidence: Annotated[
        Path,
        typer.Argument(
            metavar="EVIDENCE",
            help="RDB file, append-only file or folder, keyspace export; plain or compressed; - reads standard input.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write to this new file instead.")
    ] = None,
    salvage: Annotated[
        bool,
        typer.Option("--salvage", help="Use what stands before the damage: compressed file, file of commands, export."),
    ] = False,
    until: UntilOption = None,
    until_offset: UntilOffsetOption = None,
    tmpdir: TmpdirOption = None,
    max_spool_bytes: MaxSpoolOption = None,
    max_value_bytes: MaxValueOption = None,
) -> None:
    """Write every key and value as keyspace NDJSON (version 1), payloads included."""
    from jobsleuth.sources import write_keyspace

    options = reading(tmpdir, max_spool_bytes, max_value_bytes)
    found = write_keyspace(
        evidence,
        out,
        max_value_bytes=options.max_value_bytes,
        spool=options.spool,
        salvage=salvage,
        until_ms=moments.until(until),
        until_offset=moments.until_offset(until_offset),
    )
    for remark in found:
        output.note(remark.message)
