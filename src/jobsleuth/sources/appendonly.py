"""Append-only files in several parts: a folder with a manifest that names a base and its increments."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from jobsleuth import safetext
from jobsleuth.errors import EvidenceError

MANIFEST = ".manifest"
_FOLDER = "appendonlydir"
"""The name that servers give the folder, unless told otherwise."""
_LONGEST_LINE = 1024
_LARGEST_MANIFEST = 1 << 20
_KINDS = {"b": "base", "i": "increment", "h": "history"}
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "a": b"\a", "b": b"\b"}


@dataclass(frozen=True)
class Part:
    """One file of an append-only file.

    Attributes:
        name: as it is shown, relative to the evidence where that is a folder.
        path: where it lies.
        kind: `base`, `increment`, or `whole` for the only one.
        bytes: its size.
        sha256: its hash; None: not taken.
    """

    name: str
    path: Path
    kind: str
    bytes: int
    sha256: str | None = None


@dataclass(frozen=True)
class Folder:
    """The parts in the order in which they are replayed, the base first; and what they are together.

    Attributes:
        parts: the files.
        history: files that the manifest calls history, which have no effect.
        bytes: all sizes.
        sha256: hash of a text with a line for the manifest and each part: hash, two spaces, name.
        manifest: the manifest's own line of that text.
    """

    parts: tuple[Part, ...]
    history: tuple[str, ...]
    bytes: int
    sha256: str
    manifest: Part


def manifest_of(evidence: Path) -> Path | None:
    """The manifest that a path means: itself, the only one in the folder, or the one in its `appendonlydir`.

    Raises:
        EvidenceError: a folder has several.
    """
    if not evidence.is_dir():
        return evidence if evidence.name.endswith(MANIFEST) and evidence.is_file() else None
    for folder in (evidence, evidence / _FOLDER):
        found = sorted(folder.glob(f"*{MANIFEST}")) if folder.is_dir() else []
        if len(found) > 1:
            names = ", ".join(safetext.terminal(p.name, 60) for p in found)
            raise EvidenceError(
                f"has several manifests: {names}", file=os.fspath(evidence), hint="give the manifest that is meant"
            )
        if found:
            return found[0]
    return None


def read_folder(evidence: Path, manifest: Path) -> Folder:
    """The parts that a manifest names, each hashed.

    Raises:
        EvidenceError: the manifest cannot be understood, or names a file outside of its folder, no file, or a link.
    """
    shown = os.fspath(evidence)
    top = evidence if evidence.is_dir() else manifest.parent
    text = _read(manifest, shown)
    parts: list[Part] = []
    history = []
    for number, line in enumerate(text.split(b"\n"), 1):
        entry = _entry(line, number, shown)
        if entry is None:
            continue
        name, kind = entry
        if kind == "history":
            history.append(name)
            continue
        if kind == "base" and parts:
            raise _broken("names a base behind other files, or a second one", number, shown)
        path = manifest.parent / name
        parts.append(_part(path, path.relative_to(top), kind, shown))
    if not parts:
        raise EvidenceError("has a manifest that names no file", file=shown, hint="copy the whole folder again")
    own = _part(manifest, manifest.relative_to(top), "manifest", shown)
    listing = "".join(f"{part.sha256}  {part.name}\n" for part in (own, *parts))
    return Folder(
        tuple(parts),
        tuple(history),
        own.bytes + sum(part.bytes for part in parts),
        hashlib.sha256(listing.encode("utf-8", "surrogateescape")).hexdigest(),
        own,
    )


def _read(manifest: Path, shown: str) -> bytes:
    try:
        with manifest.open("rb") as file:
            text = file.read(_LARGEST_MANIFEST + 1)
    except OSError as error:
        raise EvidenceError(f"its manifest cannot be read: {error.strerror or error}", file=shown) from error
    if len(text) > _LARGEST_MANIFEST:
        raise EvidenceError("its manifest is too large to be one", file=shown)
    return text


def _entry(line: bytes, number: int, shown: str) -> tuple[str, str] | None:
    """(name, kind) of a line; None: nothing stands there."""
    if len(line) > _LONGEST_LINE:
        raise _broken("is too long", number, shown)
    words = _words(line.strip(), number, shown)
    if not words or words[0].startswith(b"#"):
        return None
    pairs = dict(zip(words[::2], words[1::2], strict=False))
    name, sequence, kind = (pairs.get(key, b"") for key in (b"file", b"seq", b"type"))
    known = _KINDS.get(kind.decode("ascii", "replace"))
    if len(words) % 2 or not name or not sequence.isdigit() or known is None:
        raise _broken("is no line of a manifest", number, shown)
    text = os.fsdecode(name)
    # A bare name only: the manifest may have been made to reach elsewhere.
    if b"/" in name or b"\\" in name or b"\0" in name or text in (".", ".."):
        told = safetext.terminal(text, 80)
        raise _broken(f"names {told}, which is not a file of the folder", number, shown)
    return text, known


def _words(line: bytes, number: int, shown: str) -> list[bytes]:
    """Words between spaces; quoted ones with the escapes that servers write."""
    words = []
    at = 0
    while at < len(line):
        if line[at : at + 1].isspace():
            at += 1
            continue
        if line[at : at + 1] != b'"':
            end = next((i for i in range(at, len(line)) if line[i : i + 1].isspace()), len(line))
            words.append(line[at:end])
            at = end
            continue
        word = b""
        at += 1
        while line[at : at + 1] != b'"':
            if at >= len(line):
                raise _broken("has a name whose quotes do not end", number, shown)
            if line[at : at + 1] == b"\\":
                escape = line[at + 1 : at + 2].decode("latin-1")
                digits = line[at + 2 : at + 4]
                if escape == "x" and len(digits) == 2 and all(c in b"0123456789abcdefABCDEF" for c in digits):
                    word += bytes([int(digits, 16)])
                    at += 4
                    continue
                word += _ESCAPES.get(escape, escape.encode("latin-1"))
                at += 2
                continue
            word += line[at : at + 1]
            at += 1
        words.append(word)
        at += 1
    return words


def _part(path: Path, name: Path, kind: str, shown: str) -> Part:
    told = safetext.terminal(os.fspath(name), 80)
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise EvidenceError(f"{told} is not a regular file", file=shown, hint="copy the files themselves")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise EvidenceError(
            f"its manifest names {told}, which is not there", file=shown, hint="copy the whole folder again"
        ) from None
    except OSError as error:
        raise EvidenceError(f"{told} cannot be read: {error.strerror or error}", file=shown) from error
    return Part(os.fspath(name), path, kind, status.st_size, digest)


def _broken(what: str, number: int, shown: str) -> EvidenceError:
    return EvidenceError(f"line {number} of its manifest {what}", file=shown, hint="copy the whole folder again")
