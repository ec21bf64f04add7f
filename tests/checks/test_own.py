"""Own checks: what a file of them may hold, what is refused, and the commands that take one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jobsleuth import api
from jobsleuth.checks import OwnCheck, Policy, load_checks, load_policy, run_checks
from jobsleuth.errors import CheckError, JobsleuthError, UsageError
from tests.tables import build, rows_of

ROOT = Path(__file__).parents[2]
DUMP = ROOT / "fixtures" / "bullmq" / "v5-crash-locks-expired" / "evidence.rdb"
GOOD = '''
from jobsleuth import Check

class LongName(Check):
    """A job's name is long.

    Ours are short.
    """
    id = "ZZ002"
    severity = "error"
    sql = "select *, length(name) as _length from jobs where length(name) > 3"
    message = "Job {job_id} is called {name}"

class AnyHTTPJob(Check):
    id = "ZZ001"
    sql = "select 1 as n where false"
    message = "nothing"
'''


def file_of(folder: Path, text: str, name: str = "mine.py") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_what_is_not_said_is_filled_in(tmp_path: Path) -> None:
    """Name from the class, title from the docstring, texts from it; sorted by id."""
    first, second = load_checks(file_of(tmp_path, GOOD))
    assert (first.id, first.name, first.title) == ("ZZ001", "any-http-job", "Any HTTP Job")
    assert (second.id, second.name, second.title, second.severity) == (
        "ZZ002",
        "long-name",
        "A job's name is long",
        "error",
    )
    assert second.texts() == {"What it finds": "A job's name is long.\n\nOurs are short."}


def test_a_base_of_ones_own_is_no_check(tmp_path: Path) -> None:
    """What several checks share stands in a class of its own, which has no id."""
    text = GOOD.replace("class LongName(Check)", "class Ours(Check):\n    severity = 'info'\n\nclass LongName(Ours)")
    assert [c.id for c in load_checks(file_of(tmp_path, text))] == ["ZZ001", "ZZ002"]


def test_a_file_leaves_nothing_behind(tmp_path: Path) -> None:
    """No compiled file beside the user's, no module that another file would find."""
    load_checks(file_of(tmp_path, GOOD))
    assert [p.name for p in tmp_path.iterdir()] == ["mine.py"]
    assert "jobsleuth_own_checks" not in sys.modules


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no check in it"),
        ("x = (", "mine.py, line 1: the checks cannot be loaded: SyntaxError"),
        ("\nimport nowhere_to_be_found", "mine.py, line 2: the checks cannot be loaded: ModuleNotFoundError"),
        ("raise SystemExit(0)", "mine.py, line 1: the checks cannot be loaded: SystemExit"),
        ("raise ValueError('\\x1b[2J')", "cannot be loaded"),
        (GOOD.replace('"ZZ001"', '"MB001"'), "MB001 is an id of jobsleuth's own family membership"),
        (GOOD.replace('"ZZ001"', '"ZZ002"'), "the check ZZ002 exists already"),
        (GOOD.replace('"ZZ001"', '"zz1"'), "zz1 is no id"),
        (GOOD.replace('    id = "ZZ001"\n', ""), "has no id"),
        (GOOD.replace('    sql = "select 1 as n where false"\n', ""), "has no sql"),
        (GOOD.replace('"error"', '"fatal"'), "fatal is no severity"),
        (GOOD.replace("AnyHTTPJob", "IdInTwoStructures"), "the check id-in-two-structures exists already"),
    ],
)
def test_what_is_wrong_is_one_harmless_line_with_the_file(tmp_path: Path, text: str, why: str) -> None:
    """Each error names the file, with the line where Python knows it; nothing acts on the terminal."""
    with pytest.raises(CheckError) as failed:
        load_checks(file_of(tmp_path, text))
    told = str(failed.value)
    assert why in told and "mine.py" in told
    assert not {"\n", "\x1b"} & set(told)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """It is named, with the system's reason."""
    with pytest.raises(CheckError, match=r"nothing\.py: the checks cannot be read: No such file"):
        load_checks(tmp_path / "nothing.py")


