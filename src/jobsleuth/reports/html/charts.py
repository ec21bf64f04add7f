"""Bars and columns as numbers of an SVG; what they look like is the style sheet's business."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from jobsleuth.case import DEPTH
from jobsleuth.reports.document import Document, QueueFact
from jobsleuth.reports.findings import place
from jobsleuth.reports.html.board import Board, Failures, QueueSignals
from jobsleuth.reports.words import age, moment, number, size

_WIDE = 1000
_ROWS = 12
_LEAST = 4
_FEWEST = 12
_SECOND = 1000
_STATE = {state: name for name, states in DEPTH for state in states}


def segments(counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """One bar of parts, as wide as their shares; a part that is there can be seen."""
    return _parts(counts, sum(counts.values()))


def _parts(counts: Mapping[str, int], whole: int) -> list[dict[str, Any]]:
    if not whole:
        return []
    wide = {name: max(_LEAST, n / whole * _WIDE) for name, n in counts.items() if n}
    squeeze = min(1.0, _WIDE / sum(wide.values())) if wide else 1.0
    at, out = 0.0, []
    for name, width in wide.items():
        out.append({"x": _short(at), "width": _short(width * squeeze), "css": f"s-{name}"})
        at += width * squeeze
    return out


def charts(document: Document, board: Board) -> list[dict[str, Any]]:
    """The charts that have something to show, in their order on the page."""
    made = (
        _ages(document, board),
        _due(board),
        _failures(board.failures),
        _reasons(board),
        _durations(board),
        _memory(board),
    )
    return [chart for chart in made if chart is not None]


def _ages(document: Document, board: Board) -> dict[str, Any] | None:
    waits = [(q.place, ms) for q in document.queues if (ms := _of(board, q).oldest_ms) is not None]
    waits.sort(key=lambda wait: (-wait[1], wait[0]))
    rows = [(name, {"waiting": ms}, age(ms)) for name, ms in waits if ms >= _SECOND]
    brief = f"{len(waits) - len(rows):,} less than a second" if len(rows) < len(waits) else ""
    return _bars("Age of the oldest waiting job", "queue", "age", rows, left=brief)


def _due(board: Board) -> dict[str, Any] | None:
    rows = []
    for due in board.due:
        counts: dict[str, int] = {}
        for state, jobs in due.counts.items():
            counts[_STATE[state]] = counts.get(_STATE[state], 0) + jobs
        rows.append((due.label, counts, f"{sum(counts.values()):,}"))
    left = f"{number(board.due_unknown, 'job')} without a known due time" if board.due_unknown else ""
    return _bars("When delayed, scheduled and retried jobs are due", "due", "jobs", rows, left=left, every=True)


def _reasons(board: Board) -> dict[str, Any] | None:
    rows = [(reason.text, {"failed": reason.jobs}, f"{reason.jobs:,}") for reason in board.reasons]
    left = f"{number(board.reasons_left, 'failure')} for other reasons" if board.reasons_left else ""
    return _bars("Top failure reasons", "reason", "jobs", rows, note="numbers left out", left=left)


def _memory(board: Board) -> dict[str, Any] | None:
    found = [(place(namespace, queue), s.nbytes) for (_, _, namespace, queue), s in board.queues.items() if s.nbytes]
    found.sort(key=lambda row: (-row[1], row[0]))
    rows = [(name, {"plain": nbytes}, size(nbytes)) for name, nbytes in found]
    return _bars("Memory by queue", "queue", "bytes", rows, note="bytes in the snapshot; a live server needs more")


def _durations(board: Board) -> dict[str, Any] | None:
    """From p50 to p99 on a logarithmic scale, p95 marked."""
    known = [(n, n.durations) for n in board.names if n.durations is not None]
    if not known:
        return None
    known.sort(key=lambda row: (-row[1][2], row[0].place, row[0].name or ""))
    most = math.log1p(max(took[2] for _, took in known)) or 1.0
    rows = []
    for name, took in known[:_ROWS]:
        p50, p95, p99 = (math.log1p(ms) / most * (_WIDE - _LEAST) for ms in took)
        rects: list[dict[str, Any]] = [{"x": _short(p50), "width": _short(max(_LEAST, p99 - p50)), "css": "s-range"}]
        rects.append({"x": _short(p95), "width": _LEAST, "css": "s-mark"})
        rows.append(
            {
                "label": f"{'(no name)' if name.name is None else name.name} · {name.place}",
                "rects": rects,
                "text": " / ".join(age(ms) for ms in took),
            }
        )
    return {
        "kind": "rows",
        "title": "Run time by job name",
        "note": "p50 to p99, p95 marked; logarithmic",
        "of": "job name",
        "what": "p50 / p95 / p99",
        "rows": rows,
        "left": f"{len(known) - _ROWS:,} more in the table below" if len(known) > _ROWS else "",
    }


def _failures(failures: Failures | None) -> dict[str, Any] | None:
    if failures is None:
        return None
    peak = max(failures.bars)
    columns = []
    for nth, count in enumerate(failures.bars):
        begins = moment(failures.start_ms + nth * failures.width_ms)
        high = max(1.5, count / peak * 100) if count else 0.0
        columns.append(
            {
                "x": nth,
                "y": _short(100 - high),
                "height": _short(high),
                "count": count,
                "from": begins,
                "title": f"{begins}: {count:,}",
            }
        )
    outside = [
        f"{failures.earlier:,} earlier" if failures.earlier else "",
        f"{failures.later:,} after the snapshot" if failures.later else "",
    ]
    beside = "; ".join(text for text in outside if text)
    last = moment(failures.start_ms + len(failures.bars) * failures.width_ms)
    return {
        "kind": "columns",
        "title": "Failures over time",
        "note": f"a bar is {age(failures.width_ms)}" + (f"; not shown: {beside}" if beside else ""),
        "width": max(_FEWEST, len(columns)),
        "columns": columns,
        "label": f"{sum(failures.bars):,} failures from {columns[0]['from']} to {last} UTC, at most {peak:,} a bar",
        "first": columns[0]["from"],
        "peak": f"highest bar: {peak:,}",
        "last": last,
    }


def _bars(
    title: str,
    of: str,
    what: str,
    rows: Iterable[tuple[str, Mapping[str, int], str]],
    *,
    note: str = "",
    left: str = "",
    every: bool = False,
) -> dict[str, Any] | None:
    """Bars to one scale. The first rows, or `every` row; None where nothing is to be shown."""
    found = list(rows)
    if not found:
        return None
    shown = found if every else found[:_ROWS]
    most = max(sum(counts.values()) for _, counts, _ in shown)
    if len(found) > len(shown):
        left = "; ".join(text for text in (f"{len(found) - len(shown):,} more", left) if text)
    return {
        "kind": "rows",
        "title": title,
        "note": note,
        "of": of,
        "what": what,
        "rows": [{"label": label, "rects": _parts(counts, most), "text": text} for label, counts, text in shown],
        "left": left,
    }


def _of(board: Board, queue: QueueFact) -> QueueSignals:
    return board.queues[(queue.evidence, queue.db, queue.namespace, queue.queue)]


def _short(value: float) -> str:
    """A coordinate, short and the same on every machine."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
