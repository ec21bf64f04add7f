"""All checks: those in the family folders, and those that installed packages bring."""

from __future__ import annotations

import inspect
import pkgutil
import re
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec

from jobsleuth import safetext
from jobsleuth.checks.base import FAMILIES, SEVERITIES, Check
from jobsleuth.errors import CheckError

_GROUP = "jobsleuth.checks"


def all_checks() -> list[type[Check]]:
    """Every check, sorted by id.

    An installed package brings its own through the entry point group `jobsleuth.checks`: each point is a check class.

    Raises:
        CheckError: two checks share an id or a name, or one is not well formed.
    """
    return list(_found())


def find_check(id_or_name: str) -> type[Check]:
    """The check with that id (`MB001`, in any case) or name (`id-in-two-structures`).

    Raises:
        CheckError: there is none.
    """
    for check in _found():
        if id_or_name.upper() == check.id or id_or_name.lower() == check.name:
            return check
    shown = safetext.terminal(id_or_name, 40)
    labels = [label for check in _found() for label in (check.id, check.name)]
    near = get_close_matches(id_or_name.upper(), labels, 1, 0.7) or get_close_matches(id_or_name.lower(), labels, 1)
    if re.fullmatch("[A-Za-z]{2}[0-9]{3}", id_or_name) and id_or_name[:2].upper() not in FAMILIES:
        near = []  # an own check's id, more likely than a slip
    meant = f"did you mean {near[0]}? " if near else ""
    raise CheckError(
        f"there is no check {shown}", hint=f"{meant}jobsleuth explain lists them all; --checks FILE adds your own"
    )


@cache
def _found() -> tuple[type[Check], ...]:
    classes = [c for family in FAMILIES.values() for c in _of_family(family)]
    for point in entry_points(group=_GROUP):
        try:
            loaded = point.load()
        except (ImportError, AttributeError) as error:
            raise CheckError(f"the check {point.name} cannot be loaded: {error}") from error
        if not (inspect.isclass(loaded) and issubclass(loaded, Check)):
            raise CheckError(f"the entry point {point.name} is not a check class")
        classes.append(loaded)
    taken: dict[str, type[Check]] = {}
    for check in classes:
        require_well_formed(check)
        for label in (check.id, check.name):
            other = taken.setdefault(label, check)
            if other is not check:
                raise CheckError(f"two checks are called {label}: {other.__qualname__} and {check.__qualname__}")
    return tuple(sorted(classes, key=lambda c: c.id))


def _of_family(family: str) -> list[type[Check]]:
    name = f"jobsleuth.checks.{family}"
    if find_spec(name) is None:
        return []
    package = import_module(name)
    found = []
    for module in pkgutil.iter_modules(getattr(package, "__path__", ())):
        members = vars(import_module(f"{name}.{module.name}")).values()
        found += [m for m in members if inspect.isclass(m) and issubclass(m, Check) and m is not Check]
    return found


def require_well_formed(check: type[Check]) -> None:
    """Makes sure that id, name, severity and texts are what they must be.

    Raises:
        CheckError: naming what is wrong.
    """
    for attribute in ("id", "name", "title", "severity", "since", "impact", "needs", "sql", "message"):
        if not getattr(check, attribute, None):
            raise CheckError(f"check {check.__qualname__} has no {attribute}")
    if not re.fullmatch(r"[A-Z]{2}\d{3}", check.id):
        raise CheckError(f"check {check.__qualname__}: {check.id} is no id such as MB001")
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", check.name):
        raise CheckError(f"check {check.id}: {check.name} is not kebab-case")
    if check.severity not in SEVERITIES:
        raise CheckError(f"check {check.id}: {check.severity} is no severity")
    check.texts()
