"""Whether a case and its evidence are still what the manifest says."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from jobsleuth.case.manifest import FILE_NAME, EvidenceInfo, Manifest
from jobsleuth.safetext import terminal


@dataclass
class Verification:
    """What was compared, and with which result. Each text is one line, hostile names escaped.

    Attributes:
        differences: what is not as the manifest says: files of the case, rows of its tables, bytes of the evidence.
        uncompared: evidence that could not be looked at, and its hash. A case may be told from its evidence, and
            evidence is often moved to a safe place: that is no difference, but no confirmation either.
        files: files of the case that were compared.
        evidence: pieces of evidence that were compared.
        manifest_sha256: hash of the manifest. Nothing in the case vouches for it: who notes it elsewhere can tell later
            that the manifest, and so the whole case, is the same.
    """

    differences: list[str] = field(default_factory=list)
    uncompared: list[str] = field(default_factory=list)
    files: int = 0
    evidence: int = 0
    manifest_sha256: str | None = None


def verify(folder: Path, manifest: Manifest) -> Verification:
    """Reads every file of the case, and the evidence where it still lies: at the path the user gave."""
    found = Verification(files=len(manifest.files))
    for name, facts in sorted(manifest.files.items()):
        found.differences += _compare(name, folder / name, _told(facts, "bytes"), _told(facts, "sha256"))
    known = {FILE_NAME, *manifest.files}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name not in known and not path.is_dir():
            found.differences.append(f"{terminal(name)}: not in the manifest")
    found.differences += _rows(folder, manifest)
    for info in manifest.evidence:
        _evidence(info, found)
    own = folder / FILE_NAME
    if own.is_file():
        found.manifest_sha256 = _sha256(own)
    return found


def _rows(folder: Path, manifest: Manifest) -> list[str]:
    """Rows of each table by its files' own footers; a file that cannot be read was told before."""
    counted: dict[str, int] = dict.fromkeys(manifest.tables, 0)
    unknown = set()
    for name in manifest.files:
        table, _, file = name.partition("/")
        if not file.endswith(".parquet"):
            continue
        try:
            counted[table] = counted.get(table, 0) + pq.read_metadata(folder / name).num_rows
        except (OSError, pa.ArrowException):
            unknown.add(table)
    found = []
    for table, rows in sorted(counted.items()):
        told = _told(manifest.tables.get(table), "rows")
        if table not in unknown and rows != told:
            counted_rows = f"{rows:,} {'row' if rows == 1 else 'rows'}"
            found.append(f"{terminal(table)}: {counted_rows}, the manifest says {_number(told)}")
    return found


def _evidence(info: EvidenceInfo, found: Verification) -> None:
    label, path = f"evidence {info.number}: {info.path}", Path(info.path)
    why = None
    if info.streamed:
        why = "came through standard input or a pipe and cannot be compared"
    else:
        try:
            path.stat()
        except (FileNotFoundError, NotADirectoryError, ValueError):
            why = "not found at its path, not compared"
        except OSError as error:
            why = f"cannot be looked at ({error.strerror}), not compared"
    if why is not None:
        found.uncompared.append(f"{terminal(label)}: {why}; its SHA-256 was {info.sha256}")
        return
    found.evidence += 1
    if not info.parts:
        found.differences += _compare(label, path, info.bytes, info.sha256)
    folder = path if path.is_dir() else path.parent
    for part in info.parts:
        name = str(_told(part, "name"))
        found.differences += _compare(f"{label}: {name}", folder / name, _told(part, "bytes"), _told(part, "sha256"))


def _compare(label: str, path: Path, size: Any, sha256: Any) -> list[str]:
    label = terminal(label)
    try:
        if not path.is_file():
            return [f"{label}: not there"]
        if path.stat().st_size != size:
            return [f"{label}: {path.stat().st_size:,} bytes, the manifest says {_number(size)}"]
        if _sha256(path) != sha256:
            return [f"{label}: its content changed"]
    except OSError as error:
        return [f"{label}: cannot be read: {error.strerror}"]
    return []


def _told(facts: Any, name: str) -> Any:
    """What the manifest says; a damaged one may say nothing."""
    return facts.get(name) if isinstance(facts, dict) else None


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else "nothing"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
