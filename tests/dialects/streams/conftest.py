"""Streams with consumer groups, and what their servers said of them: own dumps and those of the shared corpus."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobsleuth.safetext import from_bytes

ROOT = Path(__file__).parents[3]
FIXTURES = sorted(p.parent for p in (ROOT / "fixtures" / "streams").glob("*/evidence.rdb"))
CORPUS = sorted((ROOT.parent / "shared" / "corpus" / "servers").glob("*/streams.rdb"))
assert FIXTURES, "no dumps in fixtures/streams: make them with fixtures/make/streams/make.py"


def number(entry: str) -> tuple[int, int]:
    """An entry's id as it is ordered."""
    ms, _, seq = entry.partition("-")
    return int(ms), int(seq)


@dataclass(frozen=True)
class Told:
    """One group as its server told it; names as a case shows them.

    Attributes:
        pending: id → consumer (None: nobody), delivery time, deliveries.
        consumers: name → when seen, when active (None: not told), entries held.
        entries: id → fields of the whole stream.
        lag: as the server has it, None: it does not know.
    """

    db: int
    stream: str
    group: str
    last: str
    read: int | None
    added: int | None
    lag: int | None
    pending: dict[str, tuple[str | None, int, int]]
    consumers: dict[str, tuple[int, int | None, int]]
    entries: dict[str, list[tuple[bytes, bytes]]]


def of_fixture(folder: Path) -> list[Told]:
    """Groups from the raw replies beside a dump of our own."""
    told = json.loads((folder / "expect/server.json").read_text(encoding="utf-8"))
    out = []
    for stream in told["streams"]:
        full = _pairs(stream["xinfo_stream_full"])
        entries = {entry: _fields(flat) for entry, flat in stream["xrange"]}
        for group in map(_pairs, full["groups"]):
            consumers = [_pairs(c) for c in group["consumers"]]
            listed = {from_bytes(_bytes(name)): reply for name, reply in stream["xpending"]}
            name = from_bytes(_bytes(group["name"]))
            assert [p[0] for p in listed[name]] == [p[0] for p in group["pending"]]
            out.append(
                Told(
                    stream["db"],
                    from_bytes(_bytes(stream["key"])),
                    name,
                    group["last-delivered-id"],
                    group.get("entries-read"),
                    full.get("entries-added"),
                    group.get("lag"),
                    {i: (from_bytes(_bytes(c)) or None, at, tries) for i, c, at, tries in group["pending"]},
                    {
                        from_bytes(_bytes(c["name"])): (c["seen-time"], c.get("active-time"), c["pel-count"])
                        for c in consumers
                    },
                    entries,
                )
            )
    return out


def of_corpus(dump: Path) -> list[Told]:
    """Groups of a dump of the corpus."""
    truth = json.loads(gzip.decompress(dump.with_name("streams.json.gz").read_bytes()))
    out = []
    for db, keys in truth["databases"].items():
        for key in keys:
            if key["type"] != "stream":
                continue
            value = key["value"]
            entries = {entry: [(_plain(f), _plain(v)) for f, v in fields] for entry, fields in value["entries"]}
            out += [
                Told(
                    int(db),
                    from_bytes(_plain(key["key"])),
                    from_bytes(_plain(group["name"])),
                    group["last_delivered_id"],
                    group.get("entries_read"),
                    value.get("entries_added"),
                    group.get("lag"),
                    {
                        p["id"]: (from_bytes(_plain(p["consumer"])) or None, p["delivery_time_ms"], p["delivery_count"])
                        for p in group["pel"]
                    },
                    {
                        from_bytes(_plain(c["name"])): (c["seen_time_ms"], c.get("active_time_ms"), len(c["pel_ids"]))
                        for c in group["consumers"]
                    },
                    entries,
                )
                for group in value["groups"]
            ]
    return out


def _plain(value: str) -> bytes:
    return base64.b64decode(value)


def _bytes(value: Any) -> bytes:
    return base64.b64decode(value["b64"]) if isinstance(value, dict) else str(value).encode()


def _pairs(flat: list[Any]) -> dict[str, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _fields(flat: list[Any]) -> list[tuple[bytes, bytes]]:
    return [(_bytes(name), _bytes(value)) for name, value in zip(flat[::2], flat[1::2], strict=True)]
