"""How strictly to judge: which checks, how severe, which thresholds, what is accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, cast

from jobsleuth.checks.base import SEVERITIES, Check, Severity


@dataclass(frozen=True)
class QueueRule:
    """Settings for some queues; of several rules that fit a queue the last one that says something decides, on each
    check and each threshold by itself.

    Attributes:
        queue: name of the queue, `*` and `?` as in file names.
        namespace: likewise; BullMQ's prefix, `asynq`.
        off: ids of checks that say nothing about these queues.
        severities: check id → severity of its findings about them.
        parameters: thresholds by name.
    """

    queue: str
    namespace: str = "*"
    off: frozenset[str] = frozenset()
    severities: Mapping[str, Severity] = field(default_factory=dict)
    parameters: Mapping[str, int] = field(default_factory=dict)

    def fits(self, namespace: str | None, queue: str | None) -> bool:
        """Whether it speaks of the queue; of findings about no queue no rule does."""
        return queue is not None and _like(queue, self.queue) and _like(namespace or "", self.namespace)


def _like(name: str, pattern: str) -> bool:
    """Only `*` and `?` mean something: brackets are common in names of queues."""
    return fnmatchcase(name, pattern.replace("[", "[[]"))


@dataclass(frozen=True)
class Accepted:
    """A known finding: not reported while it holds.

    Attributes:
        reason: why it is accepted, for people.
        until_ms: Unix ms at which it ends, held against the snapshot's time; None: never. Where the snapshot's time is
            not known, one that ends hides nothing.
        severity: how severe it was when it was accepted: what got worse since is reported; None: whatever it is.
    """

    reason: str
    until_ms: int | None = None
    severity: Severity | None = None

    def holds_at(self, as_of_ms: int | None) -> bool:
        """Whether it still holds for a snapshot of that time."""
        return self.until_ms is None or (as_of_ms is not None and as_of_ms < self.until_ms)

    def covers(self, severity: str) -> bool:
        """Whether it was accepted when it was at least as severe."""
        return self.severity is None or SEVERITIES.index(self.severity) <= SEVERITIES.index(cast(Severity, severity))


@dataclass(frozen=True)
class Policy:
    """How strictly to judge.

    Attributes:
        parameters: thresholds by name, instead of the checks' defaults, e.g. `{"overdue_after_ms": 60_000}`.
        off: ids of checks that are not run.
        on: ids of checks that run only if wanted.
        severities: check id → severity of all its findings.
        queues: settings for some queues.
        accepted: fingerprint → known finding.
    """

    parameters: Mapping[str, int] = field(default_factory=dict)
    off: frozenset[str] = frozenset()
    on: frozenset[str] = frozenset()
    severities: Mapping[str, Severity] = field(default_factory=dict)
    queues: tuple[QueueRule, ...] = ()
    accepted: Mapping[str, Accepted] = field(default_factory=dict)

    def recorded(self) -> dict[str, Any]:
        """What it says, for a case's manifest; of accepted findings only how many."""
        return {
            "accepted": len(self.accepted),
            "off": sorted(self.off),
            "on": sorted(self.on),
            "parameters": dict(sorted(self.parameters.items())),
            "queues": [
                {
                    "namespace": rule.namespace,
                    "off": sorted(rule.off),
                    "parameters": dict(sorted(rule.parameters.items())),
                    "queue": rule.queue,
                    "severities": dict(sorted(rule.severities.items())),
                }
                for rule in self.queues
            ],
            "severities": dict(sorted(self.severities.items())),
        }

    def runs(self, check: type[Check]) -> bool:
        """Whether the check is to be run at all."""
        return check.id not in self.off and (not check.opt_in or check.id in self.on)

    def thresholds(self, check: type[Check], namespace: str | None, queue: str | None) -> dict[str, int]:
        """What the check judges this queue by; each threshold as the last rule that fits says."""
        found = {**check.parameters, **self.parameters}
        for rule in self.queues:
            if rule.parameters and rule.fits(namespace, queue):
                found |= rule.parameters
        return {name: value for name, value in found.items() if name in check.parameters}

    def differs(self, check: type[Check]) -> bool:
        """Whether some queues have thresholds of their own for the check."""
        return any(name in check.parameters for rule in self.queues for name in rule.parameters)

    def severity_of(self, check_id: str, namespace: str | None, queue: str | None) -> Severity | None:
        """The severity that the policy gives such a finding, None where it says nothing."""
        for rule in reversed(self.queues):
            if check_id in rule.severities and rule.fits(namespace, queue):
                return rule.severities[check_id]
        return self.severities.get(check_id)

    def silent(self, check_id: str, namespace: str | None, queue: str | None) -> bool:
        """Whether the check is switched off for the queue."""
        return any(check_id in rule.off and rule.fits(namespace, queue) for rule in self.queues)
