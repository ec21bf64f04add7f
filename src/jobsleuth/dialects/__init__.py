"""Queue libraries: which key is what, and what the library would answer."""

from jobsleuth.dialects.base import Dialect, Options, RecordKey, Story
from jobsleuth.dialects.catalogue import all_dialects
from jobsleuth.dialects.description import Described

__all__ = ["Described", "Dialect", "Options", "RecordKey", "Story", "all_dialects"]
