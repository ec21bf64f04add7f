"""index → claim → extract → case → checks, and the case put in its place at the end."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from jobsleuth.case import SCHEMA_VERSION, Case, CaseWriter, EvidenceInfo, EvidenceWarning, Manifest, Redactor
from jobsleuth.checks import Check, Policy, all_checks, run_checks
from jobsleuth.dialects import Described, Dialect, Options, all_dialects
from jobsleuth.errors import UsageError
from jobsleuth.keyspace import Claims
from jobsleuth.memory import give_back, lean_arrow
from jobsleuth.pipeline.exact import Exact
from jobsleuth.pipeline.fingerprint import Fingerprint, fingerprint, require_unchanged
from jobsleuth.pipeline.keys_table import key_batches, timeless
from jobsleuth.pipeline.transitions import transitions
from jobsleuth.reports import Document, document, prepare_html, render_html
from jobsleuth.sources import (
    DEFAULT_MAX_VALUE_BYTES,
    STANDARD_INPUT,
    ConvertedKeyspace,
    RdbKeyspace,
    ReadOptions,
    Snapshot,
    SpoolOptions,
    open_keyspace,
    snapshot,
)

REPORT = "report.html"
"""The page that a case holds about itself."""
Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total); the unit of done and total depends on the stage."""


@dataclass(frozen=True)
class AnalyzeOptions:
    """What the user decides about a run.

    Attributes:
        force: replace an existing case.
        salvage: keep what stands before a fault in the evidence, marked as such.
        as_of_ms: the snapshot's time in Unix ms, instead of the evidence's own.
        until_ms: replay append-only files only up to this moment, Unix ms.
        until_offset: replay them only up to this place: name of a file (None: the last) and byte offset.
        prefixes: BullMQ prefixes the user settles.
        payload_limit: bytes of each payload kept in the case; None: all, 0: none.
        streams_acked: whether entries of streams that a group has acknowledged become jobs too, not only counts.
        described: home-made layouts, and other names of plain lists.
        checks: own checks, besides all that are installed.
        policy: how strictly the case is judged; None: as the checks themselves say.
        redactor: replaces what applications stored, and what looks like a secret, before it is written; None: as it is.
        max_value_bytes: refuse a single string larger than this.
        threads: decoding threads; None: one per core.
        tmpdir: folder for the temporary file that compressed or streamed evidence is spooled to; None: the system's.
        max_spool_bytes: refuse evidence that unfolds to more than this; None: what `tmpdir` has room for.
    """

    force: bool = False
    salvage: bool = False
    as_of_ms: int | None = None
    until_ms: int | None = None
    until_offset: tuple[str | None, int] | None = None
    prefixes: tuple[str, ...] = ()
    payload_limit: int | None = None
    streams_acked: bool = False
    described: Described = field(default_factory=Described)
    checks: tuple[type[Check], ...] = ()
    policy: Policy | None = None
    redactor: Redactor | None = None
    max_value_bytes: int = DEFAULT_MAX_VALUE_BYTES
    threads: int | None = None
    tmpdir: Path | None = None
    max_spool_bytes: int | None = None

    def recorded(self) -> dict[str, Any]:
        """The options that shape the case, for its manifest."""
        policy = None if self.policy is None or self.policy == Policy() else self.policy.recorded()
        own = {check.id: hashlib.sha256(check.sql.encode()).hexdigest() for check in self.checks}
        return {
            **({} if policy is None else {"policy": policy}),
            **({"own_checks": own} if own else {}),
            **({"layouts": list(self.described.names)} if self.described.names else {}),
            "as_of_ms": self.as_of_ms,
            "max_value_bytes": self.max_value_bytes,
            "payload_limit": self.payload_limit,
            "prefixes": list(self.prefixes),
            "redacted_with": None if self.redactor is None else self.redactor.key_id,
            "salvage": self.salvage,
            **({"streams_acked": True} if self.streams_acked else {}),
            "until_ms": self.until_ms,
            "until_offset": None if self.until_offset is None else list(self.until_offset),
        }


