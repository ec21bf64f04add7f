"""jobsleuth: where did this job actually go? Offline forensics for queues in a Redis snapshot.

>>> import jobsleuth
>>> case = jobsleuth.open_case("CASE")
>>> case.jobs  # pandas, without the big columns
>>> print(case.job("42"))  # all that is known of one job
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from jobsleuth.api import AnalyzeOptions, Case, Check, Job, analyze, check, open_case
    from jobsleuth.errors import JobsleuthError

__all__ = [
    "AnalyzeOptions",
    "Case",
    "Check",
    "Job",
    "JobsleuthError",
    "__version__",
    "analyze",
    "check",
    "open_case",
]


def __getattr__(name: str) -> Any:
    # Lazily: `jobsleuth --version` and shell completion must not pay for pyarrow.
    if name == "__version__":
        from importlib.metadata import version

        return version("jobsleuth")
    if name == "JobsleuthError":
        from jobsleuth.errors import JobsleuthError

        return JobsleuthError
    if name in __all__:
        from jobsleuth import api

        return getattr(api, name)
    raise AttributeError(f"module 'jobsleuth' has no attribute {name!r}")
