"""Known findings: a file of fingerprints that a case is held against, so that only new ones are reported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from jobsleuth import safetext
from jobsleuth.checks.base import SEVERITIES
from jobsleuth.checks.policy import Accepted, Policy
from jobsleuth.checks.policy_file import read_end
from jobsleuth.errors import UsageError

FORMAT = "jobsleuth-baseline/1"
_ENTRY = {"fingerprint", "check_id", "severity", "namespace", "queue", "subject", "message", "reason", "expires"}
_LARGEST = 1 << 30


def make_baseline(findings: pa.Table, reason: str, expires: str | None, known: Mapping[str, Mapping[str, Any]]) -> str:
    """The findings as a baseline: JSON, sorted, the same text for the same findings.

    Args:
        findings: rows of the table `findings`.
        reason: why they are accepted.
        expires: date from which on they are not, `2027-01-31`; None: never.
        known: entries of an older baseline by fingerprint: what they say of reason and expiry is kept.
    """
    entries: dict[str, dict[str, Any]] = {}
    columns = ("fingerprint", "check_id", "severity", "namespace", "queue", "job_id", "key", "message")
    rows = findings.select(list(columns)).to_pylist()
    for row in sorted(rows, key=lambda r: SEVERITIES.index(r["severity"])):
        old = known.get(row["fingerprint"], {})
        entry = {
            "fingerprint": row["fingerprint"],
            "check_id": row["check_id"],
            "severity": row["severity"],
            "namespace": row["namespace"],
            "queue": row["queue"],
            "subject": row["key"] if row["job_id"] is None else row["job_id"],
            "message": row["message"],
            "reason": old.get("reason", reason),
            "expires": old.get("expires", expires),
        }
        entries.setdefault(row["fingerprint"], entry)
    ordered = sorted(entries.values(), key=lambda e: (e["check_id"], e["fingerprint"]))
    lines = ",\n".join(f"  {safetext.as_json(entry)}" for entry in ordered)
    inner = f"[\n{lines}\n ]" if ordered else "[]"
    return f'{{\n "format": "{FORMAT}",\n "findings": {inner}\n}}\n'


def read_baseline(path: Path) -> dict[str, dict[str, Any]]:
    """Entries of a baseline by fingerprint.

    Raises:
        UsageError: it cannot be read or is none.
    """
    file = str(path)
    try:
        if path.stat().st_size > _LARGEST:
            raise UsageError("the baseline is too large to be one", file=file)
        stored = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"the baseline cannot be read: {error.strerror}", file=file) from error
    except (ValueError, RecursionError) as error:
        raise UsageError("the baseline is no JSON", file=file, hint="jobsleuth baseline CASE writes one") from error
    if not isinstance(stored, dict) or stored.get("format") != FORMAT or not isinstance(stored.get("findings"), list):
        raise UsageError(f"this is no {FORMAT}", file=file, hint="jobsleuth baseline CASE writes one")
    found: dict[str, dict[str, Any]] = {}
    for number, entry in enumerate(stored["findings"], 1):
        if not isinstance(entry, dict) or not isinstance(entry.get("fingerprint"), str):
            raise UsageError(f"finding {number} has no fingerprint", file=file)
        strange = sorted(set(entry) - _ENTRY)
        if strange:
            shown = safetext.terminal(strange[0], 60)
            hint = f"there are: {', '.join(sorted(_ENTRY))}"
            raise UsageError(f"finding {number}: there is no key {shown}", file=file, hint=hint)
        if entry.get("severity") not in (None, *SEVERITIES):
            shown = safetext.terminal(str(entry["severity"]), 60)
            raise UsageError(f"finding {number}: no severity is {shown}", file=file, hint="error, warning or info")
        found[entry["fingerprint"]] = entry
    return found


def with_baseline(policy: Policy, path: Path) -> Policy:
    """The policy that accepts the findings of a baseline as well.

    Raises:
        UsageError: it cannot be read or is none.
    """
    accepted = dict(policy.accepted)
    for fingerprint, entry in read_baseline(path).items():
        end = read_end(entry.get("expires"), str(path), f"finding {fingerprint}: expires")
        reason = str(entry.get("reason") or "in the baseline")
        accepted.setdefault(fingerprint, Accepted(reason, end, entry.get("severity")))
    return replace(policy, accepted=accepted)
