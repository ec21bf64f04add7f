"""`jobsleuth explain`: what a check means."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from jobsleuth.cli import output, policies
from jobsleuth.cli.options import ChecksOption, JsonOption, QuietOption

if TYPE_CHECKING:
    from jobsleuth.reports import Line

EXAMPLE = "Example:  jobsleuth explain MB001"


def command(
    check: Annotated[
        str | None,
        typer.Argument(metavar="[CHECK]", help="Id or name of a check; all are listed without.", show_default=False),
    ] = None,
    own: ChecksOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Explain a check: what it finds, why it matters, what to do next, what could make it a false alarm."""
    from jobsleuth.checks import all_checks, find_check

    yours = policies.own(own)
    checks = [*all_checks(), *yours]
    if check is not None:
        checks = [c for c in yours if check.upper() == c.id or check.lower() == c.name] or [find_check(check)]
    if json:
        found = [
            {
                "id": c.id,
                "name": c.name,
                "title": c.title,
                "severity": c.severity,
                "dialects": list(c.dialects),
                "versions": c.versions,
                "impact": c.impact,
                "heals": c.heals,
                "basis": c.basis,
                "opt_in": c.opt_in,
                "parameters": dict(c.parameters),
                "texts": c.texts(),
                "sql": inspect.cleandoc(c.sql),
            }
            for c in checks
        ]
        output.dump(found if check is None else found[0])
        return
    if check is None:
        output.table(["check", "severity", "title"], [[c.id, c.severity, c.title] for c in checks], quiet)
        return
    only, width = checks[0], output.width()
    about = ", ".join(only.dialects) or "every library"
    facts = {"Releases": only.versions, "Means": f"they {only.impact}", "Heals by itself": only.heals}
    facts |= {f"Parameter {name}": f"{default:,}" for name, default in only.parameters.items()}
    facts |= {"Runs": "only if the policy enables it"} if only.opt_in else {}
    told: list[Line] = [
        ((f"{only.id} {only.title}", "strong"),),
        ((f"{only.name} · {only.severity} · {about}", "dim"),),
    ]
    told += [(), *(((f"{name}: ", "dim"), (text, "plain")) for name, text in facts.items())]
    for heading, text in only.texts().items():
        told += [(), ((heading, "strong"),), *(((f"  {line}", "plain"),) if line else () for line in _paragraphs(text))]
    output.show(itertools.chain.from_iterable(_folded(line, width) for line in told))
    output.show(
        [(), (("SQL", "strong"),), *(((f"  {line}", "plain"),) for line in inspect.cleandoc(only.sql).splitlines())]
    )


def _folded(line: Line, width: int) -> Iterable[Line]:
    from jobsleuth.reports import flow

    if not line:
        return [line]
    return flow(line, width, hang=0 if line[0][0].startswith(" ") else 2)


def _paragraphs(text: str) -> Iterator[str]:
    """A line a paragraph, to be folded as the terminal needs it; lists and what is indented keep their lines."""
    for nth, paragraph in enumerate(re.split(r"\n[ ]*\n", text)):
        lines = paragraph.splitlines()
        yield from [""] if nth else []
        yield from lines if any(re.match(r"\s|[-*] |\d+[.)] ", line) for line in lines) else [" ".join(lines)]
