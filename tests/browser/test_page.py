"""The page of a case in a real browser: filters, keyboard, phone, print, hostile content, accessibility."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobsleuth.case import Case
from tests.browser.conftest import page_file
from tests.reports.conftest import HOSTILE, NOW, build, check, finding, job, queue, rows

pytestmark = pytest.mark.integration
Opened = Callable[..., Any]
MANY = 10_000


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten thousand findings: 2,500 errors, 7,500 warnings, in ten queues."""
    folder = tmp_path_factory.mktemp("many")
    names = [f"queue-{n}" for n in range(10)]
    found = [
        finding(
            "MB001" if n % 4 == 0 else "ST001", names[n % 10], f"job-{n:05d}", certainty=("certain", "possible")[n % 2]
        )
        for n in range(MANY)
    ]
    case = build(
        folder / "case",
        {
            "queues": rows(
                "queues", *(queue(name, {"wait": 3, "failed": 2, "delayed": 5}, NOW - 60_000) for name in names)
            ),
            "jobs": rows(
                "jobs",
                *(
                    job(
                        names[n % 10],
                        f"job-{n:05d}",
                        state=("failed", "waiting", "delayed", "completed")[n // 10 % 4],
                        created_at=NOW - 1000 * n,
                        started_at=NOW - 900 * n - 5000,
                        finished_at=NOW - 900 * n,
                        scheduled_at=NOW + 100 * (n - 300),
                        error=f"cannot reach 10.0.0.{n % 7}",
                    )
                    for n in range(600)
                ),
            ),
            "checks": rows("checks", check("MB001", findings=2500), check("ST001", findings=7500)),
            "findings": rows("findings", *found),
        },
    )
    return page_file(case, folder / "page.html")


@pytest.fixture
def alone(small_case: Case, tmp_path: Path) -> Path:
    """Five errors of one check and a warning of another, all of one queue."""
    return page_file(small_case, tmp_path / "page.html")


def shown(page: Any) -> str:
    return str(page.inner_text("#f-count"))


def settled(page: Any, text: str) -> None:
    page.wait_for_function("text => document.getElementById('f-count').textContent === text", arg=text)


def test_ten_thousand_findings_are_filtered_by_hand(opened: Opened, many: Path) -> None:
    """Each filter gives the number that the case was made with; a search over all of them answers within a second."""
    page = opened(many)
    assert shown(page) == "10,000 of 10,000 findings"
    assert page.locator("#f-rows tr").count() == 50
    page.select_option("#f-severity", label="error (2,500)")
    settled(page, "2,500 of 10,000 findings")
    page.select_option("#f-certainty", label="possible")
    settled(page, "0 of 10,000 findings")
    page.click("#f-reset")
    settled(page, "10,000 of 10,000 findings")
    page.select_option("#f-queue", label="bull/queue-3")
    settled(page, "1,000 of 10,000 findings")
    page.fill("#f-text", "JOB-0012")
    settled(page, "1 of 10,000 findings")
    assert page.locator("#f-rows tr").inner_text().split("\t")[3] == "job-00123"
    page.click("#f-reset")
    settled(page, "10,000 of 10,000 findings")
    took = page.evaluate(
        """async () => {
            const begun = performance.now();
            const box = document.getElementById('f-text');
            box.value = 'job-09999'; box.dispatchEvent(new Event('input'));
            const count = document.getElementById('f-count');
            while (!count.textContent.startsWith('1 of')) await new Promise(requestAnimationFrame);
            return performance.now() - begun;
        }"""
    )
    assert took < 1000


def test_pages_of_findings_turn(opened: Opened, many: Path) -> None:
    """Two hundred pages of fifty; the first has no previous one, the last no next one."""
    page = opened(many)
    assert page.inner_text("#f-page") == "Page 1 of 200"
    assert page.is_disabled("#f-previous")
    first = page.locator("#f-rows tr").first.inner_text()
    page.click("#f-next")
    assert page.inner_text("#f-page") == "Page 2 of 200"
    assert page.locator("#f-rows tr").first.inner_text() != first
    page.evaluate("for (let n = 0; n < 198; n += 1) document.getElementById('f-next').click()")
    assert page.inner_text("#f-page") == "Page 200 of 200"
    assert page.is_disabled("#f-next")


def test_a_card_leads_to_its_own_findings(opened: Opened, many: Path, alone: Path) -> None:
    """The link of a card filters the table by its check, and by its queue where it has only one: as many findings as
    the case was made with."""
    for file, told, one in ((many, "2,500 of 10,000 findings", False), (alone, "5 of 6 findings", True)):
        page = opened(file)
        page.locator(".card .more a").first.click()
        settled(page, told)
        assert page.evaluate("document.getElementById('f-check').value !== ''")
        assert page.evaluate("document.getElementById('f-queue').value !== ''") is one


def test_findings_that_are_not_on_the_page_are_not_replaced_by_others(
    opened: Opened, small_case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that has room for the five errors only: the warning's own card leads to none of them, and the numbers say
    that they are those of the page."""
    monkeypatch.setattr("jobsleuth.reports.html.table.MOST", 5)
    page = opened(page_file(small_case, tmp_path / "page.html"))
    assert shown(page) == "5 of 5 findings on this page"
    page.locator(".card.warning .more a").click()
    settled(page, "0 of 5 findings on this page")
    assert page.locator("#f-rows tr").count() == 0
    assert "1 more is not on this page: jobsleuth check . --all" in page.inner_text("#findings")


@pytest.mark.parametrize("end", ["#%", "#job-1%E2", "#nothing"])
def test_an_address_that_was_cut_leaves_the_page_whole(opened: Opened, alone: Path, end: str) -> None:
    """A link that lost its end on the way (in a chat, a ticket) opens the page with its filters."""
    page = opened(alone)
    page.goto(alone.as_uri() + end)
    page.reload()
    assert page.is_visible("#filters")
    assert shown(page) == "6 of 6 findings"


def test_it_works_with_the_keyboard_alone(opened: Opened, small_case: Case, tmp_path: Path) -> None:
    """Tab reaches the skip link, the filters and a job; Enter opens it; every stop can be seen."""
    page = opened(page_file(small_case, tmp_path / "page.html"))
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        where = page.evaluate("document.activeElement.id || document.activeElement.getAttribute('href') || ''")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", where
        seen.append(where)
        if where == "f-text":
            page.keyboard.type("mb001")  # five of the six findings: the filter works while the next Tab is on its way
        if where.startswith("#job-"):
            page.keyboard.press("Enter")
            break
    assert {"f-text", "f-severity", "f-queue"} <= set(seen)
    assert shown(page) == "5 of 6 findings"
    target = seen[-1].lstrip("#")
    page.wait_for_function("id => document.getElementById(id).open", arg=target)
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"


def test_hostile_names_are_inert(opened: Opened, hostile_case: Case, tmp_path: Path) -> None:
    """Script tags, ANSI, bidi controls and paths from names, errors and payloads are text; no script of theirs runs."""
    page = opened(page_file(hostile_case, tmp_path / "page.html", shown=200))
    text = page.inner_text("body")
    assert "<script>alert(1)</script>" in text
    assert not {"\x1b", "\u202e", "\x07"} & set(page.content())
    assert page.evaluate("document.querySelectorAll('script').length") == 2
    assert (
        page.evaluate("document.querySelectorAll('img, iframe, object, embed, link, base, form[action]').length") == 0
    )
    assert page.evaluate("[...document.links].every(a => a.getAttribute('href').startsWith('#'))")
    page.fill("#f-text", "<script>")
    settled(page, "1 of 1 findings")


def test_the_policy_refuses_what_the_page_did_not_bring(opened: Opened, small_case: Case, tmp_path: Path) -> None:
    """A script, a style or an image that somebody slips in neither runs nor loads."""
    page = opened(page_file(small_case, tmp_path / "page.html"), refusing=True)
    violated = page.evaluate(
        """async () => {
            const seen = [];
            document.addEventListener('securitypolicyviolation', (e) => seen.push(e.effectiveDirective));
            const script = document.createElement('script');
            script.textContent = 'window.owned = true';
            const style = document.createElement('style');
            style.textContent = 'body { display: none }';
            document.head.append(script, style);
            const image = document.createElement('img');
            image.src = 'data:image/gif;base64,R0lGODlhAQABAAAAACw=';
            document.body.append(image);
            await new Promise((done) => setTimeout(done, 200));
            return [window.owned === undefined, seen.map((d) => d.replace('-elem', '')).sort()];
        }"""
    )
    assert violated == [True, ["img-src", "script-src", "style-src"]]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_no_fault_that_matters(
    opened: Opened, small_case: Case, tmp_path: Path, scheme: str, width: int
) -> None:
    """axe-core, on a laptop and a phone, light and dark, with a job's section open; no two landmarks share a name."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is not installed")
    file = page_file(small_case, tmp_path / "page.html")
    page = opened(file, viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True)
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
    found = axe.Axe().run(page).response["violations"]
    assert [
        (v["id"], [n["html"] for n in v["nodes"]][:3])
        for v in found
        if v["impact"] in ("moderate", "serious", "critical")
    ] == []


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_nothing_is_wider_than_the_screen(
    opened: Opened, many: Path, hostile_case: Case, tmp_path: Path, width: int
) -> None:
    """No sideways scrolling of the page at any width; wide tables scroll in their own frame."""
    for file in (many, page_file(hostile_case, tmp_path / "page.html")):
        page = opened(file, viewport={"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_above_the_fold_answers(opened: Opened, many: Path) -> None:
    """On a laptop the verdict, the evidence, the worst cause and its command are on the first screen."""
    page = opened(many, viewport={"width": 1280, "height": 800})
    for selector in ("h1", ".evidence", ".card h3", ".card .command"):
        box = page.locator(selector).first.bounding_box()
        assert box["y"] + box["height"] <= 800, selector
    assert page.inner_text("h1").startswith("10,000 findings: 2,500 errors and 7,500 warnings")


def test_it_prints(opened: Opened, small_case: Case, tmp_path: Path) -> None:
    """On paper there are no controls, the stories are open, and the ground is white."""
    page = opened(page_file(small_case, tmp_path / "page.html"), color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.is_visible("#filters")
    assert not page.is_visible(".copy")
    assert not page.is_visible("#f-next")
    assert page.is_visible("details.job .story")
    assert page.pdf()[:5] == b"%PDF-"


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A queue with jobs in every state and run times of minutes, hours and days: the widest row there is."""
    folder = tmp_path_factory.mktemp("busy")
    states = ("wait", "active", "delayed", "retry", "failed", "completed", "waiting-children", "unknown")
    done = [
        job("a-queue", str(n), state="completed", started_at=NOW - took, finished_at=NOW)
        for n, took in enumerate((60_000, 36_000_000, 864_000_000))
    ]
    case = build(
        folder / "case",
        {
            "queues": rows("queues", queue("a-queue", dict.fromkeys(states, 123_456), NOW - 60_000)),
            "jobs": rows("jobs", *done),
            "checks": rows("checks", check("MB001", findings=1)),
            "findings": rows("findings", finding("MB001", "a-queue", "1")),
        },
    )
    return page_file(case, folder / "page.html")


@pytest.mark.parametrize(("media", "width"), [("screen", 1280), ("print", 720)])
def test_the_table_of_queues_is_seen_whole(opened: Opened, busy: Path, media: str, width: int) -> None:
    """On a laptop and on paper (A4 within its margins is 720 pixels wide) no column is cut off, however full."""
    page = opened(busy, viewport={"width": width, "height": 800})
    page.emulate_media(media=media)
    for frame in page.locator(".scroll").all():
        assert frame.evaluate("e => e.scrollWidth - e.clientWidth") <= 0, frame.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_without_scripts_the_page_still_tells(opened: Opened, small_case: Case, tmp_path: Path) -> None:
    """No script: verdict, causes and the first findings are there, no dead controls are."""
    page = opened(page_file(small_case, tmp_path / "page.html"), java_script_enabled=False)
    assert page.inner_text("h1") == "6 findings: 5 errors and 1 warning, in 1 of 2 queues"
    assert page.locator("#f-rows tr").count() == 6
    assert not page.is_visible("#filters")
    assert not page.locator(".copy").first.is_visible()


def test_the_command_is_copied(opened: Opened, small_case: Case, tmp_path: Path) -> None:
    """The button beside a command selects or copies it, and says so, also to who cannot see it."""
    page = opened(page_file(small_case, tmp_path / "page.html"), permissions=["clipboard-read", "clipboard-write"])
    button = page.locator(".card .copy").first
    button.click()
    page.wait_for_function("document.querySelector('.card .copy').textContent !== 'Copy'")
    assert button.inner_text() in ("Copied", "Selected")
    command = page.locator(".card .command code").first.inner_text()
    assert page.get_by_role("status").last.text_content() == f"{button.inner_text()}: {command}"


def test_hostile_payloads_stay_hidden_unless_asked_for(opened: Opened, hostile_case: Case, tmp_path: Path) -> None:
    """By default size and digest; with the option the first bytes, as text."""
    hidden = opened(page_file(hostile_case, tmp_path / "a.html")).inner_html("#jobs")
    asked = opened(page_file(hostile_case, tmp_path / "b.html", shown=20)).inner_html("#jobs")
    size = len(HOSTILE.encode())
    assert f"payload: {size} bytes, sha256 " in hidden
    assert f"payload: {size} bytes\n" in asked or f"payload: {size} bytes</li>" in asked
