"""`jobsleuth demo`: something to look around in, without a dump of one's own."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from jobsleuth.cli import lean, output
from jobsleuth.cli.options import QuietOption
from jobsleuth.errors import UsageError

EXAMPLE = "Example:  jobsleuth demo"
_SAMPLES = ("bullmq.rdb", "asynq.rdb")


def command(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder to make, for dumps and case.")
    ] = Path("jobsleuth-demo"),
    quiet: QuietOption = False,
) -> None:
    """Make a sample case of two small dumps that come with jobsleuth: of queues whose workers were killed.

    The dumps are copied into the folder, so that every command can be tried on them.
    """
    lean.without_pandas()
    from jobsleuth.pipeline import AnalyzeOptions, analyze_and_tell
    from jobsleuth.reports import lines

    try:
        out.mkdir()
    except FileExistsError:
        raise UsageError("the folder exists", file=str(out), hint="choose another one: --out FOLDER") from None
    try:
        dumps = [_copied(name, out) for name in _SAMPLES]
        with output.progress(quiet) as progress:
            case, report = analyze_and_tell(dumps, out / "case", AnalyzeOptions(), progress)
        if quiet:
            return
        output.show(lines(replace(report, fail_on="never"), width=output.width()))
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        raise
    place = shlex.quote(str(case.path))
    steps = (
        (f"jobsleuth job {place} held-1 --queue press", "what became of one of the jobs"),
        (f"jobsleuth queues {place}", "the queues, with their signals"),
        (f'jobsleuth sql {place} "select queue, state, count(*) from jobs group by all order by all"', "any question"),
        (f"jobsleuth analyze {shlex.quote(str(dumps[0]))} --out mine", "how the case was made"),
    )
    output.show([(), (("Go on:", "strong"),)])
    output.show([(("  ", "plain"), (step, "command"), (f"   {why}", "dim")) for step, why in steps])
    output.show([(("The same for a browser: ", "plain"), (str(case.path / "report.html"), "strong"))])


def _copied(name: str, folder: Path) -> Path:
    dump = folder / name
    dump.write_bytes((files("jobsleuth.cli") / "samples" / name).read_bytes())
    return dump
