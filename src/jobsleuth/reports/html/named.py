"""What the page calls a queue, so that one name is one queue."""

from __future__ import annotations

from collections.abc import Callable

from jobsleuth.reports.document import Document


def which(document: Document) -> Callable[[str, int | None, int | None], str]:
    """How the page names a queue, from its place, evidence and database: those two only where there are several."""
    files, databases = len(document.evidence) > 1, len({q.db for q in document.queues}) > 1

    def named(place: str, evidence: int | None, db: int | None) -> str:
        more = [f"file {evidence}"] if files and evidence is not None else []
        more += [f"db {db}"] if databases and db is not None else []
        return f"{place} ({', '.join(more)})".lstrip() if more else place

    return named
