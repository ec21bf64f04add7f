"""Errors that jobsleuth raises on purpose.

Each names what was wrong, where (file and byte offset when there is one) and what to do about it. The command line
prints them as one line and exits 2; a library user catches :class:`JobsleuthError`.
"""

from __future__ import annotations


class JobsleuthError(Exception):
    """Base of every error jobsleuth raises on purpose.

    Attributes:
        message: what is wrong, one line, hostile bytes already escaped.
        file: path of the file concerned as the user gave it, or None.
        offset: byte offset in that file, or None.
        hint: what the user can do about it, or None.
    """

    def __init__(
        self, message: str, *, file: str | None = None, offset: int | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.offset = offset
        self.hint = hint

    def __str__(self) -> str:
        where = f"{self.file}: " if self.file else ""
        at = f" (at byte {self.offset:,})" if self.offset is not None else ""
        return f"{where}{self.message}{at}"


class EvidenceError(JobsleuthError):
    """The evidence cannot be read: not a snapshot, cut short, corrupt, wrong checksum, unreadable file."""


class CaseError(JobsleuthError):
    """A case folder cannot be opened, written or trusted."""


class CheckError(JobsleuthError):
    """A check is unknown or its definition is broken."""


class DialectError(JobsleuthError):
    """A dialect is unknown or its definition is broken."""


class UsageError(JobsleuthError):
    """The request itself makes no sense (bad option, bad SQL, unknown job)."""
