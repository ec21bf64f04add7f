"""A second opinion on an RDB file: rdbtools, an unrelated reader in Python, key by key beside our own reading.

rdbtools (checked: 0.1.15) reads RDB versions 1 to 9. What its reading cannot say is not compared, and what it is known
to change is changed on our side, too: it cuts expiry times at the year 9002, takes values of zipmaps for numbers where
they look like some, and gives streams as undecoded blocks with their number of entries.
"""

from __future__ import annotations

import hashlib
import importlib
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from jobsleuth import safetext
from jobsleuth.errors import EvidenceError, UsageError
from jobsleuth.sources.rdb import RdbKeyspace
from jobsleuth.sources.spool import SpoolOptions, snapshot

NEWEST = 9
"""Highest RDB version that rdbtools reads."""
TOLD = 1000
"""Differences that are listed; the rest is counted."""
_LOOK_AHEAD = 1000
_LAST_SECOND = 221_925_052_800
"""rdbtools cuts later times to this one."""
_LZF_MOST = 100
"""LZF cannot unfold to 100 times its size; rdbtools would reserve whatever the file asks for."""
_EPOCH = datetime(1970, 1, 1)
_MASK = (1 << 128) - 1
_STEP = 4 << 20


@dataclass(frozen=True)
class Difference:
    """One key that the two readings do not agree on.

    Attributes:
        what: `type`, `expiry`, `value`, `only_jobsleuth` or `only_rdbtools`.
        db: database number.
        key: name as text, non-UTF-8 bytes as ``\\xNN``.
        jobsleuth: what our reading says; None: it has no such key.
        rdbtools: what the other says; None: it has no such key.
    """

    what: str
    db: int
    key: str
    jobsleuth: str | None
    rdbtools: str | None


@dataclass
class Crosscheck:
    """What came of the comparison.

    Attributes:
        evidence: as the user gave it.
        format_version: of the RDB file.
        checksum: our verdict on the file's checksum (rdbtools does not look at it).
        rdbtools_version: version of the other reader.
        jobsleuth_keys: keys of our reading.
        rdbtools_keys: keys of the other.
        agreed: keys with the same type, expiry and value, as far as it is compared.
        not_compared: type → keys of which only a part of the value was: `stream` (number of entries only) and `module`
            (nothing).
        counts: kind of difference → keys.
        differences: the first of them, at most :data:`TOLD`.
        jobsleuth_stopped: why our reading ended before the end of the file; None: it did not.
        rdbtools_stopped: the same of the other.
    """

    evidence: str
    format_version: int
    checksum: str
    rdbtools_version: str
    jobsleuth_keys: int
    rdbtools_keys: int = 0
    agreed: int = 0
    not_compared: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    jobsleuth_stopped: str | None = None
    rdbtools_stopped: str | None = None

    @property
    def same(self) -> bool:
        """Both read the whole file and agree on everything that was compared."""
        return not self.counts and self.jobsleuth_stopped is None and self.rdbtools_stopped is None