def test_a_query_that_fails_is_told(tmp_path: Path) -> None:
    """As with every check: it could not run, with DuckDB's reason; the others run."""
    text = GOOD.replace("from jobs where", "from jbos where")
    case = build(tmp_path / "case", {"jobs": rows_of("jobs", [{"job_id": "1", "name": "welcome"}])})
    run = run_checks(case, checks=load_checks(file_of(tmp_path, text)))
    status = {row["check_id"]: (row["status"], row["reason"]) for row in run.checks.to_pylist()}
    assert status["ZZ001"][0] == "ran"
    assert status["ZZ002"][0] == "could_not_run" and "jbos" in status["ZZ002"][1]


def test_own_checks_have_sections_if_they_want(tmp_path: Path) -> None:
    """A docstring with one of the sections needs them all, as the others do."""

    class Half(OwnCheck):
        """What it finds
        Nothing.
        """

        id = "ZZ009"

    with pytest.raises(CheckError, match="needs the sections"):
        Half.texts()


def test_a_policy_may_name_them(tmp_path: Path) -> None:
    """Severity, parameters and switching off work as for the others; without the file their ids are unknown."""
    text = GOOD.replace("> 3", "> $least").replace('    severity = "error"\n', '    parameters = {"least": 3}\n')
    own = load_checks(file_of(tmp_path, text))
    policy = tmp_path / "jobsleuth.toml"
    policy.write_text('[severity]\nlong-name = "info"\n[parameters]\nleast = 6\n[checks]\ndisable = ["ZZ001"]\n')
    case = build(
        tmp_path / "case", {"jobs": rows_of("jobs", [{"job_id": n, "name": n} for n in ("report", "welcome")])}
    )
    run = run_checks(case, load_policy(policy, own), own)
    assert run.findings.select(["job_id", "severity"]).to_pylist() == [{"job_id": "welcome", "severity": "info"}]
    assert {r["check_id"]: r["status"] for r in run.checks.to_pylist()} == {"ZZ001": "off", "ZZ002": "ran"}
    with pytest.raises(UsageError, match="no check"):
        load_policy(policy)
    with pytest.raises(JobsleuthError):
        run_checks(case, Policy(off=frozenset({"ZZ001"})))


