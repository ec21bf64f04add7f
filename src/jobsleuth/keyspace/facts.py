"""What a piece of evidence says of itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Remark:
    """Something about the evidence that a careful reader must know.

    Attributes:
        kind: stable short name, e.g. `hint_mismatch`, `checksum_absent`, `cut_short`.
        message: one sentence, hostile bytes escaped.
        offset: byte offset in the evidence, where there is one.
        count: how many things it speaks of, where there are several.
    """

    kind: str
    message: str
    offset: int | None = None
    count: int | None = None


@dataclass(frozen=True)
class EvidenceFacts:
    """One piece of evidence, described.

    Attributes:
        path: as the user gave it.
        bytes: size of the file.
        format: `rdb`, `keyspace-ndjson`, …
        format_version: the format's own version number; None: it has none.
        family: `redis` or `valkey`; None: it does not say.
        magic: the nine bytes of an RDB header as text; None: it has none.
        aux: AUX fields, in file order; a repeated name keeps its last value.
        checksum: `status` (ok, absent, disabled, mismatch, unverified) and, where known, `stored` and `computed`.
        counts: keys, expires and so on, as read.
        databases: database number (text) → keys and expires read, and the file's own hints.
        functions: function libraries (name, engine, bytes).
        modules: modules whose data the file holds (name, version).
        remarks: warnings.
        parts: the files of evidence that has several: name, bytes, sha256.
        fault: kind, message and offset of what stopped the reading, when salvaged; else None.
    """

    path: str
    bytes: int
    format: str
    format_version: int | None
    family: str | None
    magic: str | None
    aux: dict[str, str]
    checksum: dict[str, Any]
    counts: dict[str, int]
    databases: dict[str, dict[str, int | None]]
    functions: list[dict[str, Any]]
    modules: list[dict[str, Any]]
    remarks: list[Remark] = field(default_factory=list)
    parts: list[dict[str, Any]] = field(default_factory=list)
    fault: dict[str, Any] | None = None

    @property
    def server_version(self) -> str | None:
        """The server's own version text, whichever server it was."""
        return self.aux.get("redis-ver") or self.aux.get("valkey-ver")
