"""Names and texts from the evidence are inert in every format and on every screen."""

from __future__ import annotations

import csv
import io
import json
import unicodedata
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from jobsleuth.case import Case
from jobsleuth.cli.main import main
from jobsleuth.reports import FORMATS, document, render

ALLOWED = {"\n"}


def unsafe(text: str) -> set[str]:
    """Characters that could steer a terminal or hide text."""
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c not in ALLOWED}


@pytest.mark.parametrize("fmt", sorted(FORMATS))
def test_no_report_holds_a_control_character(hostile_case: Case, fmt: str) -> None:
    """Neither ANSI nor bidi controls reach any report."""
    assert unsafe("".join(render(document(hostile_case), fmt))) == set()


def test_workflow_commands_in_names_stay_on_their_line(hostile_case: Case) -> None:
    """A runner obeys `::` at the start of a line only; the planted `::error::` never stands there."""
    lines = "".join(render(document(hostile_case), "github")).splitlines()
    assert [line[:7] for line in lines] == ["::error", "jobsleu"]


def test_markdown_holds_no_live_markup(hostile_case: Case) -> None:
    """No tag, no link, no code span, no table cell that the name opened."""
    text = "".join(render(document(hostile_case), "markdown"))
    assert "<script" not in text
    assert "](javascript" not in text
    for line in text.splitlines():
        if line.startswith("| MB001"):
            assert line.replace("\\|", "").count("|") == 7


def test_junit_parses_and_keeps_the_text(hostile_case: Case) -> None:
    """XML that a parser accepts, with the script tag as text."""
    suites = ET.fromstring("".join(render(document(hostile_case), "junit")))
    failure = next(suites.iter("failure"))
    assert "<script>alert(1)</script>" in (failure.text or "")


@pytest.mark.parametrize("fmt", ["json", "sarif"])
def test_json_keeps_the_name_exactly(hostile_case: Case, fmt: str) -> None:
    """Escaped for the eye, exact for the machine."""
    report = json.loads("".join(render(document(hostile_case), fmt)))
    if fmt == "json":
        assert report["findings"][0]["job_id"].startswith("\x1b[2J")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("queues CASE", 0),
        ("queues CASE --json", 0),
        ("jobs CASE", 0),
        ("jobs CASE --format csv", 0),
        ("jobs CASE --format ndjson", 0),
        ("jobs CASE --json", 0),
        ("jobs CASE --sort -scheduled_at", 0),
        ("job CASE ID", 0),
        ("job CASE ID --json", 0),
        ("sql CASE from|jobs", 0),
        ("sql CASE from|jobs --format csv", 0),
        ("sql CASE from|jobs --json", 0),
        ("sql CASE from|events", 0),
        ("sql CASE from|warnings", 0),
        ("sql CASE from|nothing|where|'ESC[2J'=1", 2),
        ("job CASE ESC[2Jnobody", 2),
        ("jobs CASE --sort ESC[2J", 2),
        ("explain ESC[2J", 2),
        ("check CASE --fail-on never", 0),
        ("check CASE --all --fail-on never", 0),
        ("verify CASE", 0),
        ("verify CASE --require-evidence", 1),
    ],
)
def test_no_command_prints_a_control_character(
    hostile_case: Case,
    words: str,
    code: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever command shows the case, nothing from it reaches the terminal raw, neither as result nor as error."""
    swap = {"CASE": str(hostile_case.path), "ID": hostile_case.jobs["job_id"].iloc[0]}
    arguments = [swap.get(word, word.replace("|", " ").replace("ESC", "\x1b")) for word in words.split()]
    monkeypatch.setattr("sys.argv", ["jobsleuth", *arguments])
    assert main() == code
    out, err = capsys.readouterr()
    assert unsafe(out + err) == set()
    assert "unexpected" not in err


def test_a_spreadsheet_runs_nothing(
    hostile_case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No cell begins as a formula does, also where SQL puts the text in front."""
    query = "select * from (values ('=cmd()'), ('+1'), ('-1'), ('@x'), ('\t=1')) t(\"=col\")"
    monkeypatch.setattr("sys.argv", ["jobsleuth", "sql", str(hostile_case.path), query, "--format", "csv"])
    assert main() == 0
    cells = [cell for row in csv.reader(io.StringIO(capsys.readouterr().out)) for cell in row]
    assert cells[0] == "'=col"
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
