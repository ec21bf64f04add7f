"""Assembles the commands and turns what goes wrong into one line and an exit code: 0 fine, 1 findings, 2 unusable."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from inspect import getdoc
from typing import Annotated

import typer

from jobsleuth.cli import (
    analyze,
    baseline,
    cat,
    check,
    crosscheck,
    demo,
    explain,
    export,
    guess,
    job,
    jobs,
    keys,
    layout,
    lean,
    output,
    queues,
    report,
    sql,
    timeline,
    verify,
)
from jobsleuth.errors import JobsleuthError

UNUSABLE = 2
_SIGNALLED = 128
"""What shells add to a signal's number for the exit code of whoever it ended."""
_DEBUG = "JOBSLEUTH_DEBUG"
_MEMORY = ("no more memory", "raise the limit on it (ulimit -v, the container's), or use a machine with more")
_LACKING = {
    "Too many open files": ("no more open files", "raise the limit on them: ulimit -n 1024"),
    "can't start new thread": ("no more threads", "raise the limit on processes (ulimit -u) or on memory (ulimit -v)"),
    "Cannot allocate memory": _MEMORY,
    "failed to map segment": _MEMORY,
}
"""What is in the texts of libraries' own errors when a limit of the system was met; what to say and what to do."""

app = typer.Typer(
    name="jobsleuth",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
_COMMANDS = (
    *(analyze, check, baseline, report, queues, jobs, job, timeline, keys, export, sql),
    *(explain, cat, guess, layout, crosscheck, verify, demo),
)


def _told(command: Callable[..., None]) -> str:
    """What a command says of itself, a line a paragraph: `--help` would break lines where the source does."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in (getdoc(command) or "").split("\n\n"))


for module in _COMMANDS:
    app.command(module.__name__.rpartition(".")[2], help=_told(module.command), epilog=module.EXAMPLE)(module.command)


def _version(wanted: bool) -> None:
    if wanted:
        from jobsleuth import __version__

        typer.echo(f"jobsleuth {__version__}")
        raise typer.Exit


@app.callback(epilog="Example:  jobsleuth analyze dump.rdb --out case")
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Where did this job actually go? Reads a copied Redis snapshot, never a live server.

    Makes a case of it: tables of BullMQ and Asynq jobs, and findings about everything that does not add up.
    """


def run() -> None:
    """The console entry: runs the command line and exits."""
    lean.trim()
    output.open_streams()
    if hasattr(signal, "SIGPIPE"):
        # Whoever read us has seen enough (`| head`): end as other tools do, quietly.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    # An orderly end, so that a half-built case is removed; also when the terminal goes away.
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda number, _: sys.exit(_SIGNALLED + number))
    lean.leave(main())


def main() -> int:
    """Runs the command line and returns the exit code; no exception leaves it."""
    code = _done()
    try:
        sys.stdout.flush()
    except OSError as problem:
        # Short output meets a full disk only now; of longer output this was said already.
        if code != UNUSABLE:
            output.error(output.unwritten(problem))
        return UNUSABLE
    return code


def _done() -> int:
    try:
        app()
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else UNUSABLE if done.code else 0
    except JobsleuthError as problem:
        output.error(problem)
    except OSError as problem:
        # Every file is opened by its name: an error without one comes from what was open before.
        if problem.filename is None and problem.errno is not None:
            output.error(output.unwritten(problem))
        else:
            output.error(JobsleuthError(problem.strerror or str(problem), file=problem.filename))
    except MemoryError:
        output.error(JobsleuthError("out of memory", hint="ask for fewer rows, or use a machine with more"))
    except Exception as problem:
        if _interrupted(problem):
            return _SIGNALLED + signal.SIGINT
        if os.environ.get(_DEBUG):
            raise
        lacking = next((what for sign, what in _LACKING.items() if sign in str(problem)), None)
        if lacking is not None:
            output.error(JobsleuthError(f"the system gives this program {lacking[0]}", hint=lacking[1]))
            return UNUSABLE
        told = f"unexpected {type(problem).__name__}: {problem}"
        output.error(JobsleuthError(told, hint=f"this is a fault of jobsleuth; {_DEBUG}=1 shows where"))
    return UNUSABLE


def _interrupted(problem: Exception) -> bool:
    """Whether the problem is Ctrl-C that arrived inside a query: DuckDB tells it as an error of its own."""
    return isinstance(problem, RuntimeError) and str(problem).startswith("Query interrupted")
