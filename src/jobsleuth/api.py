"""What jobsleuth promises to Python users; `import jobsleuth` re-exports it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from jobsleuth.case import Case, open_case
from jobsleuth.checks import CheckRun, Policy, load_policy, run_checks, with_baseline
from jobsleuth.pipeline import AnalyzeOptions
from jobsleuth.pipeline import analyze as _analyze

__all__ = ["AnalyzeOptions", "Case", "CheckRun", "analyze", "check", "open_case"]


def analyze(
    evidence: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    options: AnalyzeOptions | None = None,
) -> Case:
    """Reads snapshots, append-only files and exports, and builds the case folder `out`.

    Args:
        evidence: one path or several (shards of one cluster, say).
        out: folder to make; an existing one is refused unless `options.force`.
        options: see :class:`AnalyzeOptions`.

    Returns:
        The opened case.

    Raises:
        JobsleuthError: unusable evidence or output; nothing is left behind.
    """
    many = [evidence] if isinstance(evidence, str | os.PathLike) else list(evidence)
    return _analyze([Path(e) for e in many], Path(out), options or AnalyzeOptions())


def check(
    case: Case, *, config: str | os.PathLike[str] | None = None, baseline: str | os.PathLike[str] | None = None
) -> CheckRun:
    """Judges a case afresh and writes nothing into it.

    Args:
        case: an open case.
        config: a policy file (`jobsleuth.toml`); None: none is looked for.
        baseline: a file that `jobsleuth baseline` wrote: its findings are left out.

    Raises:
        UsageError: one of the files cannot be read or holds what is not known.
    """
    policy = Policy() if config is None else load_policy(Path(config))
    return run_checks(case, policy if baseline is None else with_baseline(policy, Path(baseline)))
