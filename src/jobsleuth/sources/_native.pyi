"""The native core: Redis formats to Arrow. Knows nothing about queues."""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, final

__all__ = [
    "ArrowStream",
    "Conversion",
    "Fault",
    "Index",
    "__version__",
    "cat",
    "cat_dump",
    "convert_foreign",
    "convert_ndjson",
    "cut",
    "find_prefix",
    "find_suffix",
    "index",
    "replay_commands",
    "to_text",
]

__version__: str

class _Streamable(Protocol):
    """Anything with the Arrow PyCapsule interface for streams, e.g. a `pyarrow.ChunkedArray`."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class ArrowStream:
    """An Arrow C stream (PyCapsule interface). Streams of decoded values can be taken once only."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class Fault(Exception):
    """The evidence cannot be read on. args: (kind: str, message: str, offset: int | None, salvageable: bool)."""

@final
class Index:
    """The keys of one RDB file after the index pass."""

    def info(self) -> str:
        """JSON: family, magic, version, aux {name: value}, functions [{name, engine, size}], modules [{name, version,
        keys}], databases {db: {keys, expires, hint_keys, hint_expires}}, counts {keys, expires, …}, checksum
        {status: ok|absent|disabled|mismatch|unverified, stored, computed}, bytes, end_offset, trailing_bytes,
        warnings [{kind, message, offset, count}], fault {kind, message, offset} | null."""

    def value_faults(self) -> str:
        """JSON: values that could not be read so far, [{kind, message, offset, key}] in file order. The C stream
        carries only a text; and with `salvage` such values do not end it: what stood before the damage is there."""

    def value_oddities(self) -> str:
        """JSON likewise: values read so far that hold what no server would load; kind score_no_number, field_twice."""

    def keys(self) -> ArrowStream: ...
    def lookup(
        self, prefixes: Sequence[tuple[int, bytes]], code: _Streamable, middle: _Streamable, suffix: bytes
    ) -> ArrowStream: ...
    def records(
        self, rows: _Streamable, projection: str, rest: bool, threads: int, batch_bytes: int
    ) -> ArrowStream: ...
    def elements(self, rows: _Streamable, threads: int, batch_bytes: int) -> ArrowStream: ...
    def strings(self, rows: _Streamable, limit: int | None, threads: int, batch_bytes: int) -> ArrowStream: ...
    def stream_entries(self, rows: _Streamable, projection: str, threads: int, batch_bytes: int) -> ArrowStream: ...
    def stream_groups(self, rows: _Streamable, threads: int, batch_bytes: int) -> ArrowStream: ...

@final
class Conversion:
    """What came of other evidence that was written as a snapshot."""

    def info(self) -> str:
        """JSON: keys, replaced (keys that came again), warnings [{kind, message, offset, count}], fault {kind, message,
        offset} | null, and what the kind of evidence says of itself: redis_version, started_at_ms, finished_at_ms,
        as_of_ms, seen_at_ms, atomic."""

    def origins(self) -> ArrowStream:
        """Three columns, a row per key of the snapshot: `offset` and `nbytes` uint64 (where the evidence has the key),
        `encoding` dictionary<string> (null: not told)."""

def convert_ndjson(
    path: str,
    spool: str,
    salvage: bool,
    max_value_bytes: int,
    max_spool_bytes: int,
    progress: Callable[[int, int], None] | None,
) -> Conversion:
    """Writes keyspace NDJSON as a snapshot into the existing file `spool`.

    Raises:
        Fault: no export of version 1; a broken line, unless salvaged; `spool` would pass its size.
    """

def convert_foreign(
    path: str,
    spool: str,
    layout: Literal["records", "typed", "bare"],
    salvage: bool,
    max_value_bytes: int,
    max_spool_bytes: int,
    progress: Callable[[int, int], None] | None,
) -> Conversion:
    """Writes another tool's JSON export as a snapshot into the existing file `spool`. Its layout: `records` that each
    name a key and its type, one object of `typed` values, or `bare` keys and values. The JSON of the conversion names
    the `tool`.

    Raises:
        Fault: no such export; damage, unless salvaged; `spool` would pass its size.
    """

def replay_commands(
    parts: Sequence[tuple[str, str, bool]],
    spool: str,
    salvage: bool,
    inline: bool,
    until_ms: int | None,
    until_offset: tuple[int, int] | None,
    max_value_bytes: int,
    max_spool_bytes: int,
    history: str | None,
    moves: Callable[[ArrowStream], None] | None,
    progress: Callable[[int, int], None] | None,
) -> Conversion:
    """Replays files of commands (path, name, whether it is a base, in order) and writes the keyspace in the end to the
    file `spool`. With `moves`, that is called with batches of all changes (a base's commands are none), and every key
    that ever was is written to `history`.

    The JSON of the conversion: commands, replayed, transactions, library_commands, first_time_s, last_time_s, aux,
    functions [{name, engine, size}], keys, names {command: count}, stop (end|time|offset|fault), end {part, offset},
    warnings, fault.

    Raises:
        Fault: a fault in a file, unless salvaged; that the last file is cut short is none.
    """

def index(path: str, salvage: bool, max_value_bytes: int, progress: Callable[[int, int], None] | None) -> Index: ...
def cat(
    path: str, out: str | None, max_value_bytes: int, first_line: str | None = None, cut_short: bool = False
) -> str:
    """Writes keyspace NDJSON to the file `out`, or to standard output; returns JSON {keys, warnings}.

    Where the snapshot stands for other evidence, `first_line` is the first line, and encodings are left out;
    `cut_short` leaves out the end line.

    Raises:
        Fault: the evidence cannot be read, or not further.
        OSError: the output cannot be written. That nobody reads standard output any more is no error.
    """

def cat_dump(payload: bytes, max_value_bytes: int) -> bytes:
    """The value of a DUMP payload as a line of keyspace NDJSON without a key: {type, encoding, value}.

    Raises:
        Fault: a wrong checksum, an unknown version or type, damage; offsets are those in the payload.
    """

def find_prefix(values: _Streamable, prefixes: Sequence[bytes]) -> ArrowStream: ...
def find_suffix(values: _Streamable, suffixes: Sequence[bytes]) -> ArrowStream: ...
def cut(values: _Streamable, head: _Streamable, tail: _Streamable) -> ArrowStream: ...
def to_text(values: _Streamable) -> ArrowStream:
    """Two columns: `text` string, `exact` binary (null where the text is exact)."""
