"""What the folder of a case must be for the libraries that read tables."""

from __future__ import annotations

from pathlib import Path

from jobsleuth.errors import CaseError


def require_text(folder: Path, hint: str) -> None:
    """Raises CaseError where a name is no UTF-8: neither Arrow nor DuckDB opens it."""
    try:
        str(folder.absolute()).encode()
    except UnicodeEncodeError as error:
        reason = "has a name that is no UTF-8, which the readers of tables do not open"
        raise CaseError(reason, file=str(folder), hint=hint) from error
