"""Judging a case: every check is one class in one file, its SQL runs over the case's tables."""

from jobsleuth.checks.base import FAMILIES, SEVERITIES, Check, Severity
from jobsleuth.checks.catalogue import all_checks, find_check
from jobsleuth.checks.policy import Accepted, Policy, QueueRule
from jobsleuth.checks.runner import CheckRun, run_checks

__all__ = [
    "FAMILIES",
    "SEVERITIES",
    "Accepted",
    "Check",
    "CheckRun",
    "Policy",
    "QueueRule",
    "Severity",
    "all_checks",
    "find_check",
    "run_checks",
]
