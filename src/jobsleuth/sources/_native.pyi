"""The native core: Redis formats to Arrow. Knows nothing about queues."""

from collections.abc import Callable, Sequence
from typing import Protocol

__version__: str

class ArrowStream(Protocol):
    """An Arrow C stream (PyCapsule interface)."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class Fault(Exception):
    """The evidence cannot be read on. args: (kind: str, message: str, offset: int | None, salvageable: bool)."""

class Index:
    """The keys of one RDB file after the index pass."""

    def info(self) -> str:
        """JSON: family, magic, version, aux {name: value}, functions [{name, engine, size}], modules [{name, version}],
        databases {db: {keys, expires, hint_keys, hint_expires}}, counts {keys, expires, …}, checksum
        {status: ok|absent|disabled|mismatch|unverified, stored, computed}, bytes, end_offset, trailing_bytes,
        warnings [{kind, message, offset, count}], fault {kind, message, offset} | null."""

    def keys(self) -> ArrowStream: ...
    def lookup(
        self, prefixes: Sequence[tuple[int, bytes]], code: ArrowStream, middle: ArrowStream, suffix: bytes
    ) -> ArrowStream: ...
    def records(self, rows: ArrowStream, projection: str, threads: int, batch_bytes: int) -> ArrowStream: ...
    def elements(self, rows: ArrowStream, threads: int, batch_bytes: int) -> ArrowStream: ...
    def strings(self, rows: ArrowStream, limit: int | None, threads: int, batch_bytes: int) -> ArrowStream: ...
    def stream_entries(self, rows: ArrowStream, projection: str, threads: int, batch_bytes: int) -> ArrowStream: ...

def index(path: str, salvage: bool, max_value_bytes: int, progress: Callable[[int, int], None] | None) -> Index: ...
def cat(path: str, out: str | None, max_value_bytes: int) -> str:
    """Writes keyspace NDJSON to the file `out`, or to standard output; returns JSON {keys, warnings}."""

def find_prefix(values: ArrowStream, prefixes: Sequence[bytes]) -> ArrowStream: ...
def find_suffix(values: ArrowStream, suffixes: Sequence[bytes]) -> ArrowStream: ...
def cut(values: ArrowStream, head: ArrowStream, tail: ArrowStream) -> ArrowStream: ...
def to_text(values: ArrowStream) -> ArrowStream:
    """Two columns: `text` string, `exact` binary (null where the text is exact)."""
