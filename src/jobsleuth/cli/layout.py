"""`jobsleuth layout`: descriptions of home-made layouts against evidence."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jobsleuth.cli import output, policies
from jobsleuth.cli.options import ConfigOption, LayoutOption, MaxSpoolOption, MaxValueOption, TmpdirOption, reading

if TYPE_CHECKING:
    from jobsleuth.pipeline.described import LayoutTest, PatternFact
    from jobsleuth.reports import Line

EXAMPLE = "Example:  jobsleuth layout test dump.rdb --layout layouts.toml"


class Action(StrEnum):
    """What to do with the descriptions."""

    TEST = "test"


def command(
    action: Annotated[Action, typer.Argument(metavar="test", help="Holds them against the keys.", show_default=False)],
    evidence: Annotated[
        Path, typer.Argument(metavar="EVIDENCE", help="Any evidence that analyze reads.", show_default=False)
    ],
    layout: LayoutOption = None,
    config: ConfigOption = None,
    tmpdir: TmpdirOption = None,
    max_spool_bytes: MaxSpoolOption = None,
    max_value_bytes: MaxValueOption = None,
) -> None:
    """Tell which keys the described layouts take, which nearly, and which are in doubt.

    A mistake in a description, or a unit that puts times outside the years 2000 to 2100, is an error with its line.
    """
    del action
    described = policies.described(layout, config)
    from jobsleuth.pipeline.described import explain_layouts

    output.show(_lines(explain_layouts(evidence, described, reading(tmpdir, max_spool_bytes, max_value_bytes))))


def _lines(found: LayoutTest) -> Iterator[Line]:
    from jobsleuth.reports import number
    from jobsleuth.safetext import terminal

    for fact in found.layouts:
        jobs = sum(fact.states.values())
        listed = ", ".join(f"{count:,} {state}" for state, count in sorted(fact.states.items()))
        told = f"{number(fact.queues, 'queue')}, {number(jobs, 'job')}" + (f": {listed}" if listed else "")
        yield ((f"{terminal(fact.name, 60)}", "strong"), (f"  (line {fact.line})  {told}", "plain"))
        if fact.without_record:
            ids = number(fact.without_record, "id has", "ids have")
            yield ((f"  {ids} no record", "warning"),)
        if lone := fact.states.get("unknown"):
            yield ((f"  {number(lone, 'job is', 'jobs are')} in no structure: is one not described?", "warning"),)
        for line, what in fact.unread:
            yield ((f"  line {line}  {what}", "warning"),)
        for pattern in fact.patterns:
            yield from _pattern(pattern)
        yield ()
    for key, taker, others in found.ambiguous:
        told = f"taken by {terminal(taker, 60)}, fits {terminal(others, 120)} too"
        yield ((f"in doubt: {terminal(key, 80)} is {told}", "warning"),)
    if found.ambiguous_count > len(found.ambiguous):
        yield ((f"  {found.ambiguous_count - len(found.ambiguous):,} more are in doubt", "warning"),)
    for key, title in found.foreign:
        yield ((f"not taken: {terminal(key, 80)} belongs to {title}", "warning"),)
    if found.foreign_count > len(found.foreign):
        yield ((f"  {found.foreign_count - len(found.foreign):,} more belong to somebody else", "warning"),)


def _pattern(fact: PatternFact) -> Iterator[Line]:
    from jobsleuth.reports import number
    from jobsleuth.safetext import terminal

    style = "plain" if fact.keys else "warning"
    count = number(fact.keys, "key") if fact.keys else "takes no key"
    yield ((f"  line {fact.line}  {terminal(fact.text, 60)}  ({fact.what}): {count}", style),)
    if fact.examples:
        yield ((f"    e.g. {', '.join(terminal(key, 60) for key in fact.examples)}", "dim"),)
    if fact.other_count:
        told = ", ".join(f"{terminal(key, 60)} is a {type_}" for key, type_ in fact.other)
        more = f" and {fact.other_count - len(fact.other):,} more" if fact.other_count > len(fact.other) else ""
        yield ((f"    fit by name, but not by type: {told}{more}", "warning"),)
    if fact.near_count:
        shown = ", ".join(terminal(key, 60) for key in fact.near)
        more = f" and {fact.near_count - len(fact.near):,} more" if fact.near_count > len(fact.near) else ""
        yield ((f"    begin like it, fit no pattern: {shown}{more}", "dim"),)
