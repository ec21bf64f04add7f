"""Options that many commands share, every example of the help, filters and formats of jobs, and the recovery list."""

from __future__ import annotations

import csv
import importlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from jobsleuth.cli.main import app
from tests.cli.conftest import on_terminal

ROOT = Path(__file__).parents[2]
CRASH = ROOT / "fixtures" / "bullmq" / "v5-crash-locks-expired" / "evidence.rdb"
COMMANDS = [c.name or "" for c in app.registered_commands]
READING = {"check": [], "queues": [], "jobs": [], "job": ["held-1", "--queue", "press"], "keys": [], "verify": [],
           "sql": ["select 1 as n"], "report": [], "export": ["--failed"], "explain": None}  # fmt: skip
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def desk(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the examples speak of: a dump, a case of it, a policy, ids in a file."""
    folder = tmp_path_factory.mktemp("examples")
    shutil.copy(CRASH, folder / "dump.rdb")
    assert run("analyze", "dump.rdb", "--out", "case", "-q", cwd=folder).returncode == 0
    return folder


def words(command: str, case: str = "case") -> list[str]:
    more = READING[command]
    return [command] if more is None else [command, case, *more]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fills_the_lines_it_has(run: Run, command: str) -> None:
    """At 80 columns a line of what a command says of itself ends only where the next word has no room, or a paragraph
    does."""
    text = run(command, "--help", COLUMNS="80").stdout.partition("Usage:")[2].partition("╭")[0].partition("\n")[2]
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = paragraph.splitlines()
        for line, following in pairwise(lines):
            assert len(f"{line.strip()} {following.split()[0]}") > 78, paragraph


def test_an_explanation_fits_the_window(run: Run) -> None:
    """At 60 columns no line of what a check means is wider, up to its SQL, which stays as it is; no word is lost."""
    narrow, wide = (run("explain", "LV002", COLUMNS=width).stdout for width in ("60", "300"))
    told = narrow.partition("\nSQL\n")[0]
    assert max(map(len, told.splitlines())) <= 60
    assert narrow.split() == wide.split()
    assert "\n  An id in `active` for which the snapshot has no lock (BullMQ) or no lease (Asynq; 0.10 to 0.21" in wide


@pytest.mark.parametrize("command", COMMANDS)
def test_every_example_works(run: Run, desk: Path, tmp_path: Path, command: str) -> None:
    """The example of each help, pasted into a shell in a folder with a dump and a case: no complaint, exit 0 or 1."""
    module = importlib.import_module(f"jobsleuth.cli.{command}")
    helped = " ".join(run(command, "--help", COLUMNS="300").stdout.split())
    assert " ".join(module.EXAMPLE.split()) in helped
    example = re.fullmatch(r"Example:  (jobsleuth .*)", module.EXAMPLE)
    assert example
    if command == "crosscheck":
        pytest.importorskip("rdbtools", reason="rdbtools is not installed: the second opinion was NOT asked")
        shutil.copy(ROOT / "fixtures" / "rdb9" / "every-encoding" / "evidence.rdb", tmp_path / "dump.rdb")
    else:
        shutil.copy(desk / "dump.rdb", tmp_path)
    if command == "layout":
        shutil.copy(ROOT / "fixtures" / "lists" / "layouts.toml", tmp_path)
    if command == "timeline":
        moves = ROOT / "fixtures" / "aof" / "bullmq-v5-vanished" / "appendonlydir"
        assert run("analyze", str(moves), "--out", "case", "-q", cwd=tmp_path).returncode == 0
    elif command != "analyze":
        shutil.copytree(desk / "case", tmp_path / "case")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", example[1]],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode in ((0, 1) if command == "check" else (0,))


@pytest.mark.parametrize("command", [c for c in READING if c != "explain"])
def test_json_is_json_and_quiet_is_quiet(run: Run, desk: Path, command: str) -> None:
    """Every reading command has both; --quiet says nothing on standard error, and of a verdict nothing at all."""
    done = run(*words(command), "--json", cwd=desk)
    assert done.returncode in (0, 1)
    json.loads(done.stdout)
    quiet = run(*words(command), "--quiet", cwd=desk)
    assert (quiet.returncode, quiet.stderr) == (done.returncode, "")
    if command in ("check", "verify"):
        assert quiet.stdout == ""
    assert not re.search(r"^\d+ rows?$", quiet.stdout, re.MULTILINE)


def test_completion_knows_commands_and_options(run: Run) -> None:
    """What a shell asks for when Tab is pressed."""
    asked = {"_JOBSLEUTH_COMPLETE": "complete_bash", "COMP_WORDS": "jobsleuth ex", "COMP_CWORD": "1"}
    done = subprocess.run(
        [Path(sys.executable).parent / "jobsleuth"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert set(done.stdout.split()) == {"explain", "export"}


def test_a_queue_is_named_as_the_lists_show_it(run: Run, desk: Path) -> None:
    """`namespace/queue`, as every table prints it, gives the rows that the name alone gives; a queue that is not there
    is refused, since an empty recovery list would read like good news; a state that is not there is told."""
    for words in (["jobs", "case", "--json"], ["export", "case", "--stuck", "--json"]):
        by_name, by_place = (json.loads(run(*words, "--queue", q, cwd=desk).stdout) for q in ("press", "bull/press"))
        assert by_name == by_place
        assert {row["queue"] for row in by_name} == {"press"}
        done = run(*words, "--queue", "pres", cwd=desk)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("jobsleuth: case: no queue pres in the case\n")
    done = run("jobs", "case", "--state", "wait", "--json", cwd=desk)
    assert (done.returncode, json.loads(done.stdout)) == (0, [])
    assert done.stderr.startswith("jobsleuth: note: no job is in state wait; there are: active, ")
    assert run("jobs", "case", "--state", "active", "--json", cwd=desk).stderr == ""


def test_jobs_by_age_priority_and_ids(run: Run, desk: Path) -> None:
    """Against the same questions in SQL."""
    for given, condition in (
        (["--older-than", "4s"], "as_of_ms - epoch_ms(created_at) >= 4000"),
        (["--newer-than", "4s"], "as_of_ms - epoch_ms(created_at) < 4000"),
        (["--priority", "0"], "priority = 0"),
        (["--priority", "1-10"], "priority between 1 and 10"),
    ):
        query = f"select job_id from jobs join evidence using (evidence) where {condition}"
        wanted = sorted(r["job_id"] for r in json.loads(run("sql", "case", query, "--json", cwd=desk).stdout))
        found = sorted(r["job_id"] for r in json.loads(run("jobs", "case", *given, "--json", cwd=desk).stdout))
        assert found == wanted, given
    (desk / "ids").write_text("held-2\nno-such-job\n\nheld-1\n")
    done = run("jobs", "case", "--ids", "ids", "--queue", "press", "--json", cwd=desk)
    assert [r["job_id"] for r in json.loads(done.stdout)] == ["held-1", "held-2"]
    assert done.stderr == "jobsleuth: note: 1 of 3 ids are of no job in this case: no-such-job\n"
    assert run("jobs", "case", "--ids", "ids", "--quiet", cwd=desk).stderr == ""
    # As a spreadsheet on Windows writes it; U+2028 is part of an id and ends no line.
    (desk / "ids").write_bytes("\ufeffheld-2\r\nheld-\u20281\r\n".encode())
    done = run("jobs", "case", "--ids", "ids", "--queue", "press", "--json", cwd=desk)
    assert [r["job_id"] for r in json.loads(done.stdout)] == ["held-2"]
    assert done.stderr == "jobsleuth: note: 1 of 2 ids are of no job in this case: held-\\u20281\n"
    piped = subprocess.run(
        [sys.executable, "-m", "jobsleuth", "jobs", "case", "--ids", "-", "--format", "csv"],
        input="held-1\n", cwd=desk, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert {row["job_id"] for row in csv.DictReader(io.StringIO(piped.stdout))} == {"held-1"}


@pytest.mark.parametrize(
    ("given", "telling"),
    [
        (["--older-than", "yesterday"], "--older-than"),
        (["--priority", "high"], "--priority"),
        (["--ids", "nowhere"], "nowhere"),
        (["--out", "x"], "--format"),
        (["--redact-key", "."], "."),
    ],
)
def test_nonsense_is_refused(run: Run, desk: Path, given: list[str], telling: str) -> None:
    """One line that names the option, exit 2."""
    done = run("jobs", "case", *given, cwd=desk)
    assert (done.returncode, done.stdout) == (2, "")
    assert telling in done.stderr
    assert "unexpected" not in done.stderr and "Traceback" not in done.stderr


def test_parquet_has_the_columns_types_and_rows(run: Run, desk: Path) -> None:
    """The same rows as NDJSON, with times as times; to a file and to a pipe."""
    lines = [json.loads(x) for x in run("jobs", "case", "--format", "ndjson", cwd=desk).stdout.splitlines()]
    done = run("jobs", "case", "--format", "parquet", "--out", "jobs.parquet", cwd=desk)
    assert (done.returncode, done.stdout) == (0, "")
    table = pq.read_table(desk / "jobs.parquet")
    assert table.column("job_id").to_pylist() == [line["job_id"] for line in lines]
    assert str(table.schema.field("created_at").type) == "timestamp[us, tz=UTC]"
    piped = subprocess.run(
        [sys.executable, "-m", "jobsleuth", "sql", "case", "select 1 as n", "--format", "parquet"],
        cwd=desk, capture_output=True, check=False,
    )  # fmt: skip
    assert pq.read_table(io.BytesIO(piped.stdout)).to_pylist() == [{"n": 1}]


def test_a_file_is_written_whole_and_not_over_another(run: Run, desk: Path, tmp_path: Path) -> None:
    """--out refuses what exists, --force replaces it, and a query that fails leaves nothing."""
    out = tmp_path / "x.csv"
    more = ("--format", "csv", "--out", out)
    assert run("sql", "case", "select 1 as n", *more, cwd=desk).returncode == 0
    assert run("sql", "case", "select 2 as n", *more, cwd=desk).returncode == 2
    assert out.read_text() == "n\n1\n"
    assert run("sql", "case", "select 2 as n", *more, "--force", cwd=desk).returncode == 0
    assert out.read_text() == "n\n2\n"
    failing = "select case when n > 100000 then error('no') else n::varchar end as x from range(200000) t(n)"
    done = run("sql", "case", failing, "--format", "csv", "--out", tmp_path / "y.csv", cwd=desk)
    assert done.returncode == 2
    assert done.stderr.startswith("jobsleuth: SQL: ")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.csv"]


def test_millions_of_rows_need_little_memory(desk: Path) -> None:
    """Two million rows as NDJSON: the process stays far below what they take."""
    # Not what getrusage tells: to it a new process has the peak of the one that started it.
    code = (
        "import re, sys\nfrom jobsleuth.cli.main import main\n"
        "code = main()\nprint(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1], file=sys.stderr)\n"
        "sys.exit(code)"
    )
    query = "select n, repeat('x', 200) as text from range(2000000) t(n)"
    command = [sys.executable, "-c", code, "sql", "case", query, "--format", "ndjson"]
    with subprocess.Popen(command, cwd=desk, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        total = 0
        while piece := process.stdout.read(1 << 20):
            total += len(piece)
        peak_kb = int(process.stderr.read())
    assert process.returncode == 0
    assert total > 400_000_000
    assert peak_kb < 350_000


def test_report_goes_to_a_new_file_or_a_pipe(run: Run, desk: Path, tmp_path: Path) -> None:
    """Elsewhere it names the case by its path; piped it is the page itself; a second time it needs --force."""
    out = tmp_path / "page.html"
    assert run("report", "case", "--out", out, cwd=desk).stdout == f"The report: {out}\n"
    text = out.read_text()
    assert text.startswith("<!doctype html>")
    assert "jobsleuth job case " in text
    assert run("report", "case", cwd=desk).stdout == text
    assert run("report", "case", "--out", out, cwd=desk).returncode == 2
    assert run("report", "case", "--out", out, "--force", "-q", cwd=desk).stdout == ""


def test_the_case_holds_its_own_page(run: Run, desk: Path) -> None:
    """analyze writes it, the manifest has its hash, verify watches it, and its commands are for its own folder."""
    page = desk / "case" / "report.html"
    assert "jobsleuth job . " in page.read_text()
    manifest = json.loads((desk / "case" / "manifest.json").read_text())
    assert manifest["files"]["report.html"]["bytes"] == page.stat().st_size
    assert run("verify", "case", cwd=desk).returncode == 0


def test_queues_shows_the_four_signals(run: Run, desk: Path) -> None:
    """Depth, age, failure rate and percentiles of each queue and name, equal to the views'."""
    text = run("queues", "case", "--names", cwd=desk).stdout
    head = next(line for line in text.splitlines() if line.startswith("queue, job name"))
    assert head.split()[3:] == ["waiting", "oldest", "fail", "rate", "p50", "p95", "p99"]
    listed = json.loads(run("queues", "case", "--json", cwd=desk).stdout)
    views = json.loads(run("sql", "case", "from signal_duration where scope = 'queue'", "--json", cwd=desk).stdout)
    assert {q["queue"]: q["p95_ms"] for q in listed if q["p95_ms"] is not None} == {
        v["queue"]: v["p95_ms"] for v in views
    }
    names = json.loads(run("queues", "case", "--names", "--json", cwd=desk).stdout)
    assert {(n["queue"], n["name"]) for n in names} == {
        (j["queue"], j["name"]) for j in json.loads(run("jobs", "case", "--json", cwd=desk).stdout)
    }


def test_export_needs_to_be_told_what(run: Run, desk: Path) -> None:
    """Without a kind it is refused; CSV and NDJSON list the same jobs; no line is a Redis command."""
    assert run("export", "case", cwd=desk).returncode == 2
    lines = run("export", "case", "--stuck", "--failed", cwd=desk).stdout.splitlines()
    entries = [json.loads(line) for line in lines]
    table = list(
        csv.DictReader(io.StringIO(run("export", "case", "--stuck", "--failed", "--format", "csv", cwd=desk).stdout))
    )
    assert [(e["queue"], e["job_id"], e["data"]) for e in entries] == [
        (r["queue"], r["job_id"], r["data"]) for r in table
    ]
    assert {e["job_id"] for e in entries if e["queue"] == "press"} >= {"held-1", "held-2", "held-3"}
    assert all(e["may_have_run"] == "yes" for e in entries if e["job_id"].startswith("held"))
    assert not re.search(r"\b(LPUSH|RPUSH|ZADD|HSET|HMSET|EVAL|DEL|redis-cli)\b", "\n".join(lines))


def test_csv_of_the_recovery_list_gives_data_back_exactly(run: Run, tmp_path: Path) -> None:
    """Data that a spreadsheet would run or could not show stands in `data_base64`, every other as it is."""
    import base64

    from tests.reports.conftest import build, job, rows

    datas = [b'{"n":1}', b"=cmd()", b"line\nline", b"\xff\x00", "naïve \u202e".encode()]
    build(
        tmp_path / "case",
        {
            "jobs": rows(
                "jobs",
                *(job("q", str(n), state="failed", payload=d, payload_bytes=len(d)) for n, d in enumerate(datas)),
            )
        },
    )
    text = run("export", tmp_path / "case", "--failed", "--format", "csv").stdout
    found = [
        base64.b64decode(row["data_base64"]) if row["data_base64"] else row["data"].encode()
        for row in csv.DictReader(io.StringIO(text))
    ]
    assert found == datas
    assert not [cell for row in csv.reader(io.StringIO(text)) for cell in row if cell[:1] in "=+-@" and cell]


def test_progress_waits_a_second_and_tells_rate_and_time_left() -> None:
    """On a terminal: nothing for a quick run; for a slow one the stage, its rate in bytes and the time left."""
    quick = (
        "from jobsleuth.cli import output\n"
        "with output.patience('checking'): pass\n"
        "with output.progress(False) as report: report('index', 1, 2)\n"
    )
    assert on_terminal(["-c", quick], module=False) == ""
    slow = (
        "import sys, time\nfrom jobsleuth.cli import output\n"
        "with output.progress(False) as report:\n"
        "    for n in range(1, 26):\n"
        "        report('index', n * 10_000_000, 1_000_000_000)\n"
        "        time.sleep(0.1)\n"
    )
    shown = on_terminal(["-c", slow], module=False)
    assert "reading keys" in shown
    assert re.search(r"\d+(\.\d+)? MB/s", shown)
    assert re.search(r"0:00:\d\d", shown)


def test_help_of_sql_names_every_table(run: Run, desk: Path) -> None:
    """All that `show tables` has is in the help: nobody has to guess what can be asked."""
    found = json.loads(run("sql", "case", "show tables", "--json", cwd=desk).stdout)
    helped = set(re.findall(r"\w+", run("sql", "--help").stdout))
    assert len(found) > 15 and {row["name"] for row in found} <= helped
