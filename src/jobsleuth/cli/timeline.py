"""`jobsleuth timeline`: the moves of one job, from an append-only file."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from jobsleuth.cli import output, redaction
from jobsleuth.cli.options import CaseArgument, JsonOption, QuietOption, RedactKeyOption, RedactOption
from jobsleuth.cli.places import QueueOption, require_one
from jobsleuth.errors import UsageError
from jobsleuth.safetext import from_bytes, terminal

EXAMPLE = "Example:  jobsleuth timeline case retries --queue emails"

_SHOWN = ("time", "left", "entered", "command", "file", "byte")


def command(
    case: CaseArgument,
    job_id: Annotated[str, typer.Argument(metavar="ID", help="Job id.", show_default=False)],
    queue: QueueOption = None,
    namespace: Annotated[str | None, typer.Option("--namespace", help="BullMQ prefix, or asynq.")] = None,
    redact: RedactOption = False,
    redact_key: RedactKeyOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Tell every move of one job in order: time, structure left and entered, command, place in the file.

    Needs a case made from an append-only file. A job that has vanished is found, too, with what removed its record.
    """
    from jobsleuth.reports import flow, timelines

    opened = redaction.opened(case, redact, redact_key)
    # An id that is not UTF-8 reaches us as the system passes it; the tables show it escaped.
    job_id = from_bytes(os.fsencode(job_id))
    found = timelines(opened, job_id, queue, namespace)
    if not found:
        told = any(info.format == "aof" for info in opened.manifest.evidence)
        raise UsageError(
            f"no move of job {terminal(job_id, 80)} is known",
            file=str(case),
            hint="job ids are in the tables jobs and transitions"
            if told
            else "a snapshot shows one moment: analyze an append-only file",
        )
    require_one(opened, job_id, found)
    if json:
        output.dump([_facts(one) for one in found])
        return
    for nth, one in enumerate(found):
        if nth:
            output.show([()])
        if not quiet:
            output.show([((f"Job {terminal(one.job_id, 80)} of {terminal(one.place, 80)}", "strong"),)])
        output.table(_SHOWN, [_row(step) for step in one.steps])
        for sentence in _removals(one):
            output.show(flow(((sentence, "warning"),), output.width()))


def _row(step: dict[str, Any]) -> list[Any]:
    return [_time(step), *(step[name] for name in ("from_structure", "to_structure", "command", "file", "file_offset"))]


def _time(step: dict[str, Any]) -> str | None:
    from jobsleuth.reports import moment

    return None if step["at"] is None else moment(step["at"])


def _removals(one: Any) -> list[str]:
    """A sentence for each time the record was deleted."""
    told = []
    for step in one.removals():
        when = f"at {_time(step)} UTC" if step["at"] is not None else "at a time that the file does not note"
        was_in = step["was_in"]
        where = f"while the job was in {terminal(was_in)}" if was_in else "when the job was in no structure"
        place = f"byte {step['file_offset']:,} of {terminal(step['file'] or '', 80)}"
        alone = "by itself" if step["transaction_number"] is None else "in a transaction"
        after = "; the key came again later" if step["came_back"] else ""
        told.append(f"{terminal(step['command'])} removed its record {when}, {alone}, {where} ({place}){after}.")
    return told


def _facts(one: Any) -> dict[str, Any]:
    from jobsleuth.reports import with_moments

    names = ("evidence", "db", "dialect", "namespace", "queue", "job_id")
    steps, removals = (
        [with_moments({k: v for k, v in step.items() if k not in names}) for step in some]
        for some in (one.steps, one.removals())
    )
    return {**{name: getattr(one, name) for name in names}, "steps": steps, "removals": removals}
