"""What kind of evidence some bytes are."""

from __future__ import annotations

import re
from typing import Literal

from jobsleuth import safetext
from jobsleuth.errors import EvidenceError
from jobsleuth.sources.compression import recognise

_OTHER_KINDS: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"\x02\x21\x4c\x18", "LZ4-compressed in its old format", "unpack it first: unlz4 --keep FILE"),
    (0, b"\x1f\x9d", "compressed by `compress`", "unpack it first: gunzip --keep FILE"),
    (0, b"PK", "a ZIP archive", "take the snapshot out of it: unzip FILE"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", "take the snapshot out of it: 7z x FILE"),
    (0, b"VCS", "a compressed envelope of Valkey of an unknown version", "let the server that wrote it save it plain"),
    (257, b"ustar", "a tar archive", "take the snapshot out of it: tar -xf FILE"),
    (0, b"*", "like an append-only file, but does not begin with a command", "copy the file again"),
    (0, b"{", "JSON of an unknown kind", "give the RDB file itself, or an export that docs/evidence.md names"),
    (0, b"PAR1", "a Parquet file", "give the RDB file itself"),
    (0, b"\xff\xfe", "text in UTF-16", "PowerShell makes that of what it redirects: take --out, or iconv -t UTF-8"),
    (0, b"\xfe\xff", "text in UTF-16", "convert it first: iconv -f UTF-16 -t UTF-8"),
    (0, b"\xef\xbb\xbf", "text behind a byte order mark", "an editor wrote it anew: give the file as it was made"),
)

EvidenceKind = Literal["rdb", "keyspace-ndjson", "aof", "commands", "records-json", "typed-json", "bare-json"]
"""Kinds of evidence that can be read.

rdb              a snapshot, bare or in the frame of a replication stream
keyspace-ndjson  an export of version 1, see docs/formats.md
aof              an append-only file, with a snapshot at its start or without, or a folder of several; also an export as
                 commands: only what is in it tells them apart
commands         lines of plain words, as `redis-cli` takes them
records-json     JSON objects that each name a key and its type: redis-dump, RIOT
typed-json       a JSON object of keys, each with an object that names its type: redis-dump of npm
bare-json        JSON objects that hold nothing but keys and values: rdbtools
"""
_KEYSPACE = b'"jobsleuth-keyspace"'
_PREAMBLE = b"\x0caof-preamble\xc0\x01"
"""The AUX field of a snapshot that commands follow. (That of a base, `aof-base`, says nothing of the kind.)"""
_LINE = re.compile(rb"(?i)(select|set|hset|hmset|rpush|sadd|zadd|expireat|expire|pexpireat|restore|del|flushall) +\S")
_RECORD = re.compile(rb"\s*\[?\s*\{\s*\"(?:key|db)\"\s*:")
_TYPED = re.compile(
    rb'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\{\s*"type"\s*:\s*"(?:string|list|set|zset|hash)"\s*,\s*"value"\s*:', re.DOTALL
)
_TTL = re.compile(rb"\"ttl\"\s*:")
_OBJECTS = re.compile(rb"\s*\[\s*(?:\{|\])")
_COMMAND = re.compile(rb"\*[0-9]{1,10}\r\n\$[0-9]{1,10}\r\n|#TS:[0-9]")


def evidence_kind(head: bytes, file: str, inside: str | None = None) -> EvidenceKind:
    """The kind of evidence that begins with these bytes.

    Args:
        head: the first bytes, 1,024 or all there are.
        file: the evidence as errors name it.
        inside: name of the compression that `head` was unpacked from; None: it is the evidence itself.

    Raises:
        EvidenceError: none that can be read; the message says what they look like instead.
    """
    where = f"what is in the {inside} file " if inside else ""
    if not head:
        raise EvidenceError(f"{where}is empty", file=file, offset=0, hint="the copy may have failed; compare its size")
    if head.startswith((b"REDIS", b"VALKEY", b"$")):
        return "aof" if _PREAMBLE in head else "rdb"
    if _COMMAND.match(head):
        return "aof"
    if head.lstrip().startswith(b"{") and _KEYSPACE in head.lstrip().partition(b"\n")[0]:
        return "keyspace-ndjson"
    if _RECORD.match(head) and _TTL.search(head):
        return "records-json"
    if _TYPED.match(head):
        return "typed-json"
    if _OBJECTS.match(head):
        return "bare-json"
    if _LINE.match(head):
        return "commands"
    again = recognise(head)
    if again is not None:
        raise EvidenceError(
            f"{where}is {again}-compressed once more",
            file=file,
            offset=0,
            hint="unpack it first, and give what is in it",
        )
    for at, magic, looks_like, hint in _OTHER_KINDS:
        if head[at:].startswith(magic):
            raise EvidenceError(f"{where}is no RDB file: it is {looks_like}", file=file, offset=0, hint=hint)
    seen = safetext.terminal(safetext.from_bytes(head[:9]))
    raise EvidenceError(
        f"{where}is no RDB file: it begins with '{seen}', not REDIS or VALKEY",
        file=file,
        offset=0,
        hint="give a dump.rdb",
    )


def require_rdb(kind: EvidenceKind, file: str) -> None:
    """Raises EvidenceError where the evidence is no snapshot."""
    if kind != "rdb":
        raise EvidenceError(f"is no RDB file: it is {NAMES[kind]}", file=file, offset=0, hint="give a dump.rdb")


NAMES: dict[EvidenceKind, str] = {
    "rdb": "a snapshot",
    "keyspace-ndjson": "a keyspace export",
    "aof": "an append-only file",
    "commands": "a file of commands",
    "records-json": "an export of redis-dump or RIOT",
    "typed-json": "an export of redis-dump",
    "bare-json": "a JSON export of rdbtools",
}
"""The kinds in words."""
