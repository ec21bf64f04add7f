"""All dialects, ours and installed ones, found through the entry point group `jobsleuth.dialects`."""

from __future__ import annotations

from importlib.metadata import entry_points

from jobsleuth.dialects.base import Dialect
from jobsleuth.errors import DialectError


def all_dialects() -> list[Dialect]:
    """Every dialect, sorted by name, so that claims come in the same order on every machine.

    Raises:
        DialectError: two dialects share a name, or one cannot be loaded.
    """
    found: dict[str, Dialect] = {}
    for point in sorted(entry_points(group="jobsleuth.dialects"), key=lambda p: (p.name, p.value)):
        try:
            dialect: Dialect = point.load()
        except (ImportError, AttributeError) as error:
            raise DialectError(f"dialect {point.name} cannot be loaded: {error}") from error
        if dialect.name in found:
            raise DialectError(f"two dialects are called {dialect.name}")
        found[dialect.name] = dialect
    return [found[name] for name in sorted(found)]
