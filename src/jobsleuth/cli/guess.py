"""`jobsleuth guess`: what else in the evidence looks like a queue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jobsleuth.cli import output, policies
from jobsleuth.cli.options import (
    ConfigOption,
    JsonOption,
    LayoutOption,
    MaxSpoolOption,
    MaxValueOption,
    TmpdirOption,
    reading,
)

if TYPE_CHECKING:
    from jobsleuth.pipeline.guess import Guess
    from jobsleuth.reports import Line

EXAMPLE = "Example:  jobsleuth guess dump.rdb"


def command(
    evidence: Annotated[
        Path, typer.Argument(metavar="EVIDENCE", help="Any evidence that analyze reads.", show_default=False)
    ],
    layout: LayoutOption = None,
    config: ConfigOption = None,
    tmpdir: TmpdirOption = None,
    max_spool_bytes: MaxSpoolOption = None,
    max_value_bytes: MaxValueOption = None,
    json: JsonOption = False,
) -> None:
    """Look at keys that belong to no known queue and no described layout, and say which of them look like a queue.

    Each guess comes with what speaks for it and with a layout to start from, for jobsleuth.toml or --layout.
    """
    described = policies.described(layout, config)
    from jobsleuth.pipeline.guess import guess
    from jobsleuth.safetext import from_bytes

    found = guess(evidence, described, reading(tmpdir, max_spool_bytes, max_value_bytes))
    if json:
        output.dump(
            [
                {
                    "kind": g.kind,
                    "keys": [from_bytes(key) for key in g.keys],
                    "count": g.count,
                    "why": list(g.why),
                    "layout": g.layout,
                }
                for g in found
            ]
        )
    else:
        output.show(_lines(found))


def _lines(found: list[Guess]) -> Iterator[Line]:
    from jobsleuth.reports import number
    from jobsleuth.safetext import from_bytes, terminal

    if not found:
        yield (("Nothing that no library claims looks like a queue.", "plain"),)
    for nth, guess in enumerate(found, 1):
        yield ((f"{nth}  {guess.kind}", "strong"), (f"  {number(guess.count, 'key')}", "plain"))
        keys = ", ".join(terminal(from_bytes(key), 60) for key in guess.keys)
        yield ((f"   e.g. {keys}", "plain"),)
        for reason in guess.why:
            yield ((f"   {terminal(reason, 200)}", "dim"),)
        if guess.layout is not None:
            yield ()
            for line in guess.layout.splitlines():
                yield ((line, "plain"),)
        yield ()
