"""The page put together: facts of document, board and pictures as the texts that the template shows."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jobsleuth.case import DEPTH, Case
from jobsleuth.reports.causes import Cause, Part
from jobsleuth.reports.commands import job_command
from jobsleuth.reports.document import Document, EvidenceFact, QueueFact
from jobsleuth.reports.findings import SEVERITIES
from jobsleuth.reports.html.board import Board, QueueSignals, board
from jobsleuth.reports.html.charts import charts, segments
from jobsleuth.reports.html.named import which
from jobsleuth.reports.html.suspects import Suspects, suspects
from jobsleuth.reports.html.table import CERTAINTIES, FindingsTable, findings_table
from jobsleuth.reports.verdict import coverage, explained, unable, verdict
from jobsleuth.reports.words import age, moment, number, oddity, percent, size
from jobsleuth.safetext import terminal

if TYPE_CHECKING:
    from jinja2 import Template

CARDS = 24
QUEUES = 300
_TEXTS = ("What it finds", "Why it matters", "How it comes about", "What to do next", "False alarms")
_SECTIONS = (
    ("causes", "Causes"),
    ("queues", "Queues"),
    ("charts", "Numbers"),
    ("names", "Job names"),
    ("findings", "Findings"),
    ("jobs", "Suspicious jobs"),
    ("provenance", "Provenance"),
)
_FROM_HERE = {
    True: "Commands are for the folder that holds this page.",
    False: "Commands name the case as seen from the folder where this page was made.",
}
_RETRY = {"unsafe": "unsafe (ran, or may have)", "safe": "safe (never started)", "unknown": "unknown"}


def render(case: Case, document: Document, *, shown: int | None = None, place: str | None = None) -> Iterator[str]:
    """The page as HTML text, piece by piece. Same case, same document: same bytes.

    Args:
        case: where the numbers and the jobs are read from.
        document: what is said of it.
        shown: first bytes of what applications stored (payloads, results, …) to show; None: size and digest only.
        place: how the commands on the page name the case; None: as the document does.
    """
    named = document.case if place is None else place
    numbers = board(case, document)
    jobs = suspects(case, document, shown)
    rows = findings_table(document, jobs)
    yield from _template().generate(_context(document, numbers, jobs, rows, named))


def prepare() -> None:
    """Does beforehand what takes long: :func:`render` need not wait for it."""
    _template()


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def harmless(value: Any) -> Any:
        # The only way from the evidence onto the page; escaping as HTML comes after it.
        return value if isinstance(value, Markup) else terminal(str(value))

    environment = Environment(
        loader=PackageLoader("jobsleuth.reports", "html"),
        autoescape=True,
        finalize=harmless,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
    )
    return environment.get_template("page.html.j2")


@cache
def _part(name: str) -> tuple[str, str]:
    """A part of the page that never changes, and its hash as the Content-Security-Policy names it."""
    text = (files("jobsleuth.reports") / "html" / name).read_text(encoding="utf-8").strip()
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    return text, f"sha256-{digest}"


def _context(document: Document, numbers: Board, jobs: Suspects, rows: FindingsTable, named: str) -> dict[str, Any]:
    from markupsafe import Markup

    style, style_hash = _part("page.css")
    script, script_hash = _part("page.js")
    worst = next((s for s in SEVERITIES if document.counts[s]), "ok")
    queues = sorted(document.queues, key=_worst_first)[:QUEUES]
    columns = [name for name, states in DEPTH if any(s in q.depth for q in document.queues for s in states)]
    context = {
        "style": Markup(style),
        "style_hash": style_hash,
        "script": Markup(script),
        "script_hash": script_hash,
        "data": Markup(rows.data),
        "tool": document.tool,
        "title": ", ".join(fact.info.path for fact in document.evidence) or "no evidence",
        "verdict": verdict(document),
        "explained": _sentence(explained(document)) if explained(document) else "",
        "coverage": _sentence(coverage(document)),
        "nothing": _sentence(verdict(document)) if not document.causes else "",
        "worst": worst,
        "evidence": [_evidence(fact) for fact in document.evidence],
        "cards": [_card(document, cause, jobs, named) for cause in document.causes[:CARDS]],
        "cards_left": _left(document, CARDS),
        "legend": [(name, f"s-{name}") for name in columns],
        "queues": [_queue(document, q, numbers, columns) for q in queues],
        "queues_left": f"{number(len(document.queues) - len(queues), 'more queue')}: jobsleuth queues {named}"
        if len(queues) < len(document.queues)
        else "",
        "charts": charts(document, numbers),
        "names": [_name(name) for name in numbers.names],
        "names_left": f"{number(numbers.names_left, 'more job name')}: table signal_depth in the case"
        if numbers.names_left
        else "",
        "severities": [(s, f"{document.counts[s]:,}") for s in SEVERITIES],
        "certainties": CERTAINTIES,
        "checks": rows.checks,
        "places": rows.places,
        "total": rows.total,
        "rows_shown": rows.first,
        "shown_note": rows.shown_note,
        "left_note": _absent(rows.left, named),
        "any_job": f"jobsleuth job {named} ID --queue QUEUE",
        "jobs": [
            {**job, "command": job_command(named, ref.job_id, document.queue_word(ref.namespace, ref.queue))}
            for job, ref in zip(jobs.sections, jobs.refs, strict=True)
        ],
        "jobs_note": jobs.note,
        "limits": document.limits,
        "silent": [f"{c.id} {c.title}: {c.reason or 'no reason given'}" for c in unable(document)],
        "made": [
            ("tool", document.tool),
            ("checks", coverage(document)),
            ("keys that no queue owns", size(numbers.other_bytes)),
        ],
        "closing": f"Ages and expiries are judged at the snapshot's time; times are UTC. {_FROM_HERE[named == '.']}",
    }
    here = {name for name in ("queues", "names", "jobs", "charts") if not context[name]}
    context["sections"] = [(anchor, label) for anchor, label in _SECTIONS if anchor not in here]
    return context


def _worst_first(queue: QueueFact) -> tuple[Any, ...]:
    worst = next((nth for nth, s in enumerate(SEVERITIES) if queue.findings.get(s)), len(SEVERITIES))
    return (worst, queue.evidence, queue.db, queue.dialect, queue.namespace, queue.queue)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _left(document: Document, shown: int) -> str:
    rest = document.causes[shown:]
    if not rest:
        return ""
    left = number(sum(c.count for c in rest), "more finding")
    return f"{left} of {number(len(rest), 'more kind')}: see the table below."


def _absent(left: int, named: str) -> str:
    are = "is" if left == 1 else "are"
    return f"{left:,} more {are} not on this page: jobsleuth check {named} --all" if left else ""


def _evidence(fact: EvidenceFact) -> dict[str, Any]:
    info = fact.info
    status = str(info.checksum.get("status", "unverified"))
    server = f" ({(info.family or 'server').capitalize()} {info.redis_version})" if info.redis_version else ""
    version = f"{info.format.upper()} {info.format_version if info.format_version is not None else ''}".strip()
    taken = f"{moment(info.as_of_ms)} UTC" if info.as_of_ms is not None else "at an unknown time"
    fault = ""
    if info.fault is not None:
        at = f" at byte {info.fault['offset']:,}" if info.fault.get("offset") is not None else ""
        fault = f"Salvaged: {info.fault.get('message', 'cannot be read on')}{at}. What follows is lost."
    facts = [
        ("file", info.path),
        ("number in the case", info.number),
        ("SHA-256", info.sha256),
        ("size", f"{info.bytes:,} bytes"),
        ("format", version + server),
        ("checksum", status),
        ("taken", f"{taken} (from {info.as_of_source})"),
        ("one instant", "yes" if info.atomic else "no: read over a span of time"),
        ("keys", f"{fact.keys:,}, of which {fact.claimed:,} belong to queues"),
    ]
    if info.inner:
        facts.append(("unpacked", f"{info.inner['compression']}, SHA-256 {info.inner['sha256']}"))
    facts += [(f"recorded: {name}", value) for name, value in sorted(info.aux.items())]
    return {
        "path": info.path,
        "size": size(info.bytes),
        "format": version + server,
        "checksum": status,
        "checksum_class": {"ok": "ok", "mismatch": "error"}.get(status, "warning"),
        "taken": f"taken {taken}",
        "fault": fault,
        "facts": facts,
        "warnings_title": number(len(info.warnings), "oddity", "oddities") + " in this file",
        "warnings": [
            oddity(w.message, w.count) + (f", first at byte {w.offset:,}" if w.offset is not None else "")
            for w in info.warnings[:100]
        ],
    }


def _card(document: Document, cause: Cause, jobs: Suspects, named: str) -> dict[str, Any]:
    first = cause.examples[0]
    ids = [e for e in cause.examples if e.job_id is not None]
    left = cause.place_count - len(cause.places)
    places = [f"{name} ({n:,})" if cause.place_count > 1 else name for name, n in cause.places]
    return {
        "severity": cause.severity,
        "certainty": cause.sureness,
        "count": f"{cause.count:,}",
        "title": cause.title,
        "where": ", ".join(places) + (f" and {left:,} more" if left else "") or (first.key or ""),
        "message": "" if cause.known else first.message,
        "to_do": cause.what_to_do or "",
        "parts": [_part_of(document, cause, part) for part in cause.parts],
        "answers": list(_answers(cause)),
        "examples": [{"job_id": e.job_id, "anchor": jobs.anchor(e)} for e in ids],
        "command": job_command(named, str(ids[0].job_id), document.queue_word(ids[0].namespace, ids[0].queue))
        if ids
        else "",
    }


def _part_of(document: Document, cause: Cause, part: Part) -> dict[str, Any]:
    check = document.check(part.check_id)
    texts = check.texts if check is not None else {}
    return {
        "check_id": part.check_id,
        "title": check.title if check is not None else part.check_id,
        "count": f"{part.count:,}",
        "place": cause.place,
        "message": part.message if cause.known else "",
        "texts": [(heading, _paragraphs(texts[heading])) for heading in _TEXTS if texts.get(heading)],
    }


def _paragraphs(text: str) -> list[list[tuple[str, bool]]]:
    """Paragraphs of pieces; a piece that stood between backticks is code."""
    paragraphs = (" ".join(paragraph.split()).split("`") for paragraph in text.split("\n\n"))
    return [[(piece, nth % 2 == 1) for nth, piece in enumerate(pieces) if piece] for pieces in paragraphs]


def _answers(cause: Cause) -> Iterator[tuple[str, str]]:
    if cause.first_ms is not None and cause.last_ms is not None:
        last = f" to {moment(cause.last_ms)}" if cause.last_ms != cause.first_ms else ""
        yield "since", f"{moment(cause.first_ms)}{last} UTC"
    if cause.held_by:
        yield "held by", cause.held_by + (f" (and {cause.holders - 1:,} more)" if cause.holders > 1 else "")
    if cause.heals:
        more = f" (and {number(cause.remedies - 1, 'more way')})" if cause.remedies > 1 else ""
        when = f", by {moment(cause.heals_at_ms)} UTC" if cause.heals_at_ms is not None else ""
        yield "heals", f"{cause.heals}{more}{when} ({cause.heals_basis or 'derived'})"
    verdicts = [f"{n:,} {_RETRY[verdict]}" for verdict, n in cause.retry.items() if n]
    if verdicts:
        yield "run again", ", ".join(verdicts)
    if cause.waiting:
        yield "also", f"{number(cause.waiting, 'parent')} {'waits' if cause.waiting == 1 else 'wait'} for these jobs"


def _queue(document: Document, queue: QueueFact, numbers: Board, columns: list[str]) -> dict[str, Any]:
    signals = numbers.queues[(queue.evidence, queue.db, queue.namespace, queue.queue)]
    groups = dict(DEPTH)
    counts = {name: sum(queue.depth.get(s, 0) for s in groups[name]) for name in columns}
    notes = [queue.layout] if queue.layout else []
    if queue.paused:
        notes.append("paused")
    if len(document.evidence) > 1:
        notes.append(f"file {queue.evidence}")
    if len({q.db for q in document.queues}) > 1:
        notes.append(f"db {queue.db}")
    found = [(s, n) for s, n in queue.findings.items() if n]
    return {
        "place": queue.place,
        "named": which(document)(queue.place, queue.evidence, queue.db),
        "notes": notes,
        "rects": segments(counts),
        "label": ", ".join(f"{n:,} {name}" for name, n in counts.items() if n) or "no jobs",
        "counts": [(name, f"{n:,}" if n else "–") for name, n in counts.items()],
        "oldest": _ago(document, queue, signals),
        "rate": percent(signals.failure_rate),
        "durations": " / ".join(age(ms) for ms in signals.durations) if signals.durations else "–",
        "tally": ", ".join(f"{n:,} {severity}" for severity, n in found),
        "worst": found[0][0] if found else "ok",
    }


def _ago(document: Document, queue: QueueFact, signals: QueueSignals) -> str:
    now = next((f.info.as_of_ms for f in document.evidence if f.info.number == queue.evidence), None)
    if now is not None and queue.oldest_waiting_ms is not None:
        return age(max(0, now - queue.oldest_waiting_ms))
    return age(signals.oldest_ms) if signals.oldest_ms is not None else "–"


def _name(signals: Any) -> dict[str, Any]:
    took = signals.durations or (None, None, None)
    return {
        "name": "(no name)" if signals.name is None else signals.name,
        "place": signals.place,
        "jobs": f"{signals.jobs:,}",
        "waiting": f"{signals.depth['waiting']:,}",
        "oldest": age(signals.oldest_ms) if signals.oldest_ms is not None else "–",
        "rate": percent(signals.failure_rate),
        "durations": [(p, "–" if ms is None else age(ms)) for p, ms in zip(("p50", "p95", "p99"), took, strict=True)],
    }
