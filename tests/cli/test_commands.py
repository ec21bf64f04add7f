"""Each command on a real case: what it says, in which format, with which exit code."""

from __future__ import annotations

import csv
import hashlib
import importlib
import io
import json
import re
import signal
import subprocess
import sys
import time
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import on_terminal

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures"
FAULTS = FIXTURES / "bullmq" / "v5-faults"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def answers() -> dict[tuple[str, str], str]:
    """(queue, id) → the state that BullMQ itself gave."""
    library = json.loads((FAULTS / "expect" / "library.json").read_text())
    return {
        (queue["queue"], job_id): job["state"]
        for queue in library["queues"].values()
        for job_id, job in queue["jobs"].items()
        if job.get("state") is not None
    }


def test_analyze_ends_with_the_summary_and_the_place_of_the_case(run: Run, tmp_path: Path) -> None:
    """The evidence's name first, a verdict with errors, and the last line names the case."""
    (tmp_path / "dump.rdb").write_bytes((FAULTS / "evidence.rdb").read_bytes())
    done = run("analyze", "dump.rdb", "--out", "case", cwd=tmp_path)
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[0].startswith("dump.rdb  ")
    assert "checksum ok" in lines[0]
    assert any("findings: " in line and "error" in line for line in lines)
    assert lines[-1] == "The case: case"


@pytest.mark.parametrize(("threshold", "code"), [("never", 0), ("error", 1), ("warning", 1)])
def test_analyze_fails_only_when_told_to(run: Run, tmp_path: Path, threshold: str, code: int) -> None:
    """The case is made either way; --fail-on decides the exit code."""
    out = tmp_path / "case"
    assert run("analyze", FAULTS / "evidence.rdb", "--out", out, "--fail-on", threshold).returncode == code
    assert (out / "manifest.json").is_file()


def test_check_of_a_healthy_dump_passes_and_of_a_faulty_one_fails(run: Run, case: Path, tmp_path: Path) -> None:
    """Exit 0 without errors, exit 1 with errors, exit 0 again when nothing may fail."""
    for dialect, name in (("bullmq", "v5-healthy"), ("asynq", "healthy-0.26.0")):
        out = tmp_path / name
        assert run("analyze", FIXTURES / dialect / name / "evidence.rdb", "--out", out, "-q").returncode == 0
        assert run("check", out).returncode == 0
    assert run("check", case).returncode == 1
    assert run("check", case, "--fail-on", "never").returncode == 0


