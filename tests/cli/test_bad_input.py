"""Unusable input or output: one line that says what, where and why, exit 2, nothing left behind, never a traceback."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

FAULTS = Path(__file__).parents[2] / "fixtures" / "bullmq" / "v5-faults" / "evidence.rdb"
Run = Callable[..., subprocess.CompletedProcess[str]]


def refused(done: subprocess.CompletedProcess[str], *telling: str) -> None:
    assert done.returncode == 2
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[0].startswith("jobsleuth: ")
    assert 1 <= len(lines) <= 2
    assert "Traceback" not in done.stderr
    assert "unexpected" not in done.stderr
    for word in telling:
        assert word in done.stderr


def limited(what: int, limit: int, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command with that in `folder`, where the system's limit `what` is so low."""
    return subprocess.run(
        [sys.executable, "-m", "jobsleuth", *words], capture_output=True, text=True, cwd=folder, timeout=120,
        check=False, preexec_fn=lambda: resource.setrlimit(what, (limit, limit)),
    )  # fmt: skip


def listing(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*"))


def _not_rdb(data: bytes) -> bytes:
    return b"GIF89a" + data[6:]


def _empty(data: bytes) -> bytes:
    del data
    return b""


def _cut_in_header(data: bytes) -> bytes:
    return data[:7]


def _cut_in_half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _cut_at_end(data: bytes) -> bytes:
    return data[:-4]


def _wrong_checksum(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def _future_version(data: bytes) -> bytes:
    return b"REDIS9999" + data[9:]


@pytest.mark.parametrize(
    ("spoil", "telling"),
    [
        (_not_rdb, "RDB"),
        (_empty, "empty"),
        (_cut_in_header, "byte"),
        (_cut_in_half, "byte"),
        (_cut_at_end, "byte"),
        (_wrong_checksum, "checksum"),
        (_future_version, "9999"),
    ],
)
@pytest.mark.parametrize("command", ["analyze", "cat"])
def test_spoiled_evidence_is_refused(
    run: Run, tmp_path: Path, spoil: Callable[[bytes], bytes], telling: str, command: str
) -> None:
    """Each kind of damage is named with its file; neither a case nor anything hidden beside it remains."""
    dump = tmp_path / "dump.rdb"
    dump.write_bytes(spoil(FAULTS.read_bytes()))
    done = run(command, "dump.rdb", "--out", "result", cwd=tmp_path)
    refused(done, "dump.rdb", telling)
    assert listing(tmp_path) == ["dump.rdb"]


@pytest.mark.parametrize("spoil", [_cut_in_half, _wrong_checksum])
def test_salvage_uses_what_is_left_and_says_so(run: Run, tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    """The refusal offers --salvage, and --salvage makes a case that tells of the damage on its first lines."""
    dump = tmp_path / "dump.rdb"
    dump.write_bytes(spoil(FAULTS.read_bytes()))
    assert "--salvage" in run("analyze", dump, "--out", tmp_path / "case").stderr
    done = run("analyze", dump, "--out", tmp_path / "case", "--salvage")
    assert (done.returncode, done.stderr) == (0, "")
    top = "\n".join(done.stdout.splitlines()[:4])
    assert "salvaged" in top or "mismatch" in top


def test_missing_and_unreadable_evidence(run: Run, tmp_path: Path) -> None:
    """No such file; a folder; a named pipe, which would block for ever."""
    refused(run("analyze", "nothing.rdb", "--out", "case", cwd=tmp_path), "nothing.rdb")
    refused(run("analyze", ".", "--out", "case", cwd=tmp_path))
    os.mkfifo(tmp_path / "pipe")
    refused(run("analyze", "pipe", "--out", "case", cwd=tmp_path), "pipe")
    assert listing(tmp_path) == ["pipe"]


def test_one_bad_file_among_good_ones_spoils_all(run: Run, tmp_path: Path) -> None:
    """A case of several files is whole or not made."""
    (tmp_path / "bad.rdb").write_bytes(b"nothing of the kind")
    refused(run("analyze", FAULTS, "bad.rdb", "--out", "case", cwd=tmp_path), "bad.rdb")
    assert listing(tmp_path) == ["bad.rdb"]


def test_an_existing_case_needs_force(run: Run, case: Path, tmp_path: Path) -> None:
    """A second run without --force is refused and changes nothing; with --force it replaces the case."""
    out = tmp_path / "case"
    assert run("analyze", FAULTS, "--out", out, "--quiet").returncode == 0
    before = {name: (out / name).stat().st_mtime_ns for name in listing(out)}
    refused(run("analyze", FAULTS, "--out", out), "--force")
    assert {name: (out / name).stat().st_mtime_ns for name in listing(out)} == before
    assert run("analyze", FAULTS, "--out", out, "--force", "--quiet").returncode == 0
    assert (out / "manifest.json").read_bytes() == (case / "manifest.json").read_bytes()


def test_force_replaces_nothing_but_a_case(run: Run, tmp_path: Path) -> None:
    """--force on a folder that is no case is refused: it may be somebody's home."""
    precious = tmp_path / "out" / "precious.txt"
    precious.parent.mkdir()
    precious.write_text("mine")
    refused(run("analyze", FAULTS, "--out", tmp_path / "out", "--force"))
    assert precious.read_text() == "mine"
    assert listing(tmp_path) == ["out", "out/precious.txt"]


def test_unwritable_output(run: Run, tmp_path: Path) -> None:
    """A file where a folder is needed; a place below a file."""
    (tmp_path / "file").write_text("x")
    refused(run("analyze", FAULTS, "--out", tmp_path / "file"), "file")
    refused(run("analyze", FAULTS, "--out", tmp_path / "file" / "case"), "file")
    refused(run("analyze", FAULTS, "--out", "/proc/jobsleuth/case"), "/proc/jobsleuth")
    assert listing(tmp_path) == ["file"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here: NO full disk was tried")
@pytest.mark.parametrize(
    "words",
    [
        ("check", "--format", "github", "--fail-on", "never"),
        ("check", "--format", "json"),
        ("check",),
        ("queues",),
        ("jobs", "--format", "csv", "--limit", "1"),
        ("export", "--failed"),
        ("verify",),
    ],
)
def test_a_full_disk_behind_standard_output(case: Path, words: tuple[str, ...]) -> None:
    """The kernel's own full device: one line that says what could not be written and why, exit 2 whatever was found."""
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "jobsleuth", words[0], str(case), *words[1:]]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    assert done.returncode == 2
    first, *hint = done.stderr.splitlines()
    assert first == "jobsleuth: standard output cannot be written: No space left on device"
    assert len(hint) <= 1


@pytest.mark.parametrize("limit", [2_000, 12_000, 40_000])
def test_a_file_that_cannot_grow(tmp_path: Path, limit: int) -> None:
    """The kernel lets no file grow beyond the limit, so that tables, page or manifest cannot be written: one line that
    names the case, and nothing is left, neither the case nor the hidden folder it was made in."""
    done = limited(resource.RLIMIT_FSIZE, limit, tmp_path, "analyze", str(FAULTS), "--out", "case")
    refused(done, "case: cannot write the case: File too large")
    assert listing(tmp_path) == []


@pytest.mark.parametrize("limit", [10, 14])
def test_too_few_open_files(tmp_path: Path, limit: int) -> None:
    """Whichever library meets the limit, it is the system's and no fault of jobsleuth's, and nothing is left behind."""
    done = limited(resource.RLIMIT_NOFILE, limit, tmp_path, "analyze", str(FAULTS), "--out", "case", "--quiet")
    refused(done, "open files")
    assert listing(tmp_path) == []


def test_an_output_file_that_cannot_grow(case: Path, tmp_path: Path) -> None:
    """The file that could not be written is named as the user named it, and is not there."""
    words = ("sql", str(case), "from jobs", "--format", "csv", "--out")
    done = limited(resource.RLIMIT_FSIZE, 4096, tmp_path, *words, "jobs.csv")
    refused(done, "jobsleuth: jobs.csv: cannot be written: File too large")
    done = limited(resource.RLIMIT_FSIZE, 4096, tmp_path, *words, "nowhere/jobs.csv")
    refused(done, "jobsleuth: nowhere/jobs.csv: cannot be written: No such file or directory")
    assert listing(tmp_path) == []


@pytest.mark.parametrize("more", [(), ("--force",)])
@pytest.mark.parametrize(
    ("name", "what"),
    [("null", "a device"), ("pipe", "a device"), ("folder", "a folder"), ("gone", "a link to nothing")],
)
def test_only_a_file_is_replaced(
    run: Run, case: Path, tmp_path: Path, name: str, what: str, more: tuple[str, ...]
) -> None:
    """A device (through a link, so that nothing breaks if it goes wrong), a named pipe, a folder and a link to nothing
    are refused, also with --force, and are what they were."""
    (tmp_path / "null").symlink_to("/dev/null")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    before = {p.name: p.lstat().st_ino for p in tmp_path.iterdir()}
    refused(run("sql", case, "select 1", "--format", "csv", "--out", tmp_path / name, *more), f"the output is {what}")
    assert {p.name: p.lstat().st_ino for p in tmp_path.iterdir()} == before


def test_a_link_to_a_file_stays_a_link(run: Run, case: Path, tmp_path: Path) -> None:
    """With --force the file that the link leads to is replaced."""
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    words = ("sql", case, "select 1 as n", "--format", "csv", "--out", tmp_path / "link")
    refused(run(*words), "the output exists")
    assert run(*words, "--force").returncode == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "n\n1\n"


@pytest.mark.parametrize("more", [(), ("--force",)])
def test_a_link_to_nothing_is_no_place_for_a_case(run: Run, tmp_path: Path, more: tuple[str, ...]) -> None:
    """A link that leads nowhere is refused, and nothing appears where it leads."""
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    refused(run("analyze", FAULTS, "--out", tmp_path / "link", *more), "link", "elsewhere")
    assert listing(tmp_path) == ["link"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere, so a read-only folder stops nobody")
def test_read_only_folder(run: Run, tmp_path: Path) -> None:
    """A folder without write permission is named."""
    tmp_path.chmod(0o500)
    refused(run("analyze", FAULTS, "--out", tmp_path / "case"), "case")


@pytest.mark.parametrize(
    "words",
    [
        ("--payload", "half"),
        ("--payload", "head:-1"),
        ("--as-of", "yesterday"),
        ("--as-of", "2026-03-02T02:14:07"),
    ],
)
def test_bad_values_of_options(run: Run, tmp_path: Path, words: tuple[str, str]) -> None:
    """An option's nonsense is refused before anything is read."""
    refused(run("analyze", FAULTS, "--out", tmp_path / "case", *words), words[0])


@pytest.mark.parametrize("command", ["check", "queues", "jobs", "verify", "job", "sql"])
def test_no_case_there(run: Run, tmp_path: Path, command: str) -> None:
    """Every reading command names the folder that is no case."""
    more = {"job": ["1"], "sql": ["select 1"]}.get(command, [])
    refused(run(command, tmp_path / "nowhere", *more), "nowhere")


@pytest.mark.parametrize(
    "spoilt", ["", "{", "[]", '{"tool": "jobsleuth"}', '{"tool": "jobsleuth", "schema_version": 99}']
)
def test_a_broken_manifest(run: Run, tmp_path: Path, spoilt: str) -> None:
    """A manifest that is none, or a newer one's, is said to be so."""
    (tmp_path / "manifest.json").write_text(spoilt)
    refused(run("queues", tmp_path), "manifest")


@pytest.mark.parametrize(
    "query",
    ["select nonsense", "selec 1", "", "copy jobs to 'x.csv'", "from read_csv('/etc/passwd')", "select 1; select 2"],
)
def test_bad_sql(run: Run, case: Path, tmp_path: Path, query: str) -> None:
    """Bad SQL, writing SQL and SQL that reaches for other files are refused in one line."""
    refused(run("sql", case, query, cwd=tmp_path))
    assert listing(tmp_path) == []


def test_unknown_names(run: Run, case: Path) -> None:
    """A job, a check, a column that there is not."""
    refused(run("job", case, "no-such-job"), "no-such-job")
    refused(run("explain", "ZZ999"), "ZZ999")
    refused(run("jobs", case, "--sort", "nonsense"), "nonsense")


@pytest.mark.parametrize(
    "words", [("bogus",), ("jobs",), ("jobs", "case", "--bogus"), ("check", "x", "--format", "pdf")]
)
def test_usage_errors_exit_2(run: Run, words: tuple[str, ...]) -> None:
    """Unknown commands, missing arguments, unknown options and values."""
    done = run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