def analyze(evidence: Sequence[Path], out: Path, options: AnalyzeOptions, progress: Progress | None = None) -> Case:
    """The case of :func:`analyze_and_tell`."""
    return analyze_and_tell(evidence, out, options, progress)[0]


def analyze_and_tell(
    evidence: Sequence[Path], out: Path, options: AnalyzeOptions, progress: Progress | None = None
) -> tuple[Case, Document]:
    """Builds the case folder `out` from the evidence and judges it; the case, and what its report says.

    Args:
        evidence: files, plain or compressed; `-` is standard input.
        out: the folder to make.
        options: what the user decides.
        progress: called now and then.

    Raises:
        JobsleuthError: unusable evidence or output; nothing is left behind.
    """
    if not evidence:
        raise UsageError("no evidence given", hint="name at least one file")
    _require_different_files(evidence)
    reading = ReadOptions(
        salvage=options.salvage,
        as_of_ms=options.as_of_ms,
        until_ms=options.until_ms,
        until_offset=options.until_offset,
        moves=True,
        max_value_bytes=options.max_value_bytes,
        threads=options.threads,
        spool=SpoolOptions(options.tmpdir, options.max_spool_bytes),
    )
    with lean_arrow(), CaseWriter(out, options.force) as writer, ThreadPoolExecutor(1) as loader:
        # While the native core reads the keys, Python can get ready for what comes after.
        loader.submit(_load)
        infos: list[EvidenceInfo] = []
        for number, path in enumerate(evidence):
            info = _evidence(number, path, reading, writer, options, progress)
            _require_new_content(info, infos)
            infos.append(info)
        give_back()
        if options.redactor is not None:
            infos = [options.redactor.evidence(info) for info in infos]
        manifest = Manifest(
            tool="jobsleuth",
            version=version("jobsleuth"),
            schema_version=SCHEMA_VERSION,
            options=options.recorded(),
            evidence=infos,
        )
        with writer.preview(manifest) as preview:
            run = run_checks(preview, options.policy, [*all_checks(), *options.checks])
        give_back()
        if run.accepted:  # a clean bill must say what it leaves out
            manifest.options["accepted_findings"] = run.accepted
        writer.append("findings", run.findings)
        writer.append("causes", run.causes)
        writer.append("checks", run.checks)
        with (
            writer.preview(manifest, judged=True) as preview,
            (writer.folder / REPORT).open("w", encoding="utf-8") as page,
        ):
            report = document(preview, checks=run.checks, findings=run.findings, known=run.causes)
            del run
            give_back()
            # The commands on the page are for its own folder: it says the same wherever the case lies.
            page.writelines(render_html(preview, report, place="."))
        manifest.limits = list(report.limits)
        case = writer.finish(manifest)
        return case, replace(report, case=os.fspath(case.path))


def _load() -> None:
    """Imports what is needed later."""
    import duckdb  # noqa: F401
    import numpy.ma  # noqa: F401  (by numpy itself, for `unique`)

    all_dialects()
    all_checks()
    prepare_html()


def _evidence(
    number: int,
    path: Path,
    reading: ReadOptions,
    writer: CaseWriter,
    options: AnalyzeOptions,
    progress: Progress | None,
) -> EvidenceInfo:
    """Reads one file into the case's tables; nothing of its keys stays in memory."""
    unpack = _stage(progress, "unpack")
    with (
        snapshot(path, spool=reading.spool, salvage=options.salvage, progress=unpack) as source,
        # The hash needs the whole file once more; it is taken beside the reading, from the page cache.
        nullcontext() if source.sha256 else fingerprint(source.path) as hashed,
        open_keyspace(source, reading, progress=progress) as keyspace,
    ):
        return _read(number, source, keyspace, writer, hashed, options, progress)


