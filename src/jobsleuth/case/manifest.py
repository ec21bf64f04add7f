"""What a case says of itself: where it came from, how it was made, and the hash of everything in it."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from jobsleuth import safetext
from jobsleuth.case.schema import SCHEMA_VERSION
from jobsleuth.case.shape import MANIFEST, Misshapen
from jobsleuth.errors import CaseError

FILE_NAME = "manifest.json"
_ANEW = "make it anew from the evidence: jobsleuth analyze DUMP --out CASE"


@dataclass(frozen=True)
class EvidenceWarning:
    """Something in the evidence that is odd but did not stop the reading.

    Attributes:
        kind: short kebab-case kind, e.g. `counts-differ`.
        message: one sentence, hostile bytes already escaped.
        offset: byte offset of the first occurrence; None: nowhere in particular.
        count: how often, or how many it is about; None: a number makes no sense here.
    """

    kind: str
    message: str
    offset: int | None = None
    count: int | None = None


@dataclass
class EvidenceInfo:
    """Provenance of one evidence file.

    Attributes:
        number: the `evidence` column of every table.
        path: as the user gave it; `-`: standard input.
        sha256: hex digest of the whole file as it was given.
        bytes: size of that file.
        parts: the files of evidence that is a folder (an append-only file with a manifest): name relative to that
            folder, bytes, sha256; `sha256` is then that of a text with the line `hash  name` for each.
        inner: `compression`, and `sha256` and `bytes` of what was in it; None: the file was not compressed.
        streamed: it came through standard input or a pipe, and cannot be read a second time.
        format: `rdb`, `keyspace-ndjson`, `aof`, …
        format_version: the format's own version number.
        family: `redis` or `valkey` where the file tells, else None.
        magic: the first bytes as text.
        redis_version: server version the file names, or None.
        aux: AUX fields as text.
        as_of_ms: moment the evidence shows, Unix ms; of an interval its end; None: unknown.
        as_of_from_ms: beginning of that interval, where the evidence is smeared over time; else None.
        as_of_source: `ctime`, `export`, `window`, `annotation`, `until`, `option` or `unknown`.
        atomic: whether it shows one instant.
        checksum: `status` (`ok`, `mismatch`, `absent`, `unverified`, …) and what belongs to it.
        counts: what was met: keys, databases, opcodes, …
        databases: database number as text → what was met in it.
        warnings: what was odd.
        functions: function libraries stored in the file: name, engine, size.
        modules: modules whose data the file holds: name, version.
        fault: `kind`, `message` and `offset` of what ended the reading before the end (salvaged evidence); None: it
            was read whole.
    """

    number: int
    path: str
    sha256: str
    bytes: int
    format: str
    format_version: int | None = None
    family: str | None = None
    magic: str | None = None
    redis_version: str | None = None
    aux: dict[str, str] = field(default_factory=dict)
    as_of_ms: int | None = None
    as_of_from_ms: int | None = None
    as_of_source: str = "unknown"
    atomic: bool = True
    checksum: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    databases: dict[str, Any] = field(default_factory=dict)
    warnings: list[EvidenceWarning] = field(default_factory=list)
    functions: list[dict[str, Any]] = field(default_factory=list)
    modules: list[dict[str, Any]] = field(default_factory=list)
    fault: dict[str, Any] | None = None
    parts: list[dict[str, Any]] = field(default_factory=list)
    inner: dict[str, Any] | None = None
    streamed: bool = False


@dataclass
class Manifest:
    """The text of `manifest.json`. Same evidence and options, same bytes: it holds no clock and no host name.

    Attributes:
        version: version of jobsleuth that wrote the case.
        options: the options of the run that shape its content.
        evidence: one entry per evidence file, by number.
        tables: table name → `{"rows": n}`.
        files: path inside the case, with `/` → `{"sha256": hex, "bytes": n}`; all files but the manifest itself.
        limits: what the evidence cannot tell, the weightiest first; phrases that begin after "cannot tell".
        schema_version: version of the tables' columns, see :mod:`jobsleuth.case.schema`.
        tool: `jobsleuth`.
    """

    version: str
    options: dict[str, Any] = field(default_factory=dict)
    evidence: list[EvidenceInfo] = field(default_factory=list)
    tables: dict[str, dict[str, int]] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    limits: list[str] = field(default_factory=list)
    schema_version: int = SCHEMA_VERSION
    tool: str = "jobsleuth"

    def to_json(self) -> str:
        """Deterministic JSON text: sorted members, ASCII, a newline at the end."""
        return json.dumps(dataclasses.asdict(self), indent=2, sort_keys=True, ensure_ascii=True) + "\n"

    @classmethod
    def from_json(cls, text: str, file: str | None = None) -> Manifest:
        """The manifest in a JSON text.

        Raises:
            CaseError: it is no manifest, a damaged one, or that of a jobsleuth whose tables this one does not know.
                Of tables and files only the names are sure to be text: what is said of them is told by `verify`.
        """
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CaseError(f"the manifest is not JSON: {error}", file=file) from error
        if not isinstance(data, dict) or data.get("tool") != "jobsleuth":
            raise CaseError("the manifest was not written by jobsleuth", file=file)
        _require_readable(data.get("schema_version"), str(data.get("version")), file)
        try:
            MANIFEST(data, "")
        except Misshapen as error:
            raise CaseError(f"the manifest is damaged: {error}", file=file, hint=_ANEW) from error
        evidence = [_evidence(item) for item in data.get("evidence", [])]
        if len({info.number for info in evidence}) < len(evidence):
            raise CaseError("the manifest is damaged: two pieces of evidence have one number", file=file, hint=_ANEW)
        return cls(**{**_known(cls, data), "evidence": evidence})

    def rows(self, table: str) -> int:
        """Rows that a table has, as far as the manifest says; 0 where it does not."""
        told = self.tables.get(table)
        rows = told.get("rows") if isinstance(told, dict) else None
        return rows if type(rows) is int and rows > 0 else 0


def _require_readable(schema_version: Any, writer: str, file: str | None) -> None:
    """Raises CaseError unless cases with this version of the tables can be read.

    Columns and tables that came within a version need nothing: readers give null for what is not there.
    """
    if type(schema_version) is int and 1 <= schema_version <= SCHEMA_VERSION:
        return
    number = safetext.terminal(str(schema_version), 40)
    if type(schema_version) is int and schema_version > SCHEMA_VERSION:
        name = safetext.terminal(writer, 40)
        raise CaseError(
            f"the case is too new: jobsleuth {name} wrote it with table version {number},"
            f" this one reads up to {SCHEMA_VERSION}",
            file=file,
            hint=f"open it with jobsleuth {name} or later, or make a case of the evidence with this one",
        )
    raise CaseError(
        f"the case has table version {number}, which no release of jobsleuth wrote",
        file=file,
        hint=_ANEW,
    )


def _known(cls: type, data: dict[str, Any]) -> dict[str, Any]:
    """Members that the dataclass has; a newer writer's additions are passed over."""
    names = {f.name for f in dataclasses.fields(cls)}
    return {name: value for name, value in data.items() if name in names}


def _evidence(data: dict[str, Any]) -> EvidenceInfo:
    warnings = [EvidenceWarning(**_known(EvidenceWarning, w)) for w in data.get("warnings", [])]
    return EvidenceInfo(**{**_known(EvidenceInfo, data), "warnings": warnings})
