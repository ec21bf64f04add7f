"""`jobsleuth explain`: what a check means."""

from __future__ import annotations

import inspect
from typing import Annotated

import typer

from jobsleuth.cli import output, policies
from jobsleuth.cli.options import ChecksOption, JsonOption, QuietOption

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
    only = checks[0]
    about = ", ".join(only.dialects) or "every library"
    output.show([((f"{only.id} {only.title}", "strong"),), ((f"{only.name} · {only.severity} · {about}", "dim"),)])
    facts = {"Releases": only.versions, "Means": f"they {only.impact}", "Heals by itself": only.heals}
    facts |= {f"Parameter {name}": f"{default:,}" for name, default in only.parameters.items()}
    facts |= {"Runs": "only if the policy enables it"} if only.opt_in else {}
    output.show([(), *(((f"{name}: ", "dim"), (text, "plain")) for name, text in facts.items())])
    for heading, text in only.texts().items():
        output.show([(), ((heading, "strong"),), *(((f"  {line}".rstrip(), "plain"),) for line in text.splitlines())])
    output.show(
        [(), (("SQL", "strong"),), *(((f"  {line}", "plain"),) for line in inspect.cleandoc(only.sql).splitlines())]
    )
