"""`--redact` and its key: drawn by lot for the run, or kept in a file that the user names."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from jobsleuth.errors import UsageError

if TYPE_CHECKING:
    from jobsleuth.case import Case, Redactor

_LEAST = 16


def redactor(wanted: bool, key_file: Path | None) -> Redactor | None:
    """What replaces values, None where nothing is to be replaced.

    Without a file the key is gone with the run, so nobody can test guesses against the digests afterwards.

    Raises:
        UsageError: the file is no key.
    """
    if not wanted and key_file is None:
        return None
    from jobsleuth.case import Redactor

    return Redactor(secrets.token_bytes(32) if key_file is None else _kept(key_file))


def opened(case: Path, redact: bool, key_file: Path | None) -> Case:
    """The case, shown through redaction where that is wanted."""
    from jobsleuth.case import open_case

    return open_case(case, redact=redactor(redact, key_file))


def _kept(file: Path) -> bytes:
    """The key in the file; where there is no file, a new key, kept there for its owner only."""
    if not file.exists():
        key = secrets.token_hex(32).encode("ascii")
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            out.write(key + b"\n")
        return key
    key = file.read_bytes().strip()
    if len(key) < _LEAST:
        raise UsageError(
            f"a key for --redact has at least {_LEAST} bytes", file=str(file), hint="name a new file to get a key made"
        )
    return key
