"""A team's own checks: one file of theirs, ten lines a check, named on the command line."""

from __future__ import annotations

import inspect
import re
import traceback
from pathlib import Path
from types import ModuleType
from typing import ClassVar

from jobsleuth import safetext
from jobsleuth.checks.base import FAMILIES, SECTIONS, Check, Severity
from jobsleuth.checks.catalogue import all_checks, require_well_formed
from jobsleuth.errors import CheckError

_MODULE = "jobsleuth_own_checks"


class OwnCheck(Check):
    """Base of an own check; `id`, `sql` and `message` are all it needs.

    The docstring says what it finds (its first line is the title); it may have the sections of :class:`Check` instead.
    The name comes from the class. Everything else of :class:`Check` can be set as well.

    >>> class FatMail(OwnCheck):
    ...     "A mail is larger than the relay takes."
    ...
    ...     id = "XX001"
    ...     sql = "select * from jobs where queue = 'mails' and payload_bytes > $most_bytes"
    ...     message = "Mail {job_id} has {payload_bytes} bytes"
    ...     parameters = {"most_bytes": 1_000_000}
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    severity: ClassVar[Severity] = "warning"
    since: ClassVar[str] = "own"
    impact: ClassVar[str] = "break a rule of your own"
    heals: ClassVar[str] = "not known: the check is your own"
    needs = {"evidence": ()}  # noqa: RUF012 (declared in Check)
    """Every case has this; a column that the query wants and the case lacks is a query that fails, and is told."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_", " ", cls.__name__).split()
        about = inspect.cleandoc(vars(cls).get("__doc__") or "")
        cls.name = vars(cls).get("name", "-".join(words).lower())
        cls.title = vars(cls).get("title") or about.split("\n")[0].rstrip(".") or " ".join(words)

    @classmethod
    def texts(cls) -> dict[str, str]:
        """The docstring's sections; without any, all of it is what the check finds."""
        about = inspect.cleandoc(cls.__doc__ or "") or cls.title
        if any(re.search(rf"^{section}$", about, re.MULTILINE) for section in SECTIONS):
            return super().texts()
        return {"What it finds": about}

    @classmethod
    def help_url(cls) -> str:
        """No page."""
        return ""


def load_checks(*files: Path) -> list[type[Check]]:
    """The checks that files of Python hold, sorted by id. Running a file runs what it says: name only files you trust.

    Raises:
        CheckError: a file cannot be read or run, holds no check, or one that is not well formed or has an id or a name
            that is taken. Ids of the built-in families (`MB001`) are not for own checks.
    """
    found = [(check, str(path)) for path in files for check in _of_file(path)]
    taken = {label: "jobsleuth" for c in all_checks() for label in (c.id, c.name)}
    for check, file in found:
        try:
            require_well_formed(check)
        except CheckError as error:
            raise CheckError(error.message, file=file) from error
        if check.id[:2] in FAMILIES:
            raise CheckError(
                f"{check.id} is an id of jobsleuth's own family {FAMILIES[check.id[:2]]}",
                file=file,
                hint="take other letters, e.g. XX001",
            )
        for label in (check.id, check.name):
            if label in taken:
                raise CheckError(f"the check {label} exists already, in {taken[label]}", file=file)
            taken[label] = safetext.terminal(file, 80)
    return sorted((check for check, _ in found), key=lambda c: c.id)


def _of_file(path: Path) -> list[type[Check]]:
    module = ModuleType(_MODULE)
    module.__file__ = str(path)
    try:
        # Not through the import system: it would leave compiled files beside the user's.
        exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), vars(module))
    except OSError as error:
        raise CheckError(f"the checks cannot be read: {error.strerror}", file=str(path)) from error
    except (Exception, SystemExit) as error:
        line = error.lineno if isinstance(error, SyntaxError) else _line(error, str(path))
        told = safetext.terminal(f"{type(error).__name__}: {error}", 200)
        raise CheckError(
            f"the checks cannot be loaded: {told}", file=f"{path}, line {line}" if line else str(path)
        ) from (error)
    made = [c for c in vars(module).values() if inspect.isclass(c) and issubclass(c, Check) and c.__module__ == _MODULE]
    checks = [c for c in dict.fromkeys(made) if not any(c in other.__bases__ for other in made)]
    if not checks:
        raise CheckError(
            "there is no check in it", file=str(path), hint="a check is a class with jobsleuth.Check as its base"
        )
    return checks


def _line(error: BaseException, file: str) -> int | None:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return lines[-1] if lines else None
