"""`jobsleuth job`: one job, told."""

from __future__ import annotations

import os
import shlex
from typing import Annotated

import typer

from jobsleuth.cli import output, redaction
from jobsleuth.cli.options import (
    CaseArgument,
    JsonOption,
    QuietOption,
    RedactKeyOption,
    RedactOption,
    ShowPayloadOption,
)
from jobsleuth.cli.places import QueueOption, require_one
from jobsleuth.errors import UsageError
from jobsleuth.safetext import from_bytes, terminal

EXAMPLE = "Example:  jobsleuth job case held-1 --queue press"


def command(
    case: CaseArgument,
    job_id: Annotated[str, typer.Argument(metavar="ID", help="Job id.", show_default=False)],
    queue: QueueOption = None,
    namespace: Annotated[str | None, typer.Option("--namespace", help="BullMQ prefix, or asynq.")] = None,
    db: Annotated[int | None, typer.Option("--db", min=0, help="Redis database number.")] = None,
    decode_raw: Annotated[
        bool,
        typer.Option("--decode-raw", help="Also show payload, result and unread bytes as protobuf and MessagePack."),
    ] = False,
    show_payload: ShowPayloadOption = None,
    redact: RedactOption = False,
    redact_key: RedactKeyOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Tell one job's story: record, where its id is, lock and holder, kin, schedule, events, findings, what next.

    Of payload, result and the like it shows the first 200 bytes; --show-payload 0 shows size and digest instead.
    """
    from jobsleuth.reports import PAYLOAD_SHOWN, find_jobs, picture, picture_lines, raw_facts, raw_lines, story, traces

    shown = PAYLOAD_SHOWN if show_payload is None else show_payload or None
    opened = redaction.opened(case, redact, redact_key)
    # An id that is not UTF-8 reaches us as the system passes it; the tables show it escaped.
    given = os.fsencode(job_id)
    job_id = from_bytes(given)
    found = find_jobs(opened, job_id if given == job_id.encode() else given, queue, namespace, db)
    if not found:
        where = f" in queue {terminal(queue)}" if queue is not None else ""
        where += f" of database {db}" if where and db is not None else f" in database {db}" if db is not None else ""
        named = "; ".join(traces(opened, job_id))
        raise UsageError(
            f"no job {terminal(job_id, 80)}{where}",
            file=str(case),
            hint=f"named by {named}" if named else f"jobsleuth jobs {shlex.quote(str(case))} lists the ids",
        )
    require_one(opened, job_id, found)
    # The same queue in several databases or files: all of them, one after the other, unless --db says which.
    with output.patience("gathering", quiet):
        pictures = [picture(opened, ref) for ref in found]
    if json:
        raw = [{"raw": raw_facts(p.job)} if decode_raw else {} for p in pictures]
        output.dump([{**p.facts(shown), "story": story(p), **more} for p, more in zip(pictures, raw, strict=True)])
        return
    for nth, one in enumerate(pictures):
        output.show([()] if nth else [])
        output.show(picture_lines(one, output.width(), shown))
        if decode_raw:
            output.show(((line, "plain"),) for line in ("", *raw_lines(one.job)))
