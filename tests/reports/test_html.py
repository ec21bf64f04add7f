"""The page without a browser: what stands in it, what may not, and what it costs."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from jobsleuth.case import Case
from jobsleuth.reports import document, render_html
from jobsleuth.reports.html.board import board
from jobsleuth.reports.html.charts import segments
from tests.reports.conftest import HOSTILE, NOW, build, check, finding, job, queue, rows


class Page(HTMLParser):
    """Tags, and what stands in scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[tuple[str, str]] = []
        self._open = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = tag

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open in ("script", "style"):
            self.inside.append((self._open, data))


def rendered(case: Case, **options: Any) -> str:
    return "".join(render_html(case, document(case), **options))


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Jobs whose due times, failures, reasons and sizes are known."""
    failed = [
        job("mail", f"f{n}", state="failed", name="send", finished_at=NOW - n * 60_000, error=f"no route to 10.0.0.{n}")
        for n in range(5)
    ]
    return build(
        tmp_path_factory.mktemp("numbers") / "case",
        {
            "keys": rows(
                "keys",
                {
                    "evidence": 0,
                    "db": 0,
                    "key": "bull:mail:1",
                    "nbytes": 700,
                    "dialect": "bullmq",
                    "namespace": "bull",
                    "queue": "mail",
                },
                {
                    "evidence": 0,
                    "db": 0,
                    "key": "bull:mail:2",
                    "nbytes": 300,
                    "dialect": "bullmq",
                    "namespace": "bull",
                    "queue": "mail",
                },
                {"evidence": 0, "db": 0, "key": "cache", "nbytes": 50},
            ),
            "queues": rows("queues", queue("mail", {"failed": 5, "delayed": 4, "wait": 1}, NOW - 3_600_000)),
            "jobs": rows(
                "jobs",
                *failed,
                job("mail", "late", state="delayed", scheduled_at=NOW - 2 * 86_400_000),
                job("mail", "soon", state="delayed", scheduled_at=NOW + 30_000),
                job("mail", "far", state="delayed", scheduled_at=NOW + 30 * 86_400_000),
                job("mail", "when", state="delayed"),
                job("mail", "waits", state="waiting", created_at=NOW - 3_600_000, pending_since=NOW - 60_000),
            ),
            "checks": rows("checks", check("MB001")),
        },
    )


def test_due_times_fall_into_their_bars(numbers: Case) -> None:
    """Two days overdue, due in thirty seconds, due in a month; one without a time is counted beside."""
    found = board(numbers, document(numbers))
    assert {due.label: due.counts for due in found.due if due.counts} == {
        "overdue a day or more": {"delayed": 1},
        "due within a minute": {"delayed": 1},
        "later": {"delayed": 1},
    }
    assert found.due_unknown == 1


def test_failures_are_counted_by_time_and_by_reason(numbers: Case) -> None:
    """Five failures a minute apart, all counted; one reason, since only numbers differ."""
    found = board(numbers, document(numbers))
    assert found.failures is not None
    assert sum(found.failures.bars) == 5
    assert (found.failures.earlier, found.failures.later) == (0, 0)
    assert found.failures.start_ms <= NOW - 4 * 60_000
    assert [(r.text, r.jobs, r.queues) for r in found.reasons] == [("no route to #.#.#.#", 5, 1)]


def test_an_old_failure_does_not_flatten_the_others(tmp_path: Path) -> None:
    """One failure in 1970 beside two hundred of the last hour: told as earlier, the bars show the hour."""
    many = [job("q", f"j{n}", state="failed", finished_at=NOW - n * 15_000) for n in range(200)]
    odd = [job("q", "old", state="failed", finished_at=5), job("q", "new", state="failed", finished_at=NOW + 10**9)]
    case = build(
        tmp_path / "case", {"queues": rows("queues", queue("q", {"failed": 202})), "jobs": rows("jobs", *many, *odd)}
    )
    failures = board(case, document(case)).failures
    assert failures is not None
    assert (sum(failures.bars), failures.earlier, failures.later) == (200, 1, 1)
    assert failures.width_ms <= 5 * 60_000


def test_memory_is_that_of_the_queues_keys(numbers: Case) -> None:
    """Bytes as stored; what no queue owns is told apart."""
    found = board(numbers, document(numbers))
    assert found.queues[(0, 0, "bull", "mail")].nbytes == 1000
    assert found.other_bytes == 50


def test_bars_fill_their_width_and_show_every_part() -> None:
    """Parts lie side by side without a gap, together no wider than the bar; one among a million can be seen."""
    parts = segments({"waiting": 1, "active": 0, "done": 999_999})
    assert [p["css"] for p in parts] == ["s-waiting", "s-done"]
    assert float(parts[0]["width"]) > 1
    end = 0.0
    for part in parts:
        assert float(part["x"]) == pytest.approx(end, abs=0.02)
        end = float(part["x"]) + float(part["width"])
    assert end == pytest.approx(1000, abs=0.1)
    assert segments({}) == []


@pytest.mark.parametrize("which", ["small_case", "clean_case", "hostile_case"])
def test_the_policy_names_exactly_what_the_page_brings(which: str, request: pytest.FixtureRequest) -> None:
    """One style and one script, their hashes in the policy; data is JSON; no attribute holds a style or a handler."""
    page = Page(rendered(request.getfixturevalue(which)))
    policy = next(
        a["content"] for t, a in page.tags if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    styles = [data for tag, data in page.inside if tag == "style"]
    scripts = [data for tag, data in page.inside if tag == "script"]
    assert (len(styles), len(scripts)) == (1, 2)
    json.loads(scripts[0])
    for text, directive in ((styles[0], "style-src"), (scripts[1], "script-src")):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    for tag, attributes in page.tags:
        assert not [
            name for name in attributes if name.startswith("on") or name in ("style", "src", "srcset", "action")
        ], tag
        assert (attributes.get("href") or "#").startswith("#")


def test_nothing_in_it_comes_from_elsewhere(small_case: Case) -> None:
    """No address of any kind: neither in the page nor in its style and script."""
    assert not re.findall(r"(?:https?:)?//[a-z]|url\(|@import", rendered(small_case))


def test_hostile_text_is_text(hostile_case: Case) -> None:
    """Neither a control character nor a tag that the page did not bring, whatever is shown."""
    text = rendered(hostile_case, shown=500)
    assert not {c for c in text if ord(c) < 32 and c != "\n"} | ({"\u202e"} & set(text))
    tags = {tag for tag, _ in Page(text).tags}
    assert not tags & {"img", "iframe", "object", "embed", "link", "base", "form-action"}
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert HOSTILE not in text


def test_same_case_same_bytes(small_case: Case) -> None:
    """No clock, no chance."""
    assert rendered(small_case) == rendered(small_case)


def test_what_applications_stored_is_hidden_unless_asked_for(tmp_path: Path) -> None:
    """Payload, result, progress and other fields: size and digest by default, their first bytes with the option."""
    stored = {"payload": b"P-secret", "result": b"R-secret", "progress": "G-secret", "rest": [("x", b"X-secret")]}
    case = build(
        tmp_path / "case",
        {
            "queues": rows("queues", queue("q", {"active": 1})),
            "jobs": rows("jobs", job("q", "1", payload_bytes=8, **stored)),
            "checks": rows("checks", check("MB001", findings=1)),
            "findings": rows("findings", finding("MB001", "q", "1")),
        },
    )
    hidden = rendered(case)
    assert "secret" not in hidden
    for value in (b"P-secret", b"R-secret", b"G-secret", b"X-secret"):
        assert hashlib.sha256(value).hexdigest()[:16] in hidden
    shown = rendered(case, shown=3)
    assert "P-s…" in shown and "P-secret" not in shown


def test_commands_name_the_case_as_wanted(small_case: Case) -> None:
    """In a case's own page the case is the folder of the page; in another, the path as given."""
    assert "jobsleuth job . 1 --queue emails" in rendered(small_case, place=".")
    assert f"jobsleuth job {small_case.path} 1 --queue emails" in rendered(small_case)


