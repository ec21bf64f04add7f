"""The report for a terminal or a log: verdict, causes, queues, limits, on one screen unless all is asked for.

Lines are spans of text with a style's name; whoever prints them decides what a style looks like. Nothing here holds a
control character, so that a plain join is safe too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from jobsleuth.case import DEPTH
from jobsleuth.reports.causes import Cause
from jobsleuth.reports.commands import case_word, explain_command, job_command
from jobsleuth.reports.document import Document, EvidenceFact, QueueFact
from jobsleuth.reports.verdict import coverage, explained, silences, verdict
from jobsleuth.reports.words import age, moment, number, oddity, series, size
from jobsleuth.safetext import terminal

Span = tuple[str, str]
"""Text and style: plain, strong, dim, ok, error, warning, info, command."""
Line = tuple[Span, ...]

WIDTH = 120
"""Columns of a report that no terminal limits."""
_SCREEN = 40
"""Lines of one screen: the causes get what the rest leaves of it, and never fewer than :data:`_LEAST` are shown."""
_LEAST = 2
_PARTS = 3
_QUEUES = 6
_LIMITS = 2
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
        everything: every cause, finding, queue and limit rather than what one screen holds.
    """
    head: list[Line] = []
    for fact in document.evidence:
        head += _evidence(fact, width, numbered=len(document.evidence) > 1)
    head += [*_inventory(document, width), (), *flow(_verdict(document), width)]
    tail: list[Line] = []
    if document.queues:
        tail += [(), *queue_lines(document, width, None if everything else _QUEUES)]
    tail.append(())
    for checks, reason in silences(document, None if everything else _PARTS):
        tail += flow(((f"{checks} could not run: {reason}", "dim"),), width)
    tail += _limits(document, width, everything=everything)
    yield from head
    yield from _causes(document, width, None if everything else _SCREEN - len(head) - len(tail))
    if everything and document.causes:
        yield ()
        yield from _findings(document, width)
    yield from tail


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
        yield from flow(((f"note: {oddity(terminal(warning.message), warning.count)}", "warning"),), width)
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
    why = explained(document)
    if why:
        line.append((f"; {why}", "strong"))
    return tuple(line)


def _limits(document: Document, width: int, *, everything: bool) -> Iterator[Line]:
    said = [terminal(limit) for limit in document.limits]
    if everything:
        yield (("What this can't tell", "strong"),)
        for limit in said:
            yield from flow(((f"- {limit}", "dim"),), width, hang=2)
        return
    # In one line the reasons would drown what matters; `--all` gives them.
    short = [limit.partition(": ")[0] if nth >= _LIMITS else limit for nth, limit in enumerate(said)]
    first = "; ".join(short[:_LIMITS])
    yield from flow(((f"What this can't tell: {first}.", "dim"),), width)
    if len(said) > _LIMITS:
        command = f"jobsleuth check {case_word(document.case)} --all"
        yield from flow(((f"{len(said) - _LIMITS:,} more of that: ", "dim"), (command, "command")), width)


def _causes(document: Document, width: int, room: int | None) -> Iterator[Line]:
    """The causes, the most damaging first, as many as have room; None: all."""
    shown = 0
    used = 5  # the lines below
    for nth, cause in enumerate(document.causes, 1):
        told = [(), *_cause(document, nth, cause, width, remedy=nth == 1 or room is None)]
        used += len(told)
        if room is not None and nth > _LEAST and used > room:
            break
        yield from told
        shown = nth
    rest = document.causes[shown:]
    if rest:
        yield ()
        errors = sum(c.count for c in rest if c.severity == "error")
        told_of = f"    {number(sum(c.count for c in rest), 'more finding')} of {number(len(rest), 'kind')}"
        told_of += f", {errors:,} of kinds with errors   " if errors else "   "
        yield from flow(((told_of, "plain"), (f"jobsleuth check {case_word(document.case)} --all", "command")), width)
    if shown:
        yield ()
        worst = document.causes[0]
        # A check without a page is somebody's own.
        own = not worst.known and not worst.examples[0].help_url
        command = explain_command(worst.parts[0].check_id, own)
        yield (("Why, and what to do: ", "dim"), (command, "command"))


