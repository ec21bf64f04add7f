"""The four signals of every queue and job name as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jobsleuth.case import Case
from jobsleuth.reports.findings import place
from jobsleuth.reports.text import WIDTH, Line, fitted, flow
from jobsleuth.reports.words import age, number, percent
from jobsleuth.safetext import terminal

_HEAD = ["queue, job name", "waiting", "oldest", "fail rate", "p50", "p95", "p99"]


def signal_lines(case: Case, width: int = WIDTH, most: int | None = None) -> Iterator[Line]:
    """One row a queue, below it one row a job name, those with the most jobs first.

    Args:
        case: an open case.
        width: columns to fill.
        most: at most so many names of each queue; None: all.
    """
    found = _signals(case)
    if not found:
        return
    rows, styles, left = [_HEAD], ["dim"], 0
    for (evidence, db, namespace, queue), names in found.items():
        del evidence, db
        whole, *parts = names
        rows.append([terminal(place(namespace, queue)), *_cells(whole)])
        styles.append("strong")
        for part in parts[:most]:
            rows.append([f"  {terminal('(no name)' if part['name'] is None else part['name'], 60)}", *_cells(part)])
            styles.append("plain")
        left += max(0, len(parts) - most) if most is not None else 0
    for text, style in zip(fitted(rows, width), styles, strict=True):
        yield ((text, style),)
    if left:
        yield from flow(((f"{number(left, 'more job name')}: --names shows all", "dim"),), width)


def _signals(case: Case) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """Place → its rows: the whole queue, then its names."""
    on = "evidence, db, dialect, namespace, queue, scope"
    joined = "".join(
        f" left join (select * replace (coalesce(name, '') as name), name is null as nameless from {view}) using"
        f" ({on}, name, nameless)"
        for view in ("signal_oldest_waiting", "signal_failure_rate", "signal_duration")
    )
    rows = case.query(
        "select evidence, db, namespace::varchar as namespace, queue::varchar as queue, scope, case when not nameless"
        " then name end as name, d.waiting, age_ms, failure_rate, p50_ms, p95_ms, p99_ms from"
        " (select * replace (coalesce(name, '') as name), name is null as nameless from signal_depth) d"
        f"{joined} order by evidence, db, dialect, namespace, queue, scope desc, d.jobs desc, name"
    ).to_pylist()
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["evidence"], row["db"], row["namespace"], row["queue"]), []).append(row)
    return found


def _cells(row: dict[str, Any]) -> list[str]:
    ages = [row[name] for name in ("p50_ms", "p95_ms", "p99_ms")]
    return [
        f"{row['waiting']:,}",
        _age(row["age_ms"]),
        percent(row["failure_rate"]),
        *(_age(ms) for ms in ages),
    ]


def _age(ms: int | None) -> str:
    return "–" if ms is None else age(ms)
