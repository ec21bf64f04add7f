"""Which policy a command judges with, and what it says of findings that the policy accepts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jobsleuth.cli import output
from jobsleuth.errors import CheckError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from jobsleuth.case import Manifest
    from jobsleuth.checks import Check, Policy
    from jobsleuth.dialects import Described

_NAMED = 6
"""Checks that a note names."""


def chosen(config: Path | None, known: Path | None = None, own: Sequence[type[Check]] = ()) -> Policy:
    """The policy of `config`, else of ./jobsleuth.toml, else the default; with the baseline `known`.

    `own` are checks of the user, which the policy may name.

    Raises:
        UsageError: one of the files cannot be read or holds what is not known.
    """
    from jobsleuth.checks import POLICY_FILE, Policy, load_policy, with_baseline

    here = Path(POLICY_FILE)
    file = config if config is not None else here if here.is_file() else None
    policy = Policy() if file is None else load_policy(file, own)
    return policy if known is None else with_baseline(policy, known)


def described(layout: Path | None, config: Path | None) -> Described:
    """The layouts that `layout` describes, else those of `config`, else of ./jobsleuth.toml.

    Raises:
        UsageError: a description is not whole or holds what is not known, with its line.
    """
    from jobsleuth.checks import POLICY_FILE
    from jobsleuth.dialects import Described

    here = Path(POLICY_FILE)
    file = layout or config or (here if here.is_file() else None)
    if file is None:
        return Described()
    from jobsleuth.dialects.layouts.file import load_layouts

    return load_layouts(file)


def own(files: Sequence[Path] | None) -> list[type[Check]]:
    """The user's own checks.

    Raises:
        CheckError: a file cannot be run or holds no usable check.
    """
    from jobsleuth.checks import load_checks

    return load_checks(*files) if files else []


def require_own_ran(checks: pa.Table, own: Sequence[type[Check]], hint: str) -> None:
    """Whoever names a check wants its answer: one that gave none is an error, not a line of the report alone.

    Args:
        checks: rows of the table `checks` that are the outcome.
        own: the user's own checks.
        hint: what to do, once the check is mended.

    Raises:
        CheckError: one of them could not run.
    """
    ids = {check.id for check in own}
    rows = checks.select(["check_id", "status", "reason"]).to_pylist()
    unrun = [row for row in rows if row["check_id"] in ids and row["status"] == "could_not_run"]
    if unrun:
        others = ", ".join(row["check_id"] for row in unrun[1:])
        more = f"; neither could {others}" if others else ""
        raise CheckError(f"{unrun[0]['check_id']} could not run: {unrun[0]['reason']}{more}", hint=hint)


def tell_left_out(manifest: Manifest, own: Sequence[type[Check]], quiet: bool) -> None:
    """A note on own checks that the case was made with and that are not among `own`: their findings are not judged."""
    lack = sorted(manifest.options.get("own_checks", {}).keys() - {check.id for check in own})
    if lack and not quiet:
        named = ", ".join(lack[:_NAMED]) + (f" and {len(lack) - _NAMED:,} more" if len(lack) > _NAMED else "")
        output.note(f"the case was made with own checks that did not run now: {named}; --checks FILE brings them")


def tell(accepted: int, lapsed: int, quiet: bool) -> None:
    """A note on findings that are not reported, or are again."""
    from jobsleuth.reports import number

    if accepted and not quiet:
        output.note(f"{number(accepted, 'known finding')} accepted by the policy or the baseline")
    if lapsed and not quiet:
        why = "the time for which it was accepted is over, or it got worse"
        output.note(f"{number(lapsed, 'finding')} reported again: {why}")
