"""Arguments and options that several commands share, and the words they may take."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from jobsleuth.sources import ReadOptions


class Threshold(StrEnum):
    """Least severity that makes a command exit 1."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    NEVER = "never"


class ReportFormat(StrEnum):
    """Formats of a report."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    SARIF = "sarif"
    GITHUB = "github"
    MARKDOWN = "markdown"


class RowFormat(StrEnum):
    """Formats of rows."""

    TABLE = "table"
    CSV = "csv"
    NDJSON = "ndjson"
    JSON = "json"
    PARQUET = "parquet"


CaseArgument = Annotated[
    Path, typer.Argument(metavar="CASE", help="Case folder that `jobsleuth analyze` made.", show_default=False)
]
TmpdirOption = Annotated[
    Path | None,
    typer.Option("--tmpdir", metavar="FOLDER", help="Where compressed or piped evidence is unpacked for the run."),
]
MaxSpoolOption = Annotated[
    int | None,
    typer.Option("--max-spool-bytes", min=1, metavar="N", help="Refuse evidence that unfolds to more bytes than this."),
]
MaxValueOption = Annotated[
    int | None,
    typer.Option(
        "--max-value-bytes", min=1, metavar="N", help="Refuse a string that is larger than this; otherwise 2 GiB."
    ),
]
ChecksOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--checks",
        metavar="FILE",
        help="Python file with checks of your own, which run besides the others; may be repeated. It is executed.",
        show_default=False,
    ),
]
LayoutOption = Annotated[
    Path | None,
    typer.Option(
        "--layout",
        metavar="FILE",
        help="Descriptions of home-made layouts; those in the policy file where it is not given.",
        show_default=False,
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Policy: checks, severities, thresholds; ./jobsleuth.toml where it is there.",
        show_default=False,
    ),
]
BaselineOption = Annotated[
    Path | None,
    typer.Option(
        "--baseline",
        metavar="FILE",
        help="Known findings, as `jobsleuth baseline` writes them: only new ones are reported.",
        show_default=False,
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes, no closing line.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", help="Write to this new file instead.", show_default=False),
]
ShowPayloadOption = Annotated[
    int | None,
    typer.Option(
        "--show-payload",
        min=0,
        metavar="N",
        help="Show the first N bytes of payloads and results instead of their digests.",
        show_default=False,
    ),
]
RedactOption = Annotated[
    bool,
    typer.Option(
        "--redact",
        help="Keyed digests for payloads, results, errors, and for what looks like an e-mail address or a secret.",
    ),
]
RedactKeyOption = Annotated[
    Path | None,
    typer.Option(
        "--redact-key",
        metavar="FILE",
        help="Redact with the key in FILE, so that several runs agree; made there if there is none.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]
RowFormatOption = Annotated[RowFormat, typer.Option("--format", help="Format of the rows.")]


def row_format(fmt: RowFormat, json: bool) -> RowFormat:
    """`--json` is short for `--format json`."""
    return RowFormat.JSON if json else fmt


def reading(tmpdir: Path | None, max_spool_bytes: int | None, max_value_bytes: int | None) -> ReadOptions:
    """How evidence is read, of the options that commands share; what is not given is as the reader has it."""
    from jobsleuth.sources import ReadOptions, SpoolOptions

    spool = SpoolOptions(tmpdir, max_spool_bytes)
    return (
        ReadOptions(spool=spool)
        if max_value_bytes is None
        else ReadOptions(max_value_bytes=max_value_bytes, spool=spool)
    )
