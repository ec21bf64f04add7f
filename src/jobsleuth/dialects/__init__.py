"""Queue libraries: which key is what, and what the library would answer."""

from jobsleuth.dialects.base import Dialect, Options
from jobsleuth.dialects.catalogue import all_dialects

__all__ = ["Dialect", "Options", "all_dialects"]
