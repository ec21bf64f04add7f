"""What a check is: one class in one file, judged by SQL over the case's tables."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import ClassVar, Literal

from jobsleuth.errors import CheckError

Severity = Literal["error", "warning", "info"]
Basis = Literal["observed", "derived", "inferred"]
"""What a statement rests on: it stands in the evidence, it follows from what stands there, it explains it best."""
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""Worst first."""

FAMILIES: Mapping[str, str] = {
    "MB": "membership",
    "ST": "state",
    "LV": "liveness",
    "RL": "relations",
    "SC": "schedules",
    "UQ": "uniqueness",
    "CN": "content",
    "CT": "counters",
    "EV": "evidence",
    "SM": "streams",
    "PL": "lists",
}
SECTIONS = (
    "What it finds",
    "Why it matters",
    "How it comes about",
    "What to do next",
    "False alarms",
    "References",
)
"""Sections every check's docstring has, in this order, each a heading line followed by its text."""
QUEUE_PLACE = ("dialect", "namespace", "queue", "evidence", "db")
"""Columns that make a queue one queue."""
JOB_PLACE = ("dialect", "namespace", "queue", "job_id", "evidence", "db")
"""Columns that make a job one job."""
SOURCE = ("source_namespace", "source_queue", "source_id")
"""Columns of `relations`: the child, or what points at a job."""
TARGET = ("target_namespace", "target_queue", "target_id")
"""Columns of `relations`: the parent, or the job pointed at."""


class Check:
    """Base of every check; subclasses set the class attributes and write the docstring's sections.

    The SQL runs in DuckDB over the case's tables (and the views `evidence` and `warnings`). Each row it returns is a
    finding. Columns `dialect, namespace, queue, job_id, key, evidence, db` fill the finding's own (missing: null);
    `severity` and `certainty` override the check's own for that row; every other column goes to `details`, unless its
    name begins with `_`. Every column may stand in `message`. Parameters of the policy are named `$overdue_after_ms`
    and so on, see `Check.parameters`. The macros of the runner may be used.

    What the row knows better than :mod:`.answers` finds out for any job it says in the columns `since_from`,
    `since_to`, `since_why`, `since_basis`, `held_by`, `held_by_basis`, `heals`, `heals_at`, `heals_basis`, `retry`,
    `retry_why`, `retry_basis` and `basis`. `_same` (text) tells findings of one check and place apart for a
    baseline, in place of the key where there is no job.
    """

    id: ClassVar[str]
    """Permanent id: two letters of the family, three digits. Never reused."""
    name: ClassVar[str]
    """The bad pattern in kebab-case, never the remedy."""
    title: ClassVar[str]
    """One line for people."""
    severity: ClassVar[Severity]
    """Severity of a finding unless its row says otherwise."""
    since: ClassVar[str]
    """jobsleuth version that brought the check."""
    dialects: ClassVar[tuple[str, ...]] = ()
    """Dialects it speaks of; empty: all."""
    needs: ClassVar[Mapping[str, tuple[str, ...]]]
    """Table → columns that the SQL reads. A missing one makes the check `could_not_run`, not clean."""
    needs_time: ClassVar[bool] = False
    """Whether it judges against the snapshot's time: without one it is `could_not_run` for that evidence."""
    versions: ClassVar[str] = "all releases"
    """Releases of the libraries it holds for; where an older or newer one is in order, the SQL looks at the layout."""
    impact: ClassVar[str]
    """What it means for the work, as the end of a sentence that begins with a count: `will never run`."""
    basis: ClassVar[Basis] = "observed"
    """What its findings rest on, unless a row says otherwise."""
    heals: ClassVar[str] = "no: nothing in the library repairs it"
    """Which mechanism of which release repairs it and when, unless a row says otherwise."""
    opt_in: ClassVar[bool] = False
    """Whether it runs only where the policy enables it: it speaks of what healthy queues show all the time."""
    moving: ClassVar[bool] = True
    """Whether a job that moved meanwhile could explain a finding: then it is only `possible` in evidence that is not
    one instant (a SCAN export) or fails its checksum."""
    absence: ClassVar[bool | None] = None
    """Whether it rests on something that is not there: then it is only `possible` in evidence that is cut short, since
    that may stand in the part that is missing. None: as `moving`."""
    parameters: ClassVar[Mapping[str, int]] = {}
    """Named thresholds of the SQL and their defaults."""
    sql: ClassVar[str]
    message: ClassVar[str]
    """Sentence with `{column}` of the SQL's row; values arrive already escaped."""

    @classmethod
    def texts(cls) -> dict[str, str]:
        """The docstring's sections: heading → text, in the order of :data:`SECTIONS`.

        Raises:
            CheckError: a section is missing, or a heading is unknown or out of order.
        """
        doc = inspect.cleandoc(cls.__doc__ or "")
        pieces = re.split(rf"^({'|'.join(map(re.escape, SECTIONS))})\n", doc, flags=re.MULTILINE)
        found = dict(zip(pieces[1::2], (p.strip() for p in pieces[2::2]), strict=True))
        if tuple(found) != SECTIONS:
            raise CheckError(f"check {cls.__name__}: its docstring needs the sections {', '.join(SECTIONS)}")
        return found

    @classmethod
    def rests_on_absence(cls) -> bool:
        """Whether a part of the evidence that is missing could explain its findings."""
        return cls.moving if cls.absence is None else cls.absence

    @classmethod
    def help_url(cls) -> str:
        """Page of the check, relative to the project's root."""
        return f"docs/checks/{cls.id}.md"
