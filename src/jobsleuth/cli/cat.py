"""`jobsleuth cat`: every key as keyspace NDJSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jobsleuth.cli import output
from jobsleuth.cli.options import MaxSpoolOption, MaxValueOption, TmpdirOption

EXAMPLE = "Example:  jobsleuth cat dump.rdb | head -n 3"


def command(
    evidence: Annotated[
        Path,
        typer.Argument(
            metavar="EVIDENCE", help="RDB file, plain or compressed; - reads standard input.", show_default=False
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write to this new file instead.")
    ] = None,
    salvage: Annotated[
        bool, typer.Option("--salvage", help="Use what can be unpacked of a damaged compressed file.")
    ] = False,
    tmpdir: TmpdirOption = None,
    max_spool_bytes: MaxSpoolOption = None,
    max_value_bytes: MaxValueOption = None,
) -> None:
    """Write every key and value as keyspace NDJSON (version 1), payloads included."""
    from jobsleuth.sources import DEFAULT_MAX_VALUE_BYTES, SpoolOptions, write_keyspace

    most = DEFAULT_MAX_VALUE_BYTES if max_value_bytes is None else max_value_bytes
    spool = SpoolOptions(tmpdir, max_spool_bytes)
    for remark in write_keyspace(evidence, out, max_value_bytes=most, spool=spool, salvage=salvage):
        output.note(remark.message)
