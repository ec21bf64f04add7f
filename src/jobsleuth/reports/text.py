"""The report for a terminal or a log: verdict, groups of findings, queues, limits.

Lines are spans of text with a style's name; whoever prints them decides what a style looks like. Nothing here holds a
control character, so that a plain join is safe too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from jobsleuth.case import DEPTH
from jobsleuth.reports.commands import case_word, job_command
from jobsleuth.reports.document import Document, EvidenceFact, Group, QueueFact
from jobsleuth.reports.verdict import coverage, unable, verdict
from jobsleuth.reports.words import age, moment, number, series, size
from jobsleuth.safetext import terminal

Span = tuple[str, str]
"""Text and style: plain, strong, dim, ok, error, warning, info, command."""
Line = tuple[Span, ...]

WIDTH = 120
"""Columns of a report that no terminal limits."""
_GROUPS = 12
_QUEUES = 25
_NAME = 10
_WARNINGS = 5


def render(document: Document) -> Iterator[str]:
    """The report as plain text, every finding listed."""
    for line in lines(document, everything=True):
        yield plain(line) + "\n"


def plain(line: Line) -> str:
    """A line without its styles."""
    return "".join(text for text, _ in line).rstrip()


def lines(document: Document, *, width: int = WIDTH, everything: bool = False) -> Iterator[Line]:
    """The report, line by line.

    Args:
        document: what to say.
        width: columns to fill; names give way first.
        everything: every finding rather than three examples of the first groups.
    """
    for fact in document.evidence:
        yield from _evidence(fact, width, numbered=len(document.evidence) > 1)
    yield from _inventory(document, width)
    yield ()
    yield from flow(_verdict(document), width)
    if everything:
        yield from _findings(document, width)
    else:
        yield from _groups(document, width)
    if document.queues:
        yield ()
        yield from queue_lines(document, width, None if everything else _QUEUES)
    yield ()
    for silent in unable(document):
        yield from flow(((f"{silent.id} could not run: {silent.reason or 'no reason given'}", "dim"),), width)
    limits = "; ".join(map(terminal, document.limits))
    yield from flow(((f"What this can't tell: {limits}.", "dim"),), width)


def _evidence(fact: EvidenceFact, width: int, *, numbered: bool) -> Iterator[Line]:
    info = fact.info
    family = (info.family or "server").capitalize()
    version = "" if info.format_version is None else f" {info.format_version}"
    server = f" ({family} {terminal(info.redis_version, 20)})" if info.redis_version else ""
    status = str(info.checksum.get("status", "unverified"))
    taken = f"taken {moment(info.as_of_ms)} UTC" if info.as_of_ms is not None else "taken at an unknown time"
    about = (
        (f"file {info.number}: " if numbered else "", "dim"),
        (terminal(info.path, 80), "strong"),
        (f"  {size(info.bytes)}  {info.format.upper()}{version}{server}  checksum ", "plain"),
        (status, "ok" if status == "ok" else "error" if status == "mismatch" else "warning"),
        (f"  {taken}", "plain"),
        (f" (given by {info.as_of_source})" if info.as_of_source == "option" else "", "dim"),
    )
    yield from flow(about, width)
    if info.fault is not None:
        offset = info.fault.get("offset")
        at = f" at byte {offset:,}" if offset is not None else ""
        told = terminal(str(info.fault.get("message", "cannot be read on")))
        yield from flow(((f"salvaged: {told}{at}. What follows is lost.", "error"),), width)
    for warning in info.warnings[:_WARNINGS]:
        times = f" ({warning.count:,} times)" if warning.count and warning.count > 1 else ""
        yield from flow(((f"note: {terminal(warning.message)}{times}", "warning"),), width)
    if len(info.warnings) > _WARNINGS:
        yield ((f"and {len(info.warnings) - _WARNINGS:,} more notes: table warnings in the case", "warning"),)


def _inventory(document: Document, width: int) -> Iterator[Line]:
    keys = sum(f.keys for f in document.evidence)
    claimed = sum(f.claimed for f in document.evidence)
    layouts: dict[str, int] = {}
    for queue in document.queues:
        layout = terminal(queue.layout or queue.dialect, 40)
        layouts[layout] = layouts.get(layout, 0) + 1
    parts = [f"{n:,} of {layout}" for layout, n in layouts.items()]
    queues = f"{number(len(document.queues), 'queue')}: {series(parts)}" if parts else "no queue of a known library"
    yield from flow(((f"{number(keys, 'key')} · {claimed:,} belong to queues · {queues}", "plain"),), width)


def _verdict(document: Document) -> Line:
    worst = next((s for s, n in document.counts.items() if n), "ok")
    line: list[Span] = [(verdict(document), worst if worst != "info" else "strong")]
    if worst == "ok":
        line.append((f" ({coverage(document)})", "dim"))
    return tuple(line)


def _groups(document: Document, width: int) -> Iterator[Line]:
    shown = document.groups[:_GROUPS]
    for nth, group in enumerate(shown, 1):
        yield ()
        yield from _group(document, nth, group, width)
    rest = document.groups[len(shown) :]
    if rest:
        yield ()
        left = sum(g.count for g in rest)
        told = f"{number(left, 'more finding')} in {number(len(rest), 'more group')}   "
        yield from flow(((told, "plain"), (f"jobsleuth check {case_word(document.case)} --all", "command")), width)
    if shown:
        yield ()
        yield (("Why, and what to do: ", "dim"), (f"jobsleuth explain {shown[0].check_id}", "command"))


def _group(document: Document, nth: int, group: Group, width: int) -> Iterator[Line]:
    check = document.check(group.check_id)
    title = check.title if check else group.check_id
    where = f" · {terminal(group.place, 50)}" if group.place else ""
    head = (
        (f"{nth:>2}  ", "dim"),
        (f"{group.check_id} {terminal(title)}", "strong"),
        (f"{where}{_which(document, group.evidence, group.db)} · {group.count:,} · {group.certainty} · ", "plain"),
        (group.severity, group.severity),
    )
    yield from flow(head, width, hang=3 if nth < 10 else 4)
    yield from flow(((f"    {terminal(group.examples[0].message)}", "plain"),), width)
    ids = [e for e in group.examples if e.job_id is not None]
    if ids:
        names = ", ".join(terminal(str(e.job_id), 40) for e in ids)
        more = f" and {group.count - len(ids):,} more" if group.count > len(ids) else ""
        command = job_command(document.case, str(ids[0].job_id), document.queue_word(ids[0].namespace, ids[0].queue))
        yield from flow(((f"    e.g. {names}{more}   ", "plain"), (command, "command")), width)
    elif group.examples[0].key is not None:
        yield from flow(((f"    key {terminal(group.examples[0].key, 200)}", "plain"),), width)


def _which(document: Document, evidence: int | None, db: int | None) -> str:
    """Number of the file and of the database, where the document holds several."""
    parts = []
    if evidence is not None and len(document.evidence) > 1:
        parts.append(f"file {evidence}")
    if db is not None and len({q.db for q in document.queues}) > 1:
        parts.append(f"db {db}")
    return f" ({', '.join(parts)})" if parts else ""


def _findings(document: Document, width: int) -> Iterator[Line]:
    for finding in document.findings:
        where = f"{terminal(finding.place, 50)}: " if finding.place else ""
        text = f"{finding.severity} {finding.check_id} {where}{terminal(finding.message)} ({finding.certainty})"
        yield from flow(((text, finding.severity),), width, hang=2)


def queue_lines(document: Document, width: int = WIDTH, most: int | None = None) -> Iterator[Line]:
    """One row a queue: jobs by state, age of the oldest one waiting, findings.

    Args:
        document: whose queues.
        width: columns to fill; names give way.
        most: at most so many rows, those with findings first; None: all.
    """
    queues = list(document.queues)
    if most is not None and len(queues) > most:
        queues = sorted(queues, key=lambda q: not any(q.findings.values()))[:most]
    columns = [(name, states) for name, states in DEPTH if any(s in q.counts for q in queues for s in states)]
    as_of = {f.info.number: f.info.as_of_ms for f in document.evidence}
    rows = [["queue", *(name for name, _ in columns), "oldest", "findings"]]
    styles = ["dim"]
    for queue in queues:
        name = terminal(queue.place) + _which(document, queue.evidence, queue.db) + (" paused" if queue.paused else "")
        counts = [_count(queue.counts, states) for _, states in columns]
        now, oldest = as_of.get(queue.evidence), queue.oldest_waiting_ms
        # The snapshot's time has whole seconds: a job of the same second can seem younger than that.
        waited = age(max(0, now - oldest)) if now is not None and oldest is not None else "–"
        rows.append([name, *counts, waited, _tally(queue, partly=now is None)])
        styles.append(next((s for s, n in queue.findings.items() if n), "ok"))
    for nth, (text, row, style) in enumerate(zip(fitted(rows, width), rows, styles, strict=True)):
        yield ((text.removesuffix(row[-1]), "plain" if nth else "dim"), (row[-1], style))
    if len(queues) < len(document.queues):
        left = number(len(document.queues) - len(queues), "more queue")
        yield from flow(((f"{left}   ", "dim"), (f"jobsleuth queues {case_word(document.case)}", "command")), width)


def _count(counts: dict[str, int], states: Sequence[str]) -> str:
    found = [counts[s] for s in states if s in counts]
    return f"{sum(found):,}" if found else "–"


def _tally(queue: QueueFact, *, partly: bool) -> str:
    """Findings of the queue; where the snapshot's time is not known, none of them is no clean bill."""
    found = [(s, n) for s, n in queue.findings.items() if n]
    if not found:
        return "partly judged" if partly else "ok"
    rest = sum(n for _, n in found[1:])
    return f"{found[0][1]:,} {found[0][0]}" + (f" +{rest:,}" if rest else "")