def jobsleuth(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-m", "jobsleuth", *words]
    return subprocess.run(run, cwd=cwd, capture_output=True, text=True, check=False)


def test_the_commands_take_a_file(tmp_path: Path) -> None:
    """`analyze`, `check`, `baseline` and `explain` with --checks; exit codes follow the own findings."""
    file_of(tmp_path, GOOD)
    own = ("--checks", "mine.py")
    assert (
        jobsleuth("analyze", str(DUMP), "--out", "case", "-q", *own, "--fail-on", "error", cwd=tmp_path).returncode == 1
    )
    told = json.loads(
        jobsleuth(
            "sql", "case", "select count(*) as n from findings where check_id = 'ZZ002'", "--json", cwd=tmp_path
        ).stdout
    )
    names = json.loads(
        jobsleuth("sql", "case", "select count(*) as n from jobs where length(name) > 3", "--json", cwd=tmp_path).stdout
    )
    assert told == names != [{"n": 0}]
    assert jobsleuth("check", "case", cwd=tmp_path).returncode == 0
    judged = jobsleuth("check", "case", *own, cwd=tmp_path)
    assert (judged.returncode, judged.stderr) == (1, "")
    assert "ZZ002 A job's name is long" in judged.stdout
    for fmt in ("json", "junit", "sarif", "github", "markdown"):
        assert "ZZ002" in jobsleuth("check", "case", *own, "--format", fmt, cwd=tmp_path).stdout
    assert jobsleuth("baseline", "case", *own, "--out", "known.json", cwd=tmp_path).returncode == 0
    assert jobsleuth("check", "case", *own, "--baseline", "known.json", cwd=tmp_path).returncode == 0
    explained = jobsleuth("explain", "zz002", *own, cwd=tmp_path)
    assert explained.stdout.startswith("ZZ002 A job's name is long")
    unknown = jobsleuth("explain", "ZZ002", cwd=tmp_path)
    assert unknown.returncode == 2 and "--checks" in unknown.stderr
    broken = jobsleuth("check", "case", "--checks", "nothing.py", cwd=tmp_path)
    assert (broken.returncode, broken.stdout) == (2, "")
    assert "nothing.py" in broken.stderr and "Traceback" not in broken.stderr


def test_no_file_in_the_folder_is_run_unasked(tmp_path: Path) -> None:
    """Opening a case in a folder must not run what lies there: only the command line names files of checks."""
    (tmp_path / "jobsleuth.toml").write_text('[checks]\nfiles = ["mine.py"]\n')
    file_of(tmp_path, "raise SystemExit(9)")
    build(tmp_path / "case", {})
    done = jobsleuth("check", "case", cwd=tmp_path)
    assert done.returncode == 2 and "files" in done.stderr


BROKEN = GOOD.replace("from jobs where", "from jbos where")


def test_an_own_check_that_could_not_run_is_no_success(tmp_path: Path) -> None:
    """Its silence is not a clean bill: after the report, `check` says so on standard error and exits with 2, quiet or
    not; `baseline` writes nothing; `analyze` makes the case first. Others that ran are judged as ever."""
    file_of(tmp_path, BROKEN)
    own = ("--checks", "mine.py")
    made = jobsleuth("analyze", str(DUMP), "--out", "case", "-q", *own, cwd=tmp_path)
    assert made.returncode == 2 and (tmp_path / "case" / "manifest.json").exists()
    judged = jobsleuth("check", "case", *own, "--fail-on", "never", cwd=tmp_path)
    assert judged.returncode == 2 and "ZZ002 could not run" in judged.stdout
    quiet = jobsleuth("check", "case", *own, "--fail-on", "never", "--quiet", cwd=tmp_path)
    assert (quiet.returncode, quiet.stdout) == (2, "")
    for run in (made, judged, quiet):
        told, hint = run.stderr.splitlines()
        assert told.startswith("jobsleuth: ZZ002 could not run: its query failed: ") and "jbos" in told
        assert "mend the check" in hint.lower()
    junit = jobsleuth("check", "case", *own, "--format", "junit", cwd=tmp_path)
    assert junit.returncode == 2 and "skipped" in junit.stdout
    known = jobsleuth("baseline", "case", *own, "--out", "known.json", cwd=tmp_path)
    assert known.returncode == 2 and not (tmp_path / "known.json").exists()
    assert jobsleuth("check", "case", cwd=tmp_path).returncode == 0


def test_from_python_a_silent_check_is_a_row_and_no_error(tmp_path: Path) -> None:
    """As the description of the API says: nothing is raised, the row of the check has status and reason."""
    mine = file_of(tmp_path, BROKEN)
    case = api.analyze(DUMP, tmp_path / "case", checks=mine)
    judged = api.check(case, checks=mine)
    for table in (case.arrow("checks"), judged.checks):
        row = next(r for r in table.to_pylist() if r["check_id"] == "ZZ002")
        assert (row["status"], row["findings"]) == ("could_not_run", 0) and "jbos" in row["reason"]
    for told in (api.analyze.__doc__, api.check.__doc__, api.CheckRun.__doc__):
        assert "could not run" in str(told) and "`status`" in str(told)


def test_an_own_check_has_no_page(tmp_path: Path) -> None:
    """In JSON its address is null, whether the case was made with it or only judged with it now; others have theirs."""
    file_of(tmp_path, GOOD)
    jobsleuth("analyze", str(DUMP), "--out", "without", "-q", cwd=tmp_path)
    jobsleuth("analyze", str(DUMP), "--out", "with", "-q", "--checks", "mine.py", cwd=tmp_path)
    for words in (("check", "without", "--checks", "mine.py"), ("report", "with")):
        told = json.loads(jobsleuth(*words, "--json", cwd=tmp_path).stdout)
        pages = {check["id"]: check["help_url"] for check in told["checks"]}
        assert pages.pop("ZZ001") is pages.pop("ZZ002") is None
        assert all((ROOT / page).is_file() for page in pages.values()) and len(pages) > 100


def test_the_command_offered_for_an_own_check_asks_for_its_file(tmp_path: Path) -> None:
    """`explain` knows an own check only with its file: the line of the summary that names it says so."""
    file_of(tmp_path, GOOD)
    jobsleuth("analyze", str(DUMP), "--out", "case", "-q", cwd=tmp_path)
    (tmp_path / "only.toml").write_text('[[queue]]\nname = "*"\ndisable = ["LV002", "LV003"]\n')
    words = ("check", "case", "--checks", "mine.py", "--config", "only.toml", "--all")
    offered = re.findall("jobsleuth explain .*", jobsleuth(*words, cwd=tmp_path).stdout)
    assert offered == ["jobsleuth explain ZZ002 --checks FILE"]


def test_an_own_check_that_is_switched_off_is_no_failure(tmp_path: Path) -> None:
    """Nobody waits for the answer of a check that the policy switches off."""
    file_of(tmp_path, BROKEN)
    (tmp_path / "jobsleuth.toml").write_text('[checks]\ndisable = ["ZZ002"]\n')
    build(tmp_path / "case", {})
    assert jobsleuth("check", "case", "--checks", "mine.py", cwd=tmp_path).returncode == 0


def test_own_checks_that_are_left_out_are_named(tmp_path: Path) -> None:
    """The case was judged with two of its user's checks: whoever judges it afresh without them is told, with one of
    them of the other, and with both of none."""
    file_of(tmp_path, GOOD)
    file_of(tmp_path, GOOD.split("class AnyHTTPJob")[0], "one.py")
    assert jobsleuth("analyze", str(DUMP), "--out", "case", "-q", "--checks", "mine.py", cwd=tmp_path).returncode == 0
    lack = "jobsleuth: note: the case was made with own checks that did not run now: {}; --checks FILE brings them\n"
    for command in (("check", "case", "--fail-on", "never"), ("baseline", "case")):
        assert jobsleuth(*command, cwd=tmp_path).stderr == lack.format("ZZ001, ZZ002")
        assert jobsleuth(*command, "--checks", "one.py", cwd=tmp_path).stderr == lack.format("ZZ001")
        assert jobsleuth(*command, "--checks", "mine.py", cwd=tmp_path).stderr == ""
        assert jobsleuth(*command, "--quiet", cwd=tmp_path).stderr == ""


def test_details_are_json_whatever_the_numbers(tmp_path: Path) -> None:
    """Scores may be infinite, and NaN can come of them: JSON has neither, so they are texts there, also within lists;
    texts that only read like them stay, and so does every digit of the other numbers."""
    text = """
from jobsleuth import Check

class Odd(Check):
    id = "ZZ001"
    message = "Score {score}"
    sql = '''
        select queue, job_id, score, -score as less, [score - score] as none_, 'a \\\\":Infinity,' as text,
            12345678901234567890.12345::decimal(38, 5) as exact
        from membership order by job_id
    '''
"""
    rows = rows_of("membership", [{"job_id": "1", "score": float("inf")}, {"job_id": "2", "score": 0.1}])
    case = build(tmp_path / "case", {"membership": rows})
    run = run_checks(case, checks=load_checks(file_of(tmp_path, text)))
    found = run.findings.column("details").to_pylist()

    def no_number(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    first, second = (json.loads(details, parse_constant=no_number, parse_float=str) for details in found)
    same = {"text": 'a \\":Infinity,', "exact": "12345678901234567890.12345"}
    assert first == {"score": "Infinity", "less": "-Infinity", "none_": ["NaN"], **same}
    assert second == {"score": "0.1", "less": "-0.1", "none_": ["0.0"], **same}
