"""The documentation: it builds without a warning, its links lead somewhere, and what it tells to type works."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.conftest import RedisServer
from tests.docs import standins
from tests.docs.console import blocks, environment, follow, steps

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DUMP = ROOT / "fixtures" / "bullmq" / "v5-healthy" / "evidence.rdb"
OFFLINE = ["tutorial.md", *(f"how-to/{name}.md" for name in ("get-a-dump", "read-a-case", "act-on-findings"))]
OFFLINE += ["how-to/own-checks.md", "how-to/python.md"]
OFFLINE += ["explanation/certainty-and-time.md", "explanation/what-a-snapshot-cannot-know.md"]
CLOUD = ["how-to/elasticache.md", "how-to/memorystore.md"]
SERVER = ["how-to/self-hosted.md", "how-to/kubernetes.md", "how-to/upstash.md"]


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder to work in, with what the pages take from the repository."""
    folder = tmp_path / "desk"
    folder.mkdir()
    for name in ("fixtures", "tools"):
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.mark.parametrize("page", OFFLINE)
def test_what_a_page_tells_to_type_works(page: str, desk: Path) -> None:
    """Every command and every line of Python, in order, in one folder; where the page shows an output, it is that."""
    follow((DOCS / page).read_text(encoding="utf-8"), desk, environment())


@pytest.mark.parametrize("page", CLOUD)
def test_commands_of_clouds(page: str, desk: Path) -> None:
    """In order, with stand-ins that take only what the provider's manual lists; the dump they hand over is analyzed."""
    for name, program in (("aws", standins.AWS), ("gcloud", standins.GCLOUD)):
        standins.put(desk.parent / "bin", name, program, DUMP=str(DUMP))
    assert follow((DOCS / page).read_text(encoding="utf-8"), desk, environment(desk.parent / "bin")) >= 3
    assert (desk / "case" / "manifest.json").exists()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RedisServer, int]]:
    """A real server with two jobs of a queue, and its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    made = RedisServer(tmp_path_factory.mktemp("redis"), "--port", str(port), "--bind", "127.0.0.1")
    client = made.client()
    client.hset("bull:mails:meta", mapping={"opts.maxLenEvents": 10000})
    for job in ("1", "2"):
        fields = {
            "name": "welcome",
            "data": "{}",
            "opts": "{}",
            "timestamp": 1_700_000_000_000,
            "delay": 0,
            "priority": 0,
        }
        client.hset(f"bull:mails:{job}", mapping=fields)
        client.lpush("bull:mails:wait", job)
    made.save()
    yield made, port
    made.stop()


@pytest.mark.integration
@pytest.mark.parametrize("page", SERVER)
def test_commands_for_a_server(page: str, desk: Path, server: tuple[RedisServer, int]) -> None:
    """The real redis-cli and the real exporter against a real server; every case made has its two jobs."""
    real = shutil.which("redis-cli")
    if real is None:
        pytest.skip("redis-cli is not installed: NOTHING was typed")
    tools = desk.parent / "bin"
    folder = server[0].folder
    standins.put(tools, "redis-cli", standins.REDIS_CLI, REAL=real, SOCKET=str(folder / "s"))
    standins.put(tools, "kubectl", standins.KUBECTL, DATA=str(folder))
    standins.put(tools, "python", standins.PYTHON, PORT=server[1])
    assert follow((DOCS / page).read_text(encoding="utf-8"), desk, environment(tools)) >= 2
    made = [path.parent for path in desk.glob("*/manifest.json")]
    assert made
    for case in made:
        program = f"import jobsleuth; print(sorted(jobsleuth.open_case({str(case)!r}).jobs['job_id']))"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "['1', '2']"


def test_no_page_with_commands_is_left_out() -> None:
    """A page that tells to type something is run by one of the tests above, or is run elsewhere."""
    elsewhere = {"ci.md", "evidence.md", "formats.md", "layouts.md", "policy.md", "performance.md"}
    telling = {
        str(path.relative_to(DOCS))
        for path in DOCS.rglob("*.md")
        if path.parent.name not in ("checks", "tables", "cli", "decisions") and steps(path.read_text(encoding="utf-8"))
    }
    assert telling - elsewhere == {p for p in (*OFFLINE, *CLOUD, *SERVER) if p != "how-to/python.md"}
    assert any(block.language == "python" for block in blocks((DOCS / "how-to" / "python.md").read_text()))


class Page(HTMLParser):
    """What a page loads from elsewhere, and its headings' ids."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "video", "audio") and given.get("src"):
            self.loads.append(str(given["src"]))
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload", "preconnect", "modulepreload"):
            self.loads.append(str(given.get("href")))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with every warning an error: missing pages, links and anchors are warnings."""
    pytest.importorskip("material", reason="mkdocs-material is not installed: the site was NOT built")
    out = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_the_site_has_a_page_for_everything(site: Path) -> None:
    """Each Markdown page, each notebook and the changelog is a page of the site."""
    pages = {str(p.relative_to(site)) for p in site.rglob("*.html")}
    wanted = {str(p.relative_to(DOCS).with_suffix(".html")) for p in DOCS.rglob("*.md")}
    wanted = {re.sub(r"README\.html$", "index.html", name) for name in wanted} | {"changes.html"}
    wanted |= {f"notebooks/{p.stem}.html" for p in (ROOT / "notebooks").glob("*.ipynb")}
    assert wanted - pages == set()
    told = (site / "notebooks" / "dead-worker.html").read_text(encoding="utf-8")
    assert "Which jobs did the dead worker hold?" in told and "last-chance" in told


def test_the_site_needs_no_network(site: Path) -> None:
    """No page loads a script, style, font or picture from elsewhere, and what it loads is there."""
    for path in site.rglob("*.html"):
        for target in Page(path.read_text(encoding="utf-8")).loads:
            assert not re.match(r"(\w+:)?//", target), f"{path.name} loads {target}"
            if path.name != "404.html":
                assert (path.parent / target.split("?")[0].split("#")[0]).exists(), f"{path.name} lacks {target}"
    styles = "".join(p.read_text(encoding="utf-8") for p in site.rglob("*.css"))
    assert not re.search(r"url\(['\"]?(https?:)?//", styles)


def test_pictures_are_our_own_and_tell_what_they_show(site: Path) -> None:
    """Every diagram is an SVG with a title and a description, without script or outside reference, and is on a page."""
    pictures = sorted(DOCS.rglob("*.svg"))
    assert len(pictures) >= 4
    pages = "".join(p.read_text(encoding="utf-8") for p in (DOCS / "explanation").glob("*.md"))
    for path in pictures:
        text = path.read_text(encoding="utf-8")
        assert "<title" in text and "<desc" in text and f"img/{path.name}" in pages
        assert not re.search(r"<script|<image|href=|@import|url\((?!#)", text)
        assert (site / path.relative_to(DOCS)).exists()
