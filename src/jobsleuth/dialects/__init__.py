"""Queue libraries: which key is what, and what the library would answer."""

from jobsleuth.dialects.base import Dialect, Options, RecordKey, Story
from jobsleuth.dialects.catalogue import all_dialects

__all__ = ["Dialect", "Options", "RecordKey", "Story", "all_dialects"]
