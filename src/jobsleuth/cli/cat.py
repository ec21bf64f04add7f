"""`jobsleuth cat`: every key as keyspace NDJSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example:  jobsleuth cat dump.rdb | head -n 3"


def command(
    evidence: Annotated[Path, typer.Argument(metavar="EVIDENCE", help="RDB file.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write to this new file instead.")
    ] = None,
) -> None:
    """Write every key and value as keyspace NDJSON (version 1), payloads included."""
    from jobsleuth.sources import write_keyspace

    write_keyspace(evidence, out)
