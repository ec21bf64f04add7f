"""The jobs that get a section of their own: those that findings speak of, the worst first, a few of each kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jobsleuth.case import Case
from jobsleuth.reports.document import Document
from jobsleuth.reports.findings import Finding
from jobsleuth.reports.html.named import which
from jobsleuth.reports.picture import JobRef, Picture, pictures
from jobsleuth.reports.story import sections, story
from jobsleuth.reports.words import number

JOBS = 40
"""Jobs with a section; of more, the examples of each group come first."""
PAYLOAD_BYTES = 32 << 20
"""Stored payloads up to which digests are made unasked: to read one is to unpack nearly all."""
_Key = tuple[Any, ...]


@dataclass(frozen=True)
class Suspects:
    """Sections in their order, the jobs they are about, and where each job's section is."""

    sections: list[dict[str, Any]]
    refs: list[JobRef]
    anchors: dict[_Key, str]
    note: str
    exact: dict[str | None, bytes]

    def anchor(self, finding: Finding) -> str:
        """Id of the section about the finding's job; the empty string where there is none."""
        return self.anchors.get(_key(finding, self.exact), "")


def suspects(case: Case, document: Document, shown: int | None) -> Suspects:
    """Chooses the jobs and gathers what is known of each.

    Args:
        case: where they are.
        document: whose findings decide.
        shown: see :func:`jobsleuth.reports.html.render`.
    """
    exact = _exact(case)
    wanted: dict[_Key, Finding] = {}
    for cause in document.causes:
        for example in cause.examples:
            wanted.setdefault(_key(example, exact), example)
    for finding in document.findings:
        if len(wanted) >= JOBS:
            break
        wanted.setdefault(_key(finding, exact), finding)
    wanted = {key: finding for key, finding in wanted.items() if finding.job_id is not None}
    chosen = list(wanted)[:JOBS]
    known = _known(case, chosen)
    refs = [known[key] for key in chosen if key in known]
    read = shown is not None or _stored(case) <= PAYLOAD_BYTES
    found = pictures(case, refs, payloads=read)
    anchors = {key: f"job-{nth}" for nth, key in enumerate((k for k in chosen if k in known), 1)}
    total = document.findings.jobs()
    note = f"{number(len(refs), 'job')} of {total:,} that findings speak of" + (
        ", the worst of each kind first." if total > len(refs) else "."
    )
    if shown is None:
        note += " Of payloads and results only size and digest are shown."
    if not read:
        note += " The case is too large for digests of payloads here; jobsleuth report makes them with --show-payload."
    named = which(document)
    made = [
        _section(p, a, shown, named(p.ref.place, p.ref.evidence, p.ref.db))
        for p, a in zip(found, anchors.values(), strict=True)
    ]
    return Suspects(made, refs, anchors, note, exact)


def _exact(case: Case) -> dict[str | None, bytes]:
    """Fingerprint → bytes of the job's id, of findings about ids that are no text."""
    if not case.has_odd_ids:
        return {}
    rows = case.query("select fingerprint, job_id_bytes from findings where job_id_bytes is not null").to_pylist()
    return {row["fingerprint"]: row["job_id_bytes"] for row in rows}


def _key(finding: Finding, exact: dict[str | None, bytes]) -> _Key:
    place = (finding.evidence, finding.db, finding.dialect, finding.namespace, finding.queue, finding.job_id)
    return (*place, exact.get(finding.fingerprint))


def _known(case: Case, keys: list[_Key]) -> dict[_Key, JobRef]:
    """Those of the jobs that have a row: a finding may speak of an id that no queue knows.

    Of jobs that read the same as text, where a finding does not say which it means, the one whose text is exact.
    """
    ids = sorted({str(key[5]) for key in keys})
    rows = case.query(
        "select evidence, db, dialect::varchar as dialect, namespace::varchar as namespace, queue::varchar as queue,"
        " job_id, namespace_bytes, queue_bytes, job_id_bytes from jobs"
        " where job_id in (select unnest($ids::varchar[])) order by all nulls first",
        {"ids": ids},
    ).to_pylist()
    found: dict[tuple[Any, ...], JobRef] = {}
    for row in rows:
        for exact in {row["job_id_bytes"], None}:
            found.setdefault((*tuple(row.values())[:6], exact), JobRef(**row))
    return {key: found[key] for key in keys if key in found}


def _stored(case: Case) -> int:
    return case.stored_bytes("jobs", ["payload"])


def _section(picture: Picture, anchor: str, shown: int | None, place: str) -> dict[str, Any]:
    severities = [row["severity"] for row in picture.findings]
    worst = next((s for s in ("error", "warning", "info") if s in severities), "info")
    return {
        "anchor": anchor,
        "job_id": picture.ref.job_id,
        "place": place,
        "state": picture.job.get("state") or "unknown",
        "worst": worst,
        "story": story(picture),
        "sections": list(sections(picture, shown)),
    }