def test_no_findings_say_so(clean_case: Case) -> None:
    """The verdict, what could not run, and no empty table."""
    text = rendered(clean_case)
    assert "Nothing found that does not add up" in text
    assert "1 could not: no snapshot time" in text
    assert 'id="filters"' not in text


def test_many_findings_keep_the_page_small(tmp_path: Path) -> None:
    """Thirty thousand findings: the worst twenty thousand are on the page, the rest is told, under six megabytes."""
    found = [finding("MB001" if n == 29_999 else "ST001", "q", f"job-{n}") for n in range(30_000)]
    case = build(
        tmp_path / "case",
        {
            "queues": rows("queues", queue("q", {"active": 1})),
            "checks": rows("checks", check("MB001", findings=1), check("ST001", findings=29_999)),
            "findings": rows("findings", *found),
        },
    )
    text = rendered(case)
    data = json.loads(next(d for t, d in Page(text).inside if t == "script"))
    assert len(data["message"]) == 20_000
    assert data["subject"][0] == "job-29999"
    assert "10,000 more are not on this page" in text
    assert len(text) < 6_000_000


def test_a_card_answers_what_is_asked_next(tmp_path: Path) -> None:
    """From when to when it began, held by whom, does it heal, may it be run again: of all findings of the cause."""
    told = {"since_from": NOW - 9000, "since_to": NOW - 1000, "heals": "no", "retry": "unsafe"}
    found = [finding("MB001", "q", str(n), held_by=f"worker-{n}", **told) for n in (1, 2)]
    found.append(finding("MB001", "q", "3", **{**told, "retry": "safe", "since_from": NOW - 20_000}))
    case = build(
        tmp_path / "case",
        {
            "queues": rows("queues", queue("q", {"active": 3})),
            "checks": rows("checks", check("MB001", findings=3)),
            "findings": rows("findings", *found),
        },
    )
    text = rendered(case)
    assert "<dt>since</dt><dd>2026-03-02 02:13:47 to 2026-03-02 02:13:58 UTC</dd>" in text
    assert "<dt>held by</dt><dd>worker-1 (and 1 more)</dd>" in text
    assert "<dt>heals</dt><dd>no (derived)</dd>" in text
    assert "<dt>run again</dt><dd>2 unsafe (ran, or may have), 1 safe (never started)</dd>" in text