def _cause(document: Document, nth: int, cause: Cause, width: int, *, remedy: bool) -> Iterator[Line]:
    label = "" if cause.known else f"{cause.kind} "
    where = f" · {_places(cause)}" if cause.places else ""
    head = (
        (f"{nth:>2}  ", "dim"),
        (f"{label}{terminal(cause.title)}", "strong"),
        (f"{where}{_which(document, cause)} · {cause.count:,} · {cause.sureness} · ", "plain"),
        (cause.severity, cause.severity),
    )
    yield from flow(head, width, hang=3 if nth < 10 else 4)
    if len(cause.parts) == 1:
        yield from flow(((f"    {terminal(cause.parts[0].message)}", "plain"),), width)
        check = None if cause.known else document.check(cause.kind)
        if check is not None and check.impact and cause.jobs > 1:
            yield from flow(((f"    these {cause.jobs:,} jobs {terminal(check.impact)}", "plain"),), width)
    else:
        parts = [f"{p.count:,} × {_title(document, p.check_id)} ({p.check_id})" for p in cause.parts[:_PARTS]]
        if len(cause.parts) > _PARTS:
            parts.append(
                f"{sum(p.count for p in cause.parts[_PARTS:]):,} of {number(len(cause.parts) - _PARTS, 'more check')}"
            )
        yield from flow(((f"    {'; '.join(parts)}", "plain"),), width)
    facts = list(_facts(cause))
    if facts:
        yield from flow(((f"    {' · '.join(facts)}", "dim"),), width)
    if remedy and cause.what_to_do is not None:
        yield from flow(((f"    do: {cause.what_to_do}", "plain"),), width)
    jobs = [e for e in cause.examples if e.job_id is not None]
    if jobs:
        names = ", ".join(terminal(str(e.job_id), 40) for e in jobs)
        more = f" and {cause.jobs - len(jobs):,} more" if cause.jobs > len(jobs) else ""
        command = job_command(document.case, str(jobs[0].job_id), document.queue_word(jobs[0].namespace, jobs[0].queue))
        yield from flow(((f"    e.g. {names}{more}   ", "plain"), (command, "command")), width)
    elif cause.examples and cause.examples[0].key is not None:
        yield from flow(((f"    key {terminal(cause.examples[0].key, 200)}", "plain"),), width)


def _title(document: Document, check_id: str) -> str:
    check = document.check(check_id)
    return terminal(check.title[:1].lower() + check.title[1:]) if check else "finding"


def _places(cause: Cause) -> str:
    """The queues with the most findings, and how many others."""
    names = [terminal(name, 50) for name, _ in cause.places[:2]]
    left = cause.place_count - len(names)
    return ", ".join(names) + (f" and {left:,} more" if left else "")


def _facts(cause: Cause) -> Iterator[str]:
    if cause.first_ms is not None and cause.last_ms is not None:
        first, last = moment(cause.first_ms)[:19], moment(cause.last_ms)[:19]
        yield f"since {first}" + (f" – {last[11:] if last[:10] == first[:10] else last}" if last != first else "")
    if cause.retry.get("unsafe"):
        yield f"started, so unsafe to run again: {cause.retry['unsafe']:,} of {number(cause.jobs, 'job')}"
    elif cause.jobs and cause.retry.get("safe") == cause.jobs:
        yield "never started: safe to run again"
    if cause.waiting:
        yield f"{number(cause.waiting, 'parent')} {'waits' if cause.waiting == 1 else 'wait'} for them"
    if cause.heals_at_ms is not None:
        # What is only inferred rests on a worker that may be gone by then.
        given = ", if a worker of the queue runs" if cause.heals_basis == "inferred" else ""
        yield f"heals by {moment(cause.heals_at_ms)[:19]}{given} ({cause.heals_basis})"


