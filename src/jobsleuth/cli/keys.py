"""`jobsleuth keys`: what takes the room."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from jobsleuth.cli import output, redaction
from jobsleuth.cli.options import (
    CaseArgument,
    JsonOption,
    QuietOption,
    RedactKeyOption,
    RedactOption,
    RowFormat,
    RowFormatOption,
    row_format,
)
from jobsleuth.errors import UsageError

EXAMPLE = "Example:  jobsleuth keys case --group-by prefix --prefix-depth 2 --no-expiry"


class By(StrEnum):
    """What the largest is the largest of."""

    NBYTES = "nbytes"
    ELEMENTS = "elements"
    KEYS = "keys"


class Group(StrEnum):
    """What keys are added up by."""

    PREFIX = "prefix"
    QUEUE = "queue"
    TYPE = "type"
    ENCODING = "encoding"
    ROLE = "role"
    DIALECT = "dialect"
    DB = "db"


class Histogram(StrEnum):
    """What keys are counted over."""

    EXPIRY = "expiry"


_PLACE = "namespace || '/' || queue"
_BIGGEST = f"key, type, encoding, nbytes, elements, expire_at, expired, {_PLACE} as queue, role, db, evidence"
_SUMS = (
    "count(*) as keys, sum(nbytes)::bigint as nbytes,"
    " round(100.0 * sum(nbytes) / greatest(sum(sum(nbytes)) over (), 1), 1) as percent,"
    " case when sum(elements) < 9223372036854775807 then sum(elements)::bigint end as elements"
)
_GROUPED = f"{_SUMS}, count(*) filter (where expire_at is null) as no_expiry, max(nbytes) as largest"
_MINUTE = 60_000
_WITHIN = (
    ("within a minute", _MINUTE),
    ("within an hour", 60 * _MINUTE),
    ("within a day", 24 * 60 * _MINUTE),
    ("within a week", 7 * 24 * 60 * _MINUTE),
    ("within 30 days", 30 * 24 * 60 * _MINUTE),
    ("within a year", 365 * 24 * 60 * _MINUTE),
)


def command(
    case: CaseArgument,
    top: Annotated[int, typer.Option("--top", min=0, metavar="N", help="At most so many rows; 0: all.")] = 20,
    by: Annotated[By, typer.Option("--by", help="What to put first: the most bytes, elements or keys.")] = By.NBYTES,
    group_by: Annotated[
        Group | None, typer.Option("--group-by", help="Add keys up instead of listing them.", show_default=False)
    ] = None,
    prefix_depth: Annotated[
        int, typer.Option("--prefix-depth", min=1, max=64, metavar="N", help="A prefix ends at the Nth colon.")
    ] = 1,
    histogram: Annotated[
        Histogram | None,
        typer.Option("--histogram", help="Count keys by the time they had left at the snapshot.", show_default=False),
    ] = None,
    no_expiry: Annotated[bool, typer.Option("--no-expiry", help="Only keys that never expire.")] = False,
    kind: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only keys of this type.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", help="Only keys of this queue.")] = None,
    fmt: RowFormatOption = RowFormat.TABLE,
    redact: RedactOption = False,
    redact_key: RedactKeyOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show what takes the room: the biggest keys, sums by prefix or queue, expiry.

    Bytes are those of the snapshot, compressed as stored there; a live server needs more memory for the same key.
    """
    if histogram is not None and group_by is not None:
        raise UsageError("--histogram and --group-by are two different tables", hint="give one of them")
    conditions = ["expire_at is null"] if no_expiry else []
    values: list[Any] = []
    for condition, value in (("type = ?", kind), ("queue = ?", queue)):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    where = f" where {' and '.join(conditions)}" if conditions else ""
    if histogram is not None:
        query = _expiry(where)
    elif group_by is not None:
        query = _grouped(group_by, prefix_depth, by, where)
    else:
        query = _biggest(by, where)
    opened = redaction.opened(case, redact, redact_key)
    total = opened.query(f"select count(*) from ({query})", values).column(0)[0].as_py()
    found = opened.query(f"{query} limit {top}" if top else query, values)
    output.rows(found, row_format(fmt, json), total=total, more="--top N shows more", quiet=quiet)


def _biggest(by: By, where: str) -> str:
    """One row a key.

    Raises:
        UsageError: keys of one key cannot be counted.
    """
    if by is By.KEYS:
        raise UsageError("--by keys counts the keys of groups", hint="add --group-by prefix, queue, type or role")
    return f'select {_BIGGEST} from keys{where} order by {by} desc nulls last, evidence, db, key, "offset"'


def _grouped(group: Group, depth: int, by: By, where: str) -> str:
    """One row a group; what belongs to none is one, too."""
    # The last segment is the key's own name, never part of its prefix; a key without a colon has no prefix.
    segments = f"array_to_string(list_slice(string_split(key, ':')[:-2], 1, {depth}), ':')"
    prefix = f"case when contains(key, ':') then {segments} || ':' end"
    label = {Group.PREFIX: prefix, Group.QUEUE: _PLACE}.get(group, f'"{group}"')
    order = f"{by} desc nulls last, 1 nulls last"
    return f'select {label} as "{group}", {_GROUPED} from keys{where} group by 1 order by {order}'


def _expiry(where: str) -> str:
    """One row for each span of time left, soonest first; spans without a key are left out."""
    cases = ["when expire_at is null then 9", "when as_of is null then 8", "when expire_at <= as_of then 0"]
    labels = [f"when {nth} then '{label}'" for nth, (label, _) in enumerate(_WITHIN, 1)]
    cases += [f"when epoch_ms(expire_at) - as_of_ms <= {span} then {nth}" for nth, (_, span) in enumerate(_WITHIN, 1)]
    named = (
        f"case span when 0 then 'expired already' {' '.join(labels)} when 7 then 'later'"
        " when 8 then 'snapshot time unknown' else 'never' end"
    )
    return (
        f"select {named} as expires, {_SUMS} from (select *, case {' '.join(cases)} else 7 end as span"
        f" from keys join (select evidence, as_of, as_of_ms from evidence) using (evidence){where})"
        " group by span order by span"
    )