def _read(
    number: int,
    source: Snapshot,
    keyspace: RdbKeyspace,
    writer: CaseWriter,
    hashed: Future[Fingerprint] | None,
    options: AnalyzeOptions,
    progress: Progress | None,
) -> EvidenceInfo:
    wishes = Options(
        options.payload_limit,
        tuple(os.fsencode(p) for p in options.prefixes),
        options.streams_acked,
        options.described.layouts,
        options.described.lists,
    )
    claims: list[tuple[Dialect, Claims]] = []
    free = np.ones(keyspace.keys.num_rows, np.bool_)
    for dialect in all_dialects():
        made = dialect.claim(keyspace, free, wishes)
        made.settle()
        claims.append((dialect, made))
        free = free & (made.role < 0)
    total = sum(int((c.role >= 0).sum()) for _, c in claims)
    done = 0
    exact = Exact(keyspace, [made for _, made in claims])

    def append(table: str, rows: pa.Table | pa.RecordBatch) -> None:
        writer.append(table, _redacted(table, exact.add(table, _numbered(rows, number)), options.redactor))

    for dialect, made in claims:
        for table, rows in dialect.tables(keyspace, made, wishes):
            append(table, rows)
            if table == "jobs":
                done += rows.num_rows
                if progress is not None:
                    progress("extract", min(done, total), total)
    if isinstance(keyspace, ConvertedKeyspace) and keyspace.history is not None:
        for rows in transitions(keyspace.history, all_dialects(), wishes):
            append("transitions", rows)
    for batch in key_batches(keyspace, [c for _, c in claims]):
        append("keys", batch)
    sha256 = source.sha256
    if hashed is not None:
        mark = hashed.result()
        require_unchanged(source.path, mark)
        sha256 = mark.sha256
    inner = {"compression": source.compression, "sha256": source.inner_sha256, "bytes": source.size}
    facts = keyspace.facts
    remarks = [*facts.remarks, *keyspace.value_remarks(), *(r for _, made in claims for r in made.remarks)]
    beyond = timeless(keyspace)
    if beyond is not None:
        remarks.append(beyond)
    return EvidenceInfo(
        number=number,
        path=facts.path,
        sha256=sha256 or "",
        bytes=facts.bytes,
        inner=inner if source.compression else None,
        streamed=source.streamed,
        format=facts.format,
        format_version=facts.format_version,
        family=facts.family,
        magic=facts.magic,
        redis_version=facts.server_version,
        aux=facts.aux,
        as_of_ms=keyspace.as_of.ms,
        as_of_from_ms=keyspace.as_of.from_ms,
        as_of_source=keyspace.as_of.source,
        atomic=keyspace.as_of.atomic,
        checksum=facts.checksum,
        counts=facts.counts,
        databases=facts.databases,
        warnings=[EvidenceWarning(r.kind, r.message, r.offset, r.count) for r in remarks],
        parts=facts.parts,
        functions=facts.functions,
        modules=facts.modules,
        fault=facts.fault,
    )


def _stage(progress: Progress | None, name: str) -> Callable[[int, int], None] | None:
    return None if progress is None else lambda done, total: progress(name, done, total)


def _require_different_files(evidence: Sequence[Path]) -> None:
    """Raises UsageError where two of the names mean one file: its jobs would be there twice."""
    seen: dict[object, Path] = {}
    for path in evidence:
        who: object = STANDARD_INPUT
        if os.fspath(path) != STANDARD_INPUT:
            try:
                status = path.stat()
            except OSError:
                continue  # told better when it is opened
            who = (status.st_dev, status.st_ino)
        if who in seen:
            raise UsageError(
                f"is the same file as {os.fspath(seen[who])}", file=os.fspath(path), hint="name each file once"
            )
        seen[who] = path


def _require_new_content(info: EvidenceInfo, earlier: Sequence[EvidenceInfo]) -> None:
    """Raises UsageError where evidence is a copy of earlier evidence, packed or not."""
    for known in earlier:
        if _content(known) == _content(info):
            raise UsageError(
                f"has the same content as {known.path}", file=info.path, hint="name each snapshot once, packed or not"
            )


def _content(info: EvidenceInfo) -> str:
    return str(info.inner["sha256"]) if info.inner else info.sha256


def _numbered(rows: pa.Table | pa.RecordBatch, number: int) -> pa.Table:
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    return table.append_column("evidence", pa.repeat(pa.scalar(number, pa.int32()), table.num_rows))


def _redacted(table: str, rows: pa.Table, redactor: Redactor | None) -> pa.Table:
    return rows if redactor is None else redactor.table(table, rows)