def crosscheck(
    evidence: Path,
    *,
    spool: SpoolOptions | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Crosscheck:
    """Reads an RDB file with both readers and compares them key by key, in the order of the file.

    Values are compared by digests, so that memory is bounded by the number of keys and by the largest string.

    Args:
        evidence: path, or `-`.
        spool: where compressed and streamed evidence is spooled.
        progress: called now and then with (`unpack`, `index` or `compare`, bytes done, bytes in all).

    Raises:
        UsageError: rdbtools is not installed.
        EvidenceError: the evidence is no RDB file, or one that is too new for rdbtools.
    """
    try:
        theirs = importlib.import_module("rdbtools")
    except ImportError:
        raise UsageError("rdbtools is not installed", hint="pip install 'jobsleuth[crosscheck]'") from None

    def stage(name: str) -> Callable[[int, int], None] | None:
        return None if progress is None else lambda done, total: progress(name, done, total)

    with snapshot(evidence, spool=spool, salvage=True, progress=stage("unpack")) as source:
        ours = RdbKeyspace.open(source, salvage=True, progress=stage("index"))
        facts = ours.facts
        if facts.family != "redis" or facts.format_version is None or facts.format_version > NEWEST:
            magic = safetext.terminal(facts.magic or "")
            raise EvidenceError(
                f"is {magic}, and rdbtools reads RDB versions up to {NEWEST}",
                file=source.shown,
                hint="a second opinion on newer files: load a copy into a scratch server of that version",
            )
        fault = facts.fault
        run = _Comparison(
            ours,
            Crosscheck(
                evidence=source.given,
                format_version=facts.format_version,
                checksum=str(facts.checksum.get("status")),
                rdbtools_version=str(getattr(theirs, "__version__", "unknown")),
                jobsleuth_keys=ours.keys.num_rows,
                jobsleuth_stopped=f"{fault['message']} (at byte {fault['offset']:,})" if fault else None,
            ),
        )
        with source.path.open("rb") as file:
            whole = _Whole(file, source.size, stage("compare"))
            whole.pass_frame()
            callback = _Callback(run.take)
            parser = theirs.RdbParser(callback)
            parser.lzf_decompress = _bounded(parser.lzf_decompress)
            try:
                parser.parse_fd(whole)
            except Exception as error:
                # It raises whatever comes: `Exception` with two arguments, `struct.error`, `TypeError`.
                told = safetext.terminal(" ".join(str(error).split()), 200)
                run.result.rdbtools_stopped = f"{told or type(error).__name__} (at byte {whole.at:,})"
        return run.finish()


class _Comparison:
    """Our keys in the order of the file, met one by one by those of the other reader."""

    def __init__(self, ours: RdbKeyspace, result: Crosscheck) -> None:
        self.result = result
        self._digests = _Digests(ours)
        self._rows = _rows(ours)
        self._ahead: list[tuple[int, int, bytes, str, int | None]] = []

    def take(self, db: int, key: bytes, kind: str, expiry: int | None, digest: int, count: int) -> None:
        """One key of the other reader."""
        self.result.rdbtools_keys += 1
        found = self._find(db, key)
        if found is None:
            self._differ("only_rdbtools", db, key, None, kind)
            return
        row, _, _, our_kind, our_expiry = found
        our_digest, our_count = self._digests.of(row)
        wanted = _cut(our_expiry)
        if our_kind != kind:
            self._differ("type", db, key, our_kind, kind)
        elif wanted != expiry:
            self._differ("expiry", db, key, f"{wanted}", f"{expiry}")
        elif kind == "module":
            self._partly(kind)
        elif our_count != count:
            self._differ("value", db, key, f"{our_count:,} elements", f"{count:,} elements")
        elif our_digest != digest:
            self._differ("value", db, key, f"digest {our_digest:032x}", f"digest {digest:032x}")
        elif kind == "stream":
            self._partly(kind)
        else:
            self.result.agreed += 1

    def finish(self) -> Crosscheck:
        for _, db, key, kind, _ in [*self._ahead, *self._rows]:
            self._differ("only_jobsleuth", db, key, kind, None)
        return self.result

    def _find(self, db: int, key: bytes) -> tuple[int, int, bytes, str, int | None] | None:
        """Our next row of that name; rows before it are ours alone."""
        if not self._ahead:
            self._ahead.extend(islice(self._rows, 1))
        if self._ahead and self._ahead[0][1:3] == (db, key):
            return self._ahead.pop(0)
        self._ahead.extend(islice(self._rows, _LOOK_AHEAD - len(self._ahead)))
        for nth, known in enumerate(self._ahead):
            if known[1:3] == (db, key):
                for _, missed_db, missed, kind, _ in self._ahead[:nth]:
                    self._differ("only_jobsleuth", missed_db, missed, kind, None)
                del self._ahead[: nth + 1]
                return known
        return None

    def _partly(self, kind: str) -> None:
        self.result.agreed += 1
        self.result.not_compared[kind] = self.result.not_compared.get(kind, 0) + 1

    def _differ(self, what: str, db: int, key: bytes, ours: str | None, theirs: str | None) -> None:
        self.result.counts[what] = self.result.counts.get(what, 0) + 1
        if len(self.result.differences) < TOLD:
            self.result.differences.append(Difference(what, db, safetext.from_bytes(key), ours, theirs))


class _Digests:
    """Digest and number of elements of each of our values, by row."""

    def __init__(self, ours: RdbKeyspace) -> None:
        keys = ours.keys.num_rows
        self._low = np.zeros(keys, np.uint64)
        self._high = np.zeros(keys, np.uint64)
        self._counts = np.zeros(keys, np.int64)
        kinds = ours.keys.column("type").to_numpy().astype(str)
        zipmaps = ours.keys.column("encoding").to_numpy() == "zipmap"

        def rows(*names: str) -> npt.NDArray[np.int64]:
            return np.flatnonzero(np.isin(kinds, names)).astype(np.int64)

        for batch in ours.strings(rows("string")):
            for row, value in zip(batch.column("row").to_pylist(), batch.column("value"), strict=True):
                self._put(row, element(value.as_py()), 1)
        ordered = np.zeros(keys, np.bool_)
        ordered[rows("list")] = True
        self._sum(ours.elements(rows("list", "set", "zset", "hash")), ordered, zipmaps)
        for batch in ours.stream_entries(rows("stream"), ()):
            np.add.at(self._counts, batch.column("row").to_numpy(), 1)

    def of(self, row: int) -> tuple[int, int]:
        """(digest, number of elements)."""
        return int(self._high[row]) << 64 | int(self._low[row]), int(self._counts[row])

    def _put(self, row: int, digest: int, count: int) -> None:
        total = (self.of(row)[0] + digest) & _MASK
        self._low[row] = total & 0xFFFF_FFFF_FFFF_FFFF
        self._high[row] = total >> 64
        self._counts[row] += count

    def _sum(self, batches: Iterable[Any], ordered: npt.NDArray[np.bool_], zipmaps: npt.NDArray[np.bool_]) -> None:
        names = ("row", "position", "member", "score", "value")
        for batch in batches:
            at, digest, count = -1, 0, 0
            for row, position, member, score, value in zip(*(batch.column(n).to_pylist() for n in names), strict=True):
                if row != at:
                    if count:
                        self._put(at, digest, count)
                    at, digest, count = row, 0, 0
                if score is not None:
                    digest += element(member, _score(score))
                elif value is not None:
                    digest += element(member, _as_number(value) if zipmaps[row] else value)
                elif ordered[row]:
                    digest += element(member, position.to_bytes(8, "little"))
                else:
                    digest += element(member)
                count += 1
            if count:
                self._put(at, digest, count)


class _Callback:
    """What rdbtools calls for everything it reads."""

    def __init__(self, take: Callable[[int, bytes, str, int | None, int, int], None]) -> None:
        self._take = take
        self._db = 0
        self._kind = ""
        self._expiry: int | None = None
        self._digest = 0
        self._count = 0

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Everything else it calls (start and end of the file, AUX fields, sizes) tells nothing about a key."""
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None

    def start_database(self, number: int) -> None:
        self._db = number

    def set(self, key: Any, value: Any, expiry: datetime | None, info: Any) -> None:
        self._start("string", expiry)
        self._add(element(_bytes(value)))
        self._end(key)

    def start_hash(self, key: Any, length: int, expiry: datetime | None, info: Any) -> None:
        self._start("hash", expiry)

    def hset(self, key: Any, name: Any, value: Any) -> None:
        self._add(element(_bytes(name), _bytes(value)))

    def start_set(self, key: Any, length: int, expiry: datetime | None, info: Any) -> None:
        self._start("set", expiry)

    def sadd(self, key: Any, member: Any) -> None:
        self._add(element(_bytes(member)))

    def start_list(self, key: Any, expiry: datetime | None, info: Any) -> None:
        self._start("list", expiry)

    def rpush(self, key: Any, value: Any) -> None:
        self._add(element(_bytes(value), self._count.to_bytes(8, "little")))

    def start_sorted_set(self, key: Any, length: int, expiry: datetime | None, info: Any) -> None:
        self._start("zset", expiry)

    def zadd(self, key: Any, score: Any, member: Any) -> None:
        self._add(element(_bytes(member), _score(float(score))))

    def start_stream(self, key: Any, blocks: int, expiry: datetime | None, info: Any) -> None:
        self._start("stream", expiry)

    def end_stream(self, key: Any, items: int, last_id: str, groups: Any) -> None:
        self._count = items
        self._end(key)

    def start_module(self, key: Any, name: str, expiry: datetime | None, info: Any) -> bool:
        self._start("module", expiry)
        return False

    def end_module(self, key: Any, buffer_size: int, buffer: Any = None) -> None:
        if key is not None:  # else it is data of the module's own, beside the keys
            self._end(key)

    def end_hash(self, key: Any, info: Any = None) -> None:
        self._end(key)

    end_set = end_list = end_sorted_set = end_hash

    def _start(self, kind: str, expiry: datetime | None) -> None:
        self._kind = kind
        self._expiry = None if expiry is None else (expiry - _EPOCH) // timedelta(milliseconds=1)
        self._digest = self._count = 0

    def _add(self, digest: int) -> None:
        self._digest += digest
        self._count += 1

    def _end(self, key: Any) -> None:
        self._take(self._db, _bytes(key), self._kind, self._expiry, self._digest & _MASK, self._count)


class _Whole:
    """The file as rdbtools reads it: no read beyond the end, and the place known when it gives up."""

    def __init__(self, file: BinaryIO, size: int, progress: Callable[[int, int], None] | None) -> None:
        self.at = 0
        self._file = file
        self._size = size
        self._progress = progress
        self._told = 0

    def __enter__(self) -> _Whole:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing: whoever opened the file closes it."""

    def read(self, count: int = -1) -> bytes:
        if count > self._size - self.at:
            raise EOFError(f"the file ends, {count - self._size + self.at:,} bytes too early")
        found = self._file.read(count)
        self.at += len(found)
        if self._progress is not None and self.at - self._told >= _STEP:
            self._told = self.at
            self._progress(self.at, self._size)
        return found

    def pass_frame(self) -> None:
        """Passes over the line that a replication stream puts before a snapshot."""
        if self._file.read(1) == b"$":
            self.at = 1 + len(self._file.readline(128))
        else:
            self._file.seek(0)


def element(*parts: bytes) -> int:
    """128 bits that stand for a string, or for a pair of them. Those of a value's elements are summed up."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return int.from_bytes(digest.digest(), "little")


def _rows(ours: RdbKeyspace) -> Iterator[tuple[int, int, bytes, str, int | None]]:
    """(row, db, key, type, expiry), a batch at a time."""
    row = 0
    for batch in ours.keys.select(["db", "key", "type", "expire_at"]).to_batches(max_chunksize=4096):
        for db, key, kind, expiry in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield row, db, key, kind, expiry
            row += 1


def _bytes(value: Any) -> bytes:
    """A string as rdbtools gives it: bytes, or a number where it was stored as one."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, int):
        return b"%d" % value
    raise ValueError("a string that cannot be unpacked")


def _score(score: float) -> bytes:
    return struct.pack("<d", score) if score == score else b"nan"


def _as_number(value: bytes) -> bytes:
    try:
        return b"%d" % int(value)
    except ValueError:
        return value


def _cut(expiry: int | None) -> int | None:
    """An expiry in Unix ms as rdbtools tells it, which reads the bytes as an unsigned number."""
    if expiry is None:
        return None
    seconds, ms = divmod(expiry % (1 << 64), 1000)
    return min(seconds, _LAST_SECOND) * 1000 + ms


def _bounded(decompress: Callable[[bytes, int], bytes]) -> Callable[[bytes, int], bytes]:
    def bounded(packed: bytes, size: int) -> bytes:
        if size > len(packed) * _LZF_MOST:
            raise ValueError(f"{len(packed):,} bytes that claim to unfold to {size:,}")
        return decompress(packed, size)

    return bounded
