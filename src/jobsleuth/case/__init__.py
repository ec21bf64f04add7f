"""The saved result of a run: Parquet tables, a manifest, and ways to read them. DuckDB and pandas load on first use."""

from jobsleuth.case.identity import readable, stored
from jobsleuth.case.manifest import EvidenceInfo, EvidenceWarning, Manifest
from jobsleuth.case.pages import table_pages
from jobsleuth.case.reader import Case, open_case
from jobsleuth.case.redact import MARK, Redactor
from jobsleuth.case.schema import SCHEMA_VERSION, TABLES, conform
from jobsleuth.case.signals import DEPTH, VIEWS, WAITING, as_counted
from jobsleuth.case.store import CaseWriter

__all__ = [
    "DEPTH",
    "MARK",
    "SCHEMA_VERSION",
    "TABLES",
    "VIEWS",
    "WAITING",
    "Case",
    "CaseWriter",
    "EvidenceInfo",
    "EvidenceWarning",
    "Manifest",
    "Redactor",
    "as_counted",
    "conform",
    "open_case",
    "readable",
    "stored",
    "table_pages",
]
