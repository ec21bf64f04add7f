"""Judging a case: every check is one class in one file, its SQL runs over the case's tables."""

from jobsleuth.checks.base import FAMILIES, SEVERITIES, Check, Severity
from jobsleuth.checks.baseline import make_baseline, read_baseline, with_baseline
from jobsleuth.checks.catalogue import all_checks, find_check
from jobsleuth.checks.own import OwnCheck, load_checks
from jobsleuth.checks.policy import Accepted, Policy, QueueRule
from jobsleuth.checks.policy_file import FILE_NAME as POLICY_FILE
from jobsleuth.checks.policy_file import load_policy, read_end
from jobsleuth.checks.runner import CheckRun, run_checks

__all__ = [
    "FAMILIES",
    "POLICY_FILE",
    "SEVERITIES",
    "Accepted",
    "Check",
    "CheckRun",
    "OwnCheck",
    "Policy",
    "QueueRule",
    "Severity",
    "all_checks",
    "find_check",
    "load_checks",
    "load_policy",
    "make_baseline",
    "read_baseline",
    "read_end",
    "run_checks",
    "with_baseline",
]
