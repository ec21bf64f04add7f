"""What the evidence of a case cannot tell, worded for that evidence; noun phrases, the weightiest first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobsleuth.case import EvidenceInfo, Manifest
from jobsleuth.reports.findings import place
from jobsleuth.reports.words import age, moment, number

if TYPE_CHECKING:
    import duckdb


def limits(connection: duckdb.DuckDBPyConnection, manifest: Manifest, accepted: int) -> Iterator[str]:
    """What this case cannot tell.

    Args:
        connection: over the case.
        manifest: the case's.
        accepted: findings that were left out as known.
    """
    for info in manifest.evidence:
        yield from _of_file(info)
    yield "what the jobs did outside Redis"
    dialects = {name for (name,) in connection.execute("select distinct dialect::varchar from queues").fetchall()}
    if manifest.evidence:
        yield from _of_events(connection)
    if dialects:
        yield from _of_times(manifest.evidence)
        yield from _of_claims(connection, dialects)
    if accepted:
        yield f"{number(accepted, 'known finding')} that the policy or a baseline accepted: they are left out"
    limit = manifest.options.get("payload_limit")
    if limit is not None:
        yield (
            "payloads" + (f" beyond their first {limit:,} bytes" if limit else "") + ": the case was made without them"
        )
    if manifest.options.get("redacted_with") is not None:
        yield "what the applications stored: digests stand in its place"


def _of_file(info: EvidenceInfo) -> Iterator[str]:
    status = info.checksum.get("status")
    if info.fault is not None:
        yield (
            f"what stood in {info.path} after the place where it could not be read: a record, lock or entry that seems"
            " to be missing may be there"
        )
    if info.as_of_ms is None:
        yield (
            f"when {info.path} was taken: it does not say, so nothing was judged late or expired"
            " (analyze --as-of TIME settles it)"
        )
    if not info.atomic:
        span = ""
        if info.as_of_ms is not None and info.as_of_from_ms is not None and info.as_of_ms > info.as_of_from_ms:
            span = f" of {age(info.as_of_ms - info.as_of_from_ms)}"
        yield f"one instant: {info.path} was read over a span of time{span}, so a job may have moved meanwhile"
    if status == "mismatch":
        yield f"which bytes of {info.path} are as the server wrote them: its checksum does not match"
    elif status in ("absent", "disabled"):
        yield f"whether {info.path} is whole and unchanged: it has no checksum"


def _of_events(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    begun = connection.execute(
        # A scheduler's history (Asynq) has no entry ids: it tells what was enqueued, not what became of it.
        'select namespace, queue, epoch_ms(min("at")) from events where stream_id is not null and "at" is not null'
        " group by all order by all"
    ).fetchall()
    moves = connection.execute("select count(*) from transitions").fetchone()
    if moves is not None and moves[0]:
        yield "what happened before the append-only file begins"
    elif len(begun) == 1:
        namespace, queue, ms = begun[0]
        yield f"what happened before {moment(ms)} UTC, where the event stream of {place(namespace, queue)} begins"
    elif begun:
        first = moment(min(ms for _, _, ms in begun))
        yield f"what happened before {first} UTC, where the oldest of {len(begun):,} event streams begins"
    else:
        yield "the order of past events: it holds no event stream"


def _of_times(evidence: list[EvidenceInfo]) -> Iterator[str]:
    timed = [info for info in evidence if info.as_of_ms is not None]
    if any(info.as_of_source == "ctime" for info in timed):
        yield "what happened within the second of the snapshot: its time is in whole seconds"
    if any(info.as_of_source == "option" for info in timed):
        yield "whether the time given with --as-of is right: all ages and expiries rest on it"
    if len(timed) > 1 and len({info.as_of_ms for info in timed}) > 1:
        apart = max(i.as_of_ms or 0 for i in timed) - min(i.as_of_ms or 0 for i in timed)
        yield f"one instant for all files: they were taken up to {age(apart)} apart"


def _of_claims(connection: duckdb.DuckDBPyConnection, dialects: set[str]) -> Iterator[str]:
    counted = dict(
        connection.execute("select kind::varchar, count(distinct job_id) from workers group by 1").fetchall()
    )
    if "bullmq" in dialects:
        locks = counted.get("lock", 0)
        held = f"it shows {number(locks, 'lock')}" if locks else "it shows none"
        yield (
            "who held a job whose lock is gone: a lock lives 30 s unless configured, and one that was released or that"
            f" Redis expired leaves nothing ({held})"
        )
        yield "how many BullMQ workers were connected: they are connections, not keys"
        yield "jobs that were removed, by hand or by retention: they leave nothing but events"
    if "asynq" in dialects:
        yield (
            "which server ran a task that is over, or whose server died long ago: a server's own entries expire within"
            " a minute"
        )
        yield "tasks that were completed without retention, or deleted: they leave nothing but counters"
    if "bullmq" not in dialects and "asynq" not in dialects:
        yield "jobs that were removed: they leave nothing"
