"""Moments and places in evidence, as words of the command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated

import typer

from jobsleuth.errors import UsageError

_FOR_SECONDS = 100_000_000_000
"""A bare number below this is Unix seconds, above it milliseconds: the border is the year 5138, or 1973."""

UntilOption = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="TIME",
        help="Replay an append-only file only up to this moment: ISO 8601 with zone, or Unix time.",
        show_default=False,
    ),
]
UntilOffsetOption = Annotated[
    str | None,
    typer.Option(
        "--until-offset",
        metavar="[FILE:]N",
        help="Replay only commands that end by byte N of the file; of a folder, of its last file unless one is named.",
        show_default=False,
    ),
]


def unix_ms(text: str, option: str) -> int:
    """A time as Unix ms. A time without a zone is refused: nobody can say later which one was meant.

    Args:
        text: what was given.
        option: name of the option it was given to.

    Raises:
        UsageError: no time, or one without a zone.
    """
    if re.fullmatch(r"[0-9]{1,15}", text):
        given = int(text)
        return given * 1000 if given < _FOR_SECONDS else given
    hint = f"e.g. {option} 2026-03-02T02:14:07Z"
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option} {text!r} is not a time", hint=hint) from None
    if when.tzinfo is None:
        raise UsageError(f"{option} {text!r} has no time zone", hint=hint)
    return int((when - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)


def until(text: str | None) -> int | None:
    """`--until` as Unix ms."""
    return None if text is None else unix_ms(text, "--until")


def until_offset(text: str | None) -> tuple[str | None, int] | None:
    """`--until-offset` as the name of a file (None: the last) and an offset in it.

    Raises:
        UsageError: neither N nor FILE:N.
    """
    if text is None:
        return None
    found = re.fullmatch(r"(?:(.+):)?([0-9]{1,19})", text, re.DOTALL)
    if found is None:
        raise UsageError(
            f"--until-offset {text!r} is not N or FILE:N", hint="e.g. --until-offset appendonly.aof.2.incr.aof:4711"
        )
    return found[1], int(found[2])