def test_a_card_names_whom_it_can_and_the_remedy_of_most(tmp_path: Path) -> None:
    """A holder with a name comes before what is said where there is none; of two remedies that of most findings is
    told, and where as many have either, that nothing repairs it."""
    unknown = {"held_by": "cannot be known: no lock names it", "held_by_basis": "derived", "heals": "no: nothing does"}
    named = {"held_by": "worker w-7", "held_by_basis": "observed", "heals": "at the end of its retention"}
    for count, heals in ((2, "no: nothing does"), (1, "no: nothing does"), (0, "at the end of its retention")):
        found = [finding("MB001", "q", f"u{n}", **unknown) for n in range(count)] + [
            finding("MB001", "q", "n", **named)
        ]
        tables = {"checks": rows("checks", check("MB001", findings=count + 1)), "findings": rows("findings", *found)}
        text = rendered(build(tmp_path / f"case-{count}", tables))
        assert "<dt>held by</dt><dd>worker w-7</dd>" in text
        more = " (and 1 more way)" if count else ""
        assert f"<dt>heals</dt><dd>{heals}{more} (derived)</dd>" in text


def test_texts_of_checks_read_as_texts(tmp_path: Path) -> None:
    """Lines of a paragraph are one line, what stands between backticks is code, and neither can be markup."""
    texts = [("Why it matters", "It is\nlate, as `due<b>` says.\n\nVery `late`")]
    case = build(
        tmp_path / "case",
        {
            "checks": rows("checks", {**check("MB001", findings=1), "texts": texts}),
            "findings": rows("findings", finding("MB001", "q", "1")),
        },
    )
    told = "<h4>Why it matters</h4><p>It is late, as <code>due&lt;b&gt;</code> says.</p><p>Very <code>late</code></p>"
    assert told in rendered(case)


def test_one_queue_in_two_databases_is_two_queues(tmp_path: Path) -> None:
    """The same name in databases 0 and 7: rows, filter and links tell them apart; with one database none is named."""
    second = {**queue("q", {"active": 1}), "db": 7}
    both = {
        "queues": rows("queues", queue("q", {"active": 1}), second),
        "jobs": rows("jobs", job("q", "1"), {**job("q", "2"), "db": 7}),
        "checks": rows("checks", check("MB001", findings=2)),
        "findings": rows("findings", finding("MB001", "q", "1"), finding("MB001", "q", "2", db=7)),
    }
    text = rendered(build(tmp_path / "two", both))
    data = json.loads(next(d for t, d in Page(text).inside if t == "script"))
    assert data["places"] == ["bull/q (db 0)", "bull/q (db 7)"]
    assert data["queue"] == [0, 1]
    assert text.count('data-queue="bull/q (db 7)"') == 1
    assert "<strong>2</strong> <span>bull/q (db 7)</span>" in text
    alone = {name: table.slice(0, 1) for name, table in both.items()}
    assert "(db " not in rendered(build(tmp_path / "one", alone))
