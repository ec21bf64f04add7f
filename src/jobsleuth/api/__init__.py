"""What jobsleuth promises to Python users; `import jobsleuth` re-exports it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from jobsleuth.api.desk import MOST_BYTES, Case
from jobsleuth.api.job import Job
from jobsleuth.case import open_case as _open_case
from jobsleuth.checks import CheckRun, Policy, all_checks, load_checks, load_policy, run_checks, with_baseline
from jobsleuth.checks import OwnCheck as Check
from jobsleuth.pipeline import AnalyzeOptions
from jobsleuth.pipeline import analyze as _analyze

__all__ = ["MOST_BYTES", "AnalyzeOptions", "Case", "Check", "CheckRun", "Job", "analyze", "check", "open_case"]

_Name = str | os.PathLike[str]


def analyze(
    evidence: _Name | Sequence[_Name],
    out: _Name,
    options: AnalyzeOptions | None = None,
    *,
    checks: _Name | Sequence[_Name] = (),
) -> Case:
    """Reads snapshots, append-only files and exports, and builds the case folder `out`.

    A check that could not run, your own included, is no error: `case.checks` has its `status` and `reason`.

    Args:
        evidence: one path or several (shards of one cluster, say).
        out: folder to make; an existing one is refused unless `options.force`.
        options: see :class:`AnalyzeOptions`.
        checks: Python files with checks of your own (:class:`Check`), which run besides the others.

    Returns:
        The opened case.

    Raises:
        JobsleuthError: unusable evidence, output or checks; nothing is left behind.
    """
    chosen = options or AnalyzeOptions()
    own = load_checks(*_paths(checks))
    if own:
        chosen = replace(chosen, checks=(*chosen.checks, *own))
    return Case.of(_analyze(_paths(evidence), Path(out), chosen))


def open_case(path: _Name) -> Case:
    """Opens a case folder.

    Raises:
        CaseError: there is none at `path`, or it is damaged or newer than this jobsleuth.
    """
    return Case.of(_open_case(Path(path)))


def check(
    case: Case,
    *,
    checks: _Name | Sequence[_Name] = (),
    config: _Name | None = None,
    baseline: _Name | None = None,
) -> CheckRun:
    """Judges a case afresh and writes nothing into it.

    A check that could not run, your own included, is no error: `checks` of the outcome has its `status` and `reason`.

    Args:
        case: an open case.
        checks: Python files with checks of your own (:class:`Check`), which run besides the others.
        config: a policy file (`jobsleuth.toml`); None: none is looked for.
        baseline: a file that `jobsleuth baseline` wrote: its findings are left out.

    Raises:
        CheckError: own checks cannot be loaded.
        UsageError: one of the other files cannot be read or holds what is not known.
    """
    own = load_checks(*_paths(checks))
    policy = Policy() if config is None else load_policy(Path(config), own)
    if baseline is not None:
        policy = with_baseline(policy, Path(baseline))
    return run_checks(case, policy, [*all_checks(), *own])


def _paths(given: _Name | Sequence[_Name]) -> list[Path]:
    return [Path(given)] if isinstance(given, str | os.PathLike) else [Path(one) for one in given]
