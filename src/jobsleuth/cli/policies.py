"""Which policy a command judges with, and what it says of findings that the policy accepts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jobsleuth.cli import output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobsleuth.checks import Check, Policy
    from jobsleuth.dialects import Described


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


def tell(accepted: int, lapsed: int, quiet: bool) -> None:
    """A note on findings that are not reported, or are again."""
    from jobsleuth.reports import number

    if accepted and not quiet:
        output.note(f"{number(accepted, 'known finding')} accepted by the policy or the baseline")
    if lapsed and not quiet:
        why = "the time for which it was accepted is over, or it got worse"
        output.note(f"{number(lapsed, 'finding')} reported again: {why}")