def fitted(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Rows as text in columns, the first and the last to the left, the others to the right; the first gives way."""
    widths = [max(cells(row[i]) for row in rows) for i in range(len(rows[0]))]
    gap = 2 if sum(widths[1:]) + 2 * len(widths) + _NAME <= width else 1
    widths[0] = min(widths[0], max(_NAME, width - sum(widths[1:]) - gap * (len(widths) - 1)))
    last = len(widths) - 1
    return [
        (" " * gap).join(_padded(text, widths[i], left=i in (0, last)) for i, text in enumerate(row)).rstrip()
        for row in rows
    ]


def _padded(text: str, width: int, *, left: bool) -> str:
    while cells(text) > width:
        text = text.removesuffix("…")[:-1] + "…"
    space = " " * (width - cells(text))
    return text + space if left else space + text


def cells(text: str) -> int:
    """Terminal cells that a text takes: wide characters two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in ("W", "F") else 1 for c in text
    )


def flow(line: Line, width: int, *, hang: int = 0) -> Iterator[Line]:
    """A line folded at spaces to `width`; what follows the fold is indented as the line is, and by `hang` more.

    A command is never folded, so that it can be copied: it gets a line of its own, however long.
    """
    indent = len(plain(line)) - len(plain(line).lstrip())
    lead = " " * (indent + hang)
    now: list[Span] = []
    used = 0
    for word, style in _words(line, max(20, width - len(lead))):
        wide = cells(word.rstrip())
        if used + wide > width and used > len(lead):
            yield tuple(now)
            now, used, word = [(lead, "plain")], len(lead), word.lstrip()
        now.append((word, style))
        used += cells(word)
    if now:
        yield tuple(now)


def _words(line: Line, longest: int) -> Iterator[Span]:
    """Words with the space before them; commands whole, longer words cut."""
    for text, style in line:
        if style == "command":
            yield text, style
            continue
        for word in re.findall(r"\s*\S+|\s+$", text):
            yield from ((word[at : at + longest], style) for at in range(0, len(word), longest))
