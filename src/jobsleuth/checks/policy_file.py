"""`jobsleuth.toml`: a team's policy as a file. What it does not know is an error with a suggestion."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from jobsleuth import safetext
from jobsleuth.checks.base import SEVERITIES, Check, Severity
from jobsleuth.checks.catalogue import all_checks
from jobsleuth.checks.policy import Accepted, Policy, QueueRule
from jobsleuth.errors import UsageError

FILE_NAME = "jobsleuth.toml"
_KEYS = {
    # The last two are descriptions of layouts, which dialects read.
    "": ("checks", "severity", "parameters", "queue", "suppress", "layout", "lists"),
    "checks": ("disable", "enable"),
    "queue": ("name", "namespace", "disable", "severity", "parameters"),
    "suppress": ("fingerprint", "reason", "expires"),
}
_DURATIONS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_LARGEST = 2**53
_DAY_MS = 86_400_000


def load_policy(path: Path, own: Sequence[type[Check]] = ()) -> Policy:
    """The policy that a file holds.

    ```toml
    [checks]
    disable = ["EV003"]                  # ids or names
    enable = ["UQ006"]                   # those that run only if wanted
    [severity]
    MB005 = "info"
    [parameters]                         # numbers, or "10m", "2h", "5MiB" where the name ends in _ms or _bytes
    overdue_after_ms = "10m"
    [[queue]]                            # of several that fit a queue the last one counts
    name = "mails-*"
    namespace = "bull"                   # optional
    disable = ["LV008"]
    severity = { LV004 = "warning" }
    parameters = { overdue_after_ms = "1h" }
    [[suppress]]
    fingerprint = "…"                    # as the findings have it
    reason = "kept until the migration"
    expires = 2027-01-31                 # optional; held against the snapshot's time
    ```

    Args:
        path: the file.
        own: checks that it may name besides those of :func:`all_checks`.

    Raises:
        UsageError: it cannot be read, or holds a key, check, parameter or value that is not known.
    """
    try:
        stored = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"the policy cannot be read: {error.strerror}", file=str(path)) from error
    except RecursionError as error:
        raise UsageError("the policy is nested too deeply", file=str(path)) from error
    except ValueError as error:
        raise UsageError(f"the policy is no TOML: {safetext.terminal(str(error), 200)}", file=str(path)) from error
    return _Reader(str(path), own).policy(stored)


class _Reader:
    def __init__(self, file: str, own: Sequence[type[Check]] = ()) -> None:
        self._file = file
        checks = [*all_checks(), *own]
        self._ids = {label: c.id for c in checks for label in (c.id, c.name)}
        self._parameters = sorted({name for c in checks for name in c.parameters})

    def policy(self, stored: Mapping[str, Any]) -> Policy:
        self._require_keys("", stored)
        checks = self._table(stored.get("checks", {}), "checks")
        self._require_keys("checks", checks)
        off = self._checks(checks.get("disable", []), "checks.disable")
        on = self._checks(checks.get("enable", []), "checks.enable")
        for both in sorted(off & on):
            raise self._wrong(f"checks: {both} is both enabled and disabled", "keep one of the two")
        accepted: dict[str, Accepted] = {}
        for number, entry in enumerate(self._tables(stored.get("suppress", []), "suppress"), 1):
            self._require_keys("suppress", entry)
            where = f"suppress {number}"
            needed = "every suppression needs a fingerprint and a reason"
            fingerprint = self._text(entry.get("fingerprint"), f"{where}: fingerprint", needed)
            reason = self._text(entry.get("reason"), f"{where}: reason", needed)
            if fingerprint in accepted:
                raise self._wrong(f"{where}: {_shown(fingerprint)} is suppressed twice", "keep one of the two")
            accepted[fingerprint] = Accepted(reason, self.end(entry.get("expires"), f"{where}: expires"))
        return Policy(
            parameters=self._thresholds(stored.get("parameters", {}), "parameters"),
            off=off,
            on=on,
            severities=self._severities(stored.get("severity", {}), "severity"),
            queues=tuple(self._rule(entry) for entry in self._tables(stored.get("queue", []), "queue")),
            accepted=accepted,
        )

    def _rule(self, entry: Mapping[str, Any]) -> QueueRule:
        self._require_keys("queue", entry)
        name = self._text(entry.get("name"), "queue: name", 'e.g. name = "mails-*"')
        namespace = entry.get("namespace", "*")
        if not isinstance(namespace, str):  # an empty one is a prefix too
            raise self._wrong(f"queue {_shown(name)}: namespace is no text", 'e.g. namespace = "bull"')
        return QueueRule(
            queue=name,
            namespace=namespace,
            off=self._checks(entry.get("disable", []), f"queue {_shown(name)}: disable"),
            severities=self._severities(entry.get("severity", {}), f"queue {_shown(name)}: severity"),
            parameters=self._thresholds(entry.get("parameters", {}), f"queue {_shown(name)}: parameters"),
        )

    def end(self, stored: Any, where: str) -> int | None:
        """Unix ms of a date (its first moment, UTC) or a time with a zone; None where there is none."""
        if stored is None:
            return None
        if isinstance(stored, str):
            try:
                stored = (
                    datetime.fromisoformat(stored) if len(stored) > len("2027-01-31") else date.fromisoformat(stored)
                )
            except ValueError:
                raise self._wrong(f"{where}: {_shown(stored)} is no date", "e.g. 2027-01-31") from None
        if isinstance(stored, datetime):
            if stored.tzinfo is None:
                raise self._wrong(f"{where}: {stored} has no time zone", "e.g. 2027-01-31 or 2027-01-31T08:00:00Z")
            try:
                return int(stored.astimezone(UTC).timestamp() * 1000)
            except OverflowError:
                raise self._wrong(f"{where}: {stored} is no date", "e.g. 2027-01-31") from None
        if isinstance(stored, date):
            return (stored - date(1970, 1, 1)).days * _DAY_MS
        raise self._wrong(f"{where}: {_shown(stored)} is no date", "e.g. 2027-01-31")

    # -- the parts ----------------------------------------------------------------------------------------------------

    def _checks(self, stored: Any, where: str) -> frozenset[str]:
        if not isinstance(stored, list):
            raise self._wrong(f"{where} is no list of checks", 'e.g. ["MB005"]')
        return frozenset(self._check(label, where) for label in stored)

    def _check(self, label: Any, where: str) -> str:
        known = self._ids.get(label) if isinstance(label, str) else None
        if known is None:
            raise self._unknown(f"{where}: there is no check", label, self._ids, "jobsleuth explain lists them all")
        return known

    def _severities(self, stored: Any, where: str) -> dict[str, Severity]:
        found: dict[str, Severity] = {}
        for label, severity in self._table(stored, where).items():
            check = self._check(label, where)
            if severity not in SEVERITIES:
                raise self._unknown(f"{where}.{label}: no severity is", severity, SEVERITIES, "error, warning or info")
            found[check] = severity
        return found

    def _thresholds(self, stored: Any, where: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, value in self._table(stored, where).items():
            if name not in self._parameters:
                hint = f"there are: {', '.join(self._parameters)}"
                raise self._unknown(f"{where}: no check has a parameter", name, self._parameters, hint)
            found[name] = self._amount(name, value, f"{where}.{name}")
        return found

    def _amount(self, name: str, value: Any, where: str) -> int:
        units = _DURATIONS if name.endswith("_ms") else _SIZES if name.endswith("_bytes") else {}
        amount: Any = value
        if isinstance(value, str):
            match = re.fullmatch(r"([0-9]{1,15}) ?([A-Za-z]{1,3})", value)
            amount = int(match[1]) * units[match[2]] if match and match[2] in units else None
        if not isinstance(amount, int) or isinstance(amount, bool) or not 0 <= amount <= _LARGEST:
            like = ", ".join(["a whole number", *(f'"10{unit}"' for unit in list(units)[1:4])])
            raise self._wrong(f"{where}: {_shown(value)} is no amount", f"e.g. {like}")
        return amount

    # -- what is there and what may be --------------------------------------------------------------------------------

    def _require_keys(self, place: str, stored: Mapping[str, Any]) -> None:
        known = _KEYS[place]
        for key in stored:
            if key not in known:
                lead = f"{place}: there is no key" if place else "there is no key"
                raise self._unknown(lead, key, known, f"there are: {', '.join(known)}")

    def _table(self, stored: Any, where: str) -> Mapping[str, Any]:
        if not isinstance(stored, dict):
            raise self._wrong(f"{where} is no table", f"write [{where}]")
        return stored

    def _tables(self, stored: Any, where: str) -> list[Mapping[str, Any]]:
        if not isinstance(stored, list) or not all(isinstance(entry, dict) for entry in stored):
            raise self._wrong(f"{where} is no list of tables", f"write [[{where}]]")
        return stored

    def _text(self, stored: Any, where: str, hint: str) -> str:
        if not isinstance(stored, str) or not stored.strip():
            raise self._wrong(f"{where} is missing or no text", hint)
        return stored

    def _unknown(self, lead: str, given: Any, known: Any, otherwise: str) -> UsageError:
        names, upper = list(known), str(given).upper()
        near = [n for n in names if n.upper() == upper] or get_close_matches(str(given), names, 1)
        near = near or get_close_matches(upper, names, 1)
        # The opposite is no suggestion.
        near = [n for n in near if not (n == "disable" and upper.startswith("ENABLE"))]
        return self._wrong(f"{lead} {_shown(given)}", f"did you mean {near[0]}?" if near else otherwise)

    def _wrong(self, what: str, hint: str) -> UsageError:
        return UsageError(what, file=self._file, hint=hint)


def _shown(value: Any) -> str:
    return safetext.terminal(str(value), 60)


def read_end(stored: Any, file: str, where: str) -> int | None:
    """Unix ms at which something ends, from a date or time in a file; None where there is none.

    Raises:
        UsageError: it is neither.
    """
    return _Reader(file).end(stored, where)
