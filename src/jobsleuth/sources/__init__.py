"""Evidence in, keyspace out: one file per kind of evidence."""

from jobsleuth.sources.cat import write_keyspace
from jobsleuth.sources.rdb import DEFAULT_MAX_VALUE_BYTES, RdbKeyspace

__all__ = ["DEFAULT_MAX_VALUE_BYTES", "RdbKeyspace", "write_keyspace"]