def _which(document: Document, about: Cause | QueueFact) -> str:
    """Number of the file, and of a queue's database, where the document holds several."""
    parts = []
    if about.evidence is not None and len(document.evidence) > 1:
        parts.append(f"file {about.evidence}")
    if isinstance(about, QueueFact) and len({q.db for q in document.queues}) > 1:
        parts.append(f"db {about.db}")
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
    columns = [(name, states) for name, states in DEPTH if any(s in q.depth for q in queues for s in states)]
    as_of = {f.info.number: f.info.as_of_ms for f in document.evidence}
    heads = ["queue", *(name for name, _ in columns), "oldest", "findings"]
    rows = [heads]
    styles = ["dim"]
    for queue in queues:
        name = terminal(queue.place) + _which(document, queue) + (" paused" if queue.paused else "")
        counts = [_count(queue.depth, states) for _, states in columns]
        now, oldest = as_of.get(queue.evidence), queue.oldest_waiting_ms
        # The snapshot's time has whole seconds: a job of the same second can seem younger than that.
        waited = age(max(0, now - oldest)) if now is not None and oldest is not None else "–"
        rows.append([name, *counts, waited, _tally(queue, partly=now is None, known=document.accepted > 0)])
        styles.append(next((s for s, n in queue.findings.items() if n), "ok"))
    crowded = _crowded(rows, width)
    rows = [[text for nth, text in enumerate(row) if nth not in crowded] for row in rows]
    for nth, (text, row, style) in enumerate(zip(fitted(rows, width), rows, styles, strict=True)):
        yield ((text.removesuffix(row[-1]), "plain" if nth else "dim"), (row[-1], style))
    if crowded:
        left_out = ", ".join(heads[nth] for nth in sorted(crowded))
        yield from flow(((f"no room for {left_out}: a wider window, or COLUMNS=250, shows more", "dim"),), width)
    if len(queues) < len(document.queues):
        left = number(len(document.queues) - len(queues), "more queue")
        yield from flow(((f"{left}   ", "dim"), (f"jobsleuth queues {case_word(document.case)}", "command")), width)


def _count(counts: dict[str, int], states: Sequence[str]) -> str:
    found = [counts[s] for s in states if s in counts]
    return f"{sum(found):,}" if found else "–"


def _tally(queue: QueueFact, *, partly: bool, known: bool) -> str:
    """Findings of the queue; where the snapshot's time is not known or some were accepted, none is no clean bill."""
    found = [(s, n) for s, n in queue.findings.items() if n]
    if not found:
        return "partly judged" if partly else "nothing new" if known else "ok"
    rest = sum(n for _, n in found[1:])
    return f"{found[0][1]:,} {found[0][0]}" + (f" +{rest:,}" if rest else "")


def _crowded(rows: Sequence[Sequence[str]], width: int) -> set[int]:
    """States for which a table of queues has no room: first those that no queue is in, then the last ones."""
    widths = [max(cells(row[nth]) for row in rows) for nth in range(len(rows[0]))]
    unsaid = [nth for nth in range(1, len(widths) - 2) if all(row[nth] in ("0", "–") for row in rows[1:])]
    order = unsaid + [nth for nth in range(len(widths) - 3, 0, -1) if nth not in unsaid]
    out: set[int] = set()
    for nth in order:
        kept = [w for at, w in enumerate(widths) if at not in out]
        if min(kept[0], _NAME) + sum(kept[1:]) + len(kept) - 1 <= width:
            break
        out.add(nth)
    return out


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
            yield _trimmed(now)
            now, used, word = [(lead, "plain")], len(lead), word.lstrip()
        now.append((word, style))
        used += cells(word)
    if now:
        yield _trimmed(now)


def _trimmed(spans: list[Span]) -> Line:
    """Without blanks at the end: one too many for the terminal makes an empty line."""
    while spans and not spans[-1][0].strip():
        spans.pop()
    return (*spans[:-1], (spans[-1][0].rstrip(), spans[-1][1])) if spans else ()


def _words(line: Line, longest: int) -> Iterator[Span]:
    """Words with the space before them; commands whole, longer words cut."""
    for text, style in line:
        if style == "command":
            yield text, style
            continue
        for word in re.findall(r"\s*\S+|\s+$", text):
            yield from ((word[at : at + longest], style) for at in range(0, len(word), longest))