def test_check_judges_as_analyze_did_and_writes_nothing(run: Run, case: Path) -> None:
    """A fresh judgement finds what the case holds, and every file keeps its bytes."""
    before = {p: p.read_bytes() for p in case.rglob("*") if p.is_file()}
    report = json.loads(run("check", case, "--format", "json").stdout)
    held = json.loads(run("sql", case, "select count(*) as n from findings", "--json").stdout)
    assert len(report["findings"]) == held[0]["n"]
    assert {p: p.read_bytes() for p in case.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize("fmt", ["json", "sarif", "junit", "github", "markdown", "text"])
def test_every_format_of_check_is_well_formed(run: Run, case: Path, fmt: str) -> None:
    """JSON and SARIF parse, XML parses, GitHub has commands, and each exits 1 for the same findings."""
    done = run("check", case, "--format", fmt)
    assert (done.returncode, done.stderr) == (1, "")
    if fmt in ("json", "sarif"):
        json.loads(done.stdout)
    elif fmt == "junit":
        assert int(ET.fromstring(done.stdout).get("failures", "0")) > 0
    elif fmt == "github":
        assert done.stdout.startswith("::error title=")


def test_jobs_has_the_state_that_the_library_gives(run: Run, case: Path, answers: dict[tuple[str, str], str]) -> None:
    """Every job of the dump, by `jobs --format ndjson`, against BullMQ's own getState."""
    done = run("jobs", case, "--format", "ndjson")
    found = {(j["queue"], j["job_id"]): j["state"] for j in map(json.loads, done.stdout.splitlines())}
    wrong = {key: (found.get(key), state) for key, state in answers.items() if found.get(key) != state}
    assert wrong == {}


def test_jobs_filters_sorts_and_limits(run: Run, case: Path, answers: dict[tuple[str, str], str]) -> None:
    """A state filter gives just the library's jobs of that state; the limit holds; the sort is by value."""
    failed = json.loads(run("jobs", case, "--state", "failed", "--json").stdout)
    assert {(j["queue"], j["job_id"]) for j in failed} >= {k for k, state in answers.items() if state == "failed"}
    assert {j["state"] for j in failed} == {"failed"}
    both = json.loads(run("jobs", case, "--state", "failed", "--state", "active", "--json").stdout)
    assert {j["state"] for j in both} == {"failed", "active"}
    few = json.loads(run("jobs", case, "--sort", "-created_at", "--limit", "3", "--json").stdout)
    assert len(few) == 3
    assert [j["created_at"] for j in few] == sorted((j["created_at"] for j in few), reverse=True)
    one = json.loads(run("jobs", case, "--queue", "wait-and-active", "--json").stdout)
    assert {j["queue"] for j in one} == {"wait-and-active"}


def test_csv_has_a_header_and_a_row_a_job(run: Run, case: Path, answers: dict[tuple[str, str], str]) -> None:
    """CSV that a parser reads back, as many rows as jobs, and no payload in it."""
    table = list(csv.DictReader(io.StringIO(run("jobs", case, "--format", "csv").stdout)))
    assert len(table) >= len(answers)
    assert "job_id" in table[0]
    assert not {"payload", "result", "rest"} & set(table[0])


def test_job_tells_the_story_first(run: Run, case: Path) -> None:
    """An active job whose lock was deleted: said in the first paragraph, then where the id is, then the finding."""
    done = run("job", case, "victim", "--queue", "active-without-lock")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "victim in bull/active-without-lock (db 0): active"
    assert "nobody is working on it" in " ".join(lines[1:4])
    assert any(line.startswith("  active (list of ") for line in lines)
    assert "Findings" in lines


def test_job_that_is_in_many_queues_asks_which(run: Run, case: Path) -> None:
    """`victim` exists in many queues: exit 2 and the way to choose."""
    done = run("job", case, "victim")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--queue" in done.stderr


def test_job_as_json(run: Run, case: Path) -> None:
    """The picture parses, and holds the payload's first bytes only."""
    told = json.loads(run("job", case, "victim", "--queue", "active-without-lock", "--json").stdout)[0]
    assert told["job"]["state"] == "active"
    assert told["holders"] == []
    assert "active" in {p["structure"] for p in told["places"]}
    assert len(told["job"]["payload"]) <= 200


def test_queues_shows_every_queue(run: Run, case: Path) -> None:
    """As many rows as the fixture has queues with keys; JSON has every column."""
    found = json.loads(run("queues", case, "--json").stdout)
    names = {q["queue"] for q in found}
    library = json.loads((FAULTS / "expect" / "library.json").read_text())["queues"]
    assert {q["queue"] for q in library.values() if q["jobs"]} <= names
    text = run("queues", case).stdout
    assert all(f"bull/{name}"[:12] in text for name in names)


def test_sql_in_every_format(run: Run, case: Path) -> None:
    """One answer, four shapes."""
    query = "select 1 as n, 'a,b' as t, null as x"
    assert json.loads(run("sql", case, query, "--json").stdout) == [{"n": 1, "t": "a,b", "x": None}]
    assert json.loads(run("sql", case, query, "--format", "ndjson").stdout) == {"n": 1, "t": "a,b", "x": None}
    assert run("sql", case, query, "--format", "csv").stdout == 'n,t,x\n1,"a,b",\n'
    assert run("sql", case, query).stdout.splitlines()[0].split() == ["n", "t", "x"]


def test_explain_lists_and_tells(run: Run) -> None:
    """Every check is listed; one of them is told with all its sections, in text and JSON."""
    listed = json.loads(run("explain", "--json").stdout)
    one = listed[0]["id"]
    table = run("explain").stdout
    assert all(c["id"] in table for c in listed)
    told = run("explain", one.lower()).stdout
    for heading in ("What it finds", "Why it matters", "What to do next", "False alarms", "SQL"):
        assert heading in told.splitlines()


def test_cat_writes_every_key_of_the_server(run: Run, tmp_path: Path) -> None:
    """The server's own keys, one line each between header and end line; --out makes the same bytes."""
    evidence = FAULTS / "evidence.rdb"
    lines = run("cat", evidence).stdout.splitlines()
    raw = json.loads((FAULTS / "expect" / "raw.json").read_text())["keys"]
    head, end = json.loads(lines[0]), json.loads(lines[-1])
    assert (head["format"], head["version"], head["atomic"]) == ("jobsleuth-keyspace", 1, True)
    assert end == {"end": True, "keys": len(lines) - 2}
    assert {json.dumps(k["key"]) for k in raw} <= {json.dumps(json.loads(line)["key"]) for line in lines[1:-1]}
    out = tmp_path / "keys.ndjson"
    done = run("cat", evidence, "--out", out)
    assert (done.returncode, done.stdout) == (0, "")
    assert out.read_text().splitlines() == lines


def test_verify_finds_a_changed_file(run: Run, case: Path, tmp_path: Path) -> None:
    """Exit 0 while nothing changed, exit 1 and the file's name after one byte did."""
    assert run("verify", case).returncode == 0
    out = tmp_path / "case"
    assert run("analyze", FAULTS / "evidence.rdb", "--out", out, "-q").returncode == 0
    file = next((out / "jobs").glob("*.parquet"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    done = run("verify", out)
    assert done.returncode == 1
    assert f"jobs/{file.name}" in done.stdout


def test_verify_of_a_case_whose_evidence_was_moved(run: Run, tmp_path: Path) -> None:
    """Put away, the evidence is no difference: exit 0, its hash is told, and --require-evidence exits 1. With other
    bytes at its path it is one. The hash of the manifest is what any tool gives."""
    dump = tmp_path / "dump.rdb"
    dump.write_bytes((FAULTS / "evidence.rdb").read_bytes())
    known = hashlib.sha256(dump.read_bytes()).hexdigest()
    assert run("analyze", "dump.rdb", "--out", "case", "-q", cwd=tmp_path).returncode == 0
    assert run("verify", "case", "--require-evidence", cwd=tmp_path).returncode == 0
    dump.rename(tmp_path / "safe.rdb")
    done = run("verify", "case", cwd=tmp_path)
    assert done.returncode == 0
    assert "0 of the evidence have" in done.stdout
    assert f"evidence 0: dump.rdb: not found at its path, not compared; its SHA-256 was {known}" in done.stdout
    told = json.loads(run("verify", "case", "--json", cwd=tmp_path).stdout)
    assert (told["differences"], len(told["not_compared"]), told["evidence"]) == ([], 1, 0)
    assert told["manifest_sha256"] == hashlib.sha256((tmp_path / "case" / "manifest.json").read_bytes()).hexdigest()
    assert run("verify", "case", "--require-evidence", cwd=tmp_path).returncode == 1
    dump.write_bytes(b"something else")
    done = run("verify", "case", cwd=tmp_path)
    assert done.returncode == 1
    assert "evidence 0: dump.rdb: 14 bytes, the manifest says" in done.stdout


def test_analyze_options_are_kept(run: Run, tmp_path: Path) -> None:
    """--payload none stores no payload but its size; --as-of moves the time that leases are judged by."""
    out = tmp_path / "case"
    words = ("--payload", "none", "--as-of", "2100-01-01T00:00:00+01:00", "--json")
    report = json.loads(run("analyze", FAULTS / "evidence.rdb", "--out", out, *words).stdout)
    assert report["evidence"][0]["as_of"] == "2099-12-31T23:00:00.000Z"
    assert report["evidence"][0]["as_of_source"] == "option"
    query = "select coalesce(sum(octet_length(payload)), 0) as kept, sum(payload_bytes) as whole from jobs"
    kept = json.loads(run("sql", out, query, "--json").stdout)[0]
    assert int(kept["kept"]) == 0
    assert int(kept["whole"]) > 0


def test_nothing_is_written_beside_the_evidence(run: Run, tmp_path: Path) -> None:
    """A read-only folder of evidence stays as it was, down to the times."""
    folder = tmp_path / "evidence"
    folder.mkdir()
    dump = folder / "dump.rdb"
    dump.write_bytes((FAULTS / "evidence.rdb").read_bytes())
    before = (dump.stat().st_mtime_ns, folder.stat().st_mtime_ns)
    assert run("analyze", dump, "--out", tmp_path / "case", "-q").returncode == 0
    assert (dump.stat().st_mtime_ns, folder.stat().st_mtime_ns) == before


def test_no_socket_is_opened(tmp_path: Path) -> None:
    """analyze, check, sql and verify work in a process whose every attempt at a socket fails."""
    forbidden = (
        "import socket, sys\n"
        "def no(*a, **k): raise RuntimeError('a socket was opened')\n"
        "class Forbidden(socket.socket):\n"
        "    __init__ = no\n"
        "socket.socket = Forbidden\n"
        "socket.create_connection = socket.getaddrinfo = no\n"
        "from jobsleuth.cli.main import main\n"
        "sys.exit(main())\n"
    )
    for words in (
        ["analyze", str(FAULTS / "evidence.rdb"), "--out", "case", "-q"],
        ["check", "case", "--fail-on", "never"],
        ["sql", "case", "select count(*) from jobs"],
        ["verify", "case"],
    ):
        done = subprocess.run(
            [sys.executable, "-c", forbidden, *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("statement", ["import jobsleuth", "import jobsleuth.cli.main"])
def test_importing_is_light(statement: str) -> None:
    """Neither the package nor the command line loads Arrow, DuckDB or pandas before they are needed."""
    heavy = "{'pyarrow', 'duckdb', 'pandas', 'numpy', 'google.protobuf'}"
    code = f"import sys\n{statement}\nprint(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_version_is_quick(run: Run) -> None:
    """`--version` answers well under a second; the best of three runs, since a busy machine is no fault of ours."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        done = run("--version")
        times.append(time.perf_counter() - start)
    assert done.stdout == f"jobsleuth {importlib.import_module('jobsleuth').__version__}\n"
    assert min(times) < 0.5


def test_a_closed_pipe_is_quiet(case: Path) -> None:
    """`jobsleuth cat … | head -n 1`: no complaint on standard error."""
    shell = f"{sys.executable} -m jobsleuth cat {FAULTS / 'evidence.rdb'} | head -c 10 >/dev/null"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    shell = f"{sys.executable} -m jobsleuth jobs {case} --format ndjson | head -n 1 >/dev/null"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_times_are_written_the_same_by_every_command(run: Run, tmp_path: Path) -> None:
    """In JSON a time is ISO 8601 in UTC with milliseconds, of one job as of many; a member called `…_ms` is a number.
    The moment of a BullMQ event is the first part of its id in the stream."""
    source = FIXTURES / "aof" / "bullmq-v5-vanished" / "appendonlydir"
    assert run("analyze", source, "--out", "case", "-q", cwd=tmp_path).returncode == 0
    iso = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

    def told(*words: str) -> Any:
        return json.loads(run(*words, "--json", cwd=tmp_path).stdout)

    (one,) = told("job", "case", "deleted-by-hand")
    (moves,) = told("timeline", "case", "deleted-by-hand")
    (listed,) = (j for j in told("jobs", "case") if j["job_id"] == "deleted-by-hand")
    assert one["job"]["started_at"] == listed["started_at"] and iso.fullmatch(listed["started_at"])
    times = [e["at"] for e in one["events"]] + [h["valid_until"] for h in one["holders"]]
    times += [s["at"] for s in (*moves["steps"], *moves["removals"])]
    assert len(times) == 13 and all(iso.fullmatch(t) for t in times)
    assert isinstance(one["as_of_ms"], int)
    events = told("sql", "case", "select \"at\", stream_id from events where job_id = 'deleted-by-hand' order by all")
    for event, row in zip(one["events"], events, strict=True):
        ms = int(row["stream_id"].partition("-")[0])
        assert (
            event["at"]
            == row["at"]
            == datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
        )


def test_terminal_output_fits_and_obeys_no_color(case: Path) -> None:
    """On a terminal of 80 columns no line is longer; colours are there, and gone with NO_COLOR."""
    coloured = on_terminal(["queues", str(case)])
    assert "\x1b[" in coloured
    plain = on_terminal(["queues", str(case)], NO_COLOR="1")
    assert "\x1b[3" not in plain
    for words in (["jobs", str(case)], ["check", str(case)], ["queues", str(case)]):
        text = on_terminal(words, NO_COLOR="1", TERM="dumb")
        # A command to copy is never folded.
        assert [
            line for line in text.splitlines() if len(line) > 80 and not line.lstrip().startswith("jobsleuth ")
        ] == []


def test_interruption_leaves_nothing(tmp_path: Path) -> None:
    """SIGINT and SIGTERM in the middle of a run: its own exit code, no half-built case."""
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        slow = (
            "import signal, sys, time\n"
            # What a shell starts in the background ignores SIGINT, and so would everything that it starts.
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "import jobsleuth.pipeline\n"
            "def wait(*a, **k):\n"
            "    print('here', flush=True)\n"
            "    time.sleep(60)\n"
            "sys.modules['jobsleuth.pipeline.analyze'].run_checks = wait\n"
            "from jobsleuth.cli.main import run\n"
            "run()\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", slow, "analyze", str(FAULTS / "evidence.rdb"), "--out", "case"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == code
        assert "Traceback" not in errors
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dump", ["bullmq/v5-hostile", "asynq/faults-0.26.0"])
def test_a_hostile_dump_prints_no_control_character(run: Run, tmp_path: Path, dump: str) -> None:
    """Names with escapes, markup and formulas, from a real dump, through every command to a screen or a file."""
    evidence = FIXTURES / dump / "evidence.rdb"
    assert run("analyze", evidence, "--out", "case", cwd=tmp_path).returncode == 0
    for words in (
        ["check", "case", "--all"],
        *(["check", "case", "--format", fmt] for fmt in ("json", "sarif", "junit", "github", "markdown")),
        ["queues", "case"],
        ["jobs", "case", "--limit", "1000"],
        *(["jobs", "case", "--format", fmt] for fmt in ("csv", "ndjson", "json")),
        ["sql", "case", "from keys"],
        ["sql", "case", "from membership", "--format", "csv"],
    ):
        done = run(*words, cwd=tmp_path)
        assert done.returncode in (0, 1)
        shown = done.stdout + done.stderr
        assert [c for c in shown if unicodedata.category(c) in ("Cc", "Cf") and c != "\n"] == []
