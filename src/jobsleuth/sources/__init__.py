"""Evidence in, keyspace out: one file per kind of evidence."""

from jobsleuth.sources.aof import History
from jobsleuth.sources.cat import write_keyspace
from jobsleuth.sources.converted import ConvertedKeyspace, open_keyspace
from jobsleuth.sources.crosscheck import Crosscheck, crosscheck
from jobsleuth.sources.rdb import DEFAULT_MAX_VALUE_BYTES, RdbKeyspace
from jobsleuth.sources.reading import ReadOptions
from jobsleuth.sources.spool import STANDARD_INPUT, Snapshot, SpoolOptions, snapshot

__all__ = [
    "DEFAULT_MAX_VALUE_BYTES",
    "STANDARD_INPUT",
    "ConvertedKeyspace",
    "Crosscheck",
    "History",
    "RdbKeyspace",
    "ReadOptions",
    "Snapshot",
    "SpoolOptions",
    "crosscheck",
    "open_keyspace",
    "snapshot",
    "write_keyspace",
]
