"""Manifests that somebody edited: each place of a real one takes each kind of wrong value, and no reader stumbles."""

from __future__ import annotations

import copy
import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobsleuth.case import Redactor, open_case
from jobsleuth.checks import load_checks
from jobsleuth.errors import CaseError
from jobsleuth.pipeline import AnalyzeOptions, analyze
from jobsleuth.reports import document, lines, render

FIXTURES = Path(__file__).parents[2] / "fixtures"
OWN = """from jobsleuth import Check

class Never(Check):
    id = "ZZ001"
    sql = "select 1 as n where false"
    message = "nothing"
"""
WRONG: tuple[Any, ...] = (None, True, -1, 7, 1.5, 1 << 70, float("inf"), "x", "a\0b", "\ud800", [], [[1]], {}, {"x": 1})
VERIFIED = ("files", "tables", "evidence.0.parts", "evidence.1.parts")
"""What is said of these is compared by `verify`, whatever it is."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A case with as much in its manifest as can be: compressed evidence that was cut, an append-only folder of two
    files, own checks, a limit and redaction."""
    folder = tmp_path_factory.mktemp("damaged")
    whole = (FIXTURES / "bullmq" / "v5-crash-locks-expired" / "evidence.rdb").read_bytes()
    cut = folder / "cut.rdb.gz"
    cut.write_bytes(gzip.compress(whole[:-300], mtime=0))
    (folder / "own.py").write_text(OWN)
    options = AnalyzeOptions(
        salvage=True,
        payload_limit=8,
        prefixes=("bull",),
        checks=tuple(load_checks(folder / "own.py")),
        redactor=Redactor(b"0123456789abcdef"),
    )
    aof = FIXTURES / "aof" / "bullmq-v5-vanished" / "appendonlydir"
    analyze([cut, aof], folder / "case", options)
    manifest = json.loads((folder / "case" / "manifest.json").read_text())
    manifest["options"]["accepted_findings"] = 3
    # As the core tells them of a file that has both; the places differ, the shape does not.
    manifest["evidence"][0]["functions"] = [{"name": "lib", "engine": "lua", "size": 74}]
    manifest["evidence"][0]["modules"] = [{"name": "vectorset", "version": 0, "keys": 3}]
    facts = manifest["evidence"]
    assert facts[0]["fault"] and facts[0]["inner"] and facts[0]["databases"] and facts[1]["parts"]
    assert any(info["warnings"] for info in facts)
    return folder / "case", manifest


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a JSON value, containers included; of the many files one stands for all."""
    yield at
    if isinstance(value, dict):
        for member in list(value)[:1] if at == ("files",) else value:
            yield from places(value[member], (*at, member))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from places(item, (*at, number))


def put(manifest: dict[str, Any], at: tuple[Any, ...], value: Any) -> None:
    """Another value in one place."""
    inner: Any = manifest
    for step in at[:-1]:
        inner = inner[step]
    inner[at[-1]] = value


def altered(manifest: dict[str, Any], at: tuple[Any, ...], wrong: Any) -> Any:
    """The manifest with another value in one place."""
    if not at:
        return wrong
    made = copy.deepcopy(manifest)
    put(made, at, wrong)
    return made


def read(case: Path) -> None:
    """What commands do with a manifest: its tables in SQL, redacted; a report, the verdict of `verify`."""
    open_case(case, redact=Redactor(b"0123456789abcdef")).connect().close()
    opened = open_case(case)
    opened.arrow("queues")
    told = document(opened)
    assert list(lines(told, width=80)) and "".join(render(told, "json"))


def test_every_place_of_a_manifest_takes_every_wrong_value(made: tuple[Path, dict[str, Any]]) -> None:
    """Either the error is one line that names the file, or the case opens and can be read, for what nobody relies on.

    14 values in each place, those of whole objects and lists among them; then all that was accepted at once."""
    case, manifest = made
    file = case / "manifest.json"
    taken: dict[tuple[Any, ...], list[Any]] = {}
    refused = 0
    for at in places(manifest):
        for wrong in WRONG:
            file.write_text(json.dumps(altered(manifest, at, wrong)))
            try:
                open_case(case)
            except CaseError as error:
                refused += 1
                assert error.file == str(file)
                assert "\n" not in str(error) and str(error).isprintable()
            else:
                taken.setdefault(at, []).append(wrong)
    assert refused > 1000
    for nth in range(len(WRONG)):
        odd = copy.deepcopy(manifest)
        for at, accepted in reversed(taken.items()):  # what is inside first: what is around it then goes with it
            # Two with one number are refused, and told so.
            if nth < len(accepted) and accepted[nth] not in ([], {}) and at[-1] != "number":
                put(odd, at, accepted[nth])
        file.write_text(json.dumps(odd))
        read(case)


def test_every_member_of_a_manifest_may_be_missing(made: tuple[Path, dict[str, Any]]) -> None:
    """Old cases lack what is new: the case opens and can be read, without all of it at once too, or the error names the
    file."""
    case, manifest = made
    file = case / "manifest.json"
    least = copy.deepcopy(manifest)
    for at in reversed(list(places(manifest))):
        if not at or isinstance(at[-1], int):
            continue
        lacking = copy.deepcopy(manifest)
        for whole in (lacking, least):
            inner: Any = whole
            for step in at[:-1]:
                inner = inner[step]
            kept = inner.pop(at[-1])
        file.write_text(json.dumps(lacking))
        try:
            open_case(case)
        except CaseError as error:
            assert error.file == str(file)
            inner[at[-1]] = kept
    file.write_text(json.dumps(least))
    read(case)


def test_verify_survives_what_it_compares(made: tuple[Path, dict[str, Any]]) -> None:
    """Whatever a manifest says of files, tables and parts, `verify` ends with differences, or the case is refused."""
    case, manifest = made
    file = case / "manifest.json"
    for at in places(manifest):
        if at and ".".join(map(str, at)).startswith(VERIFIED):
            for wrong in WRONG:
                file.write_text(json.dumps(altered(manifest, at, wrong)))
                try:
                    found = open_case(case).verification()
                except CaseError as error:
                    assert error.file == str(file)
                else:
                    assert all("\n" not in line for line in found.differences)


def test_the_command_line_tells_it_in_one_line(made: tuple[Path, dict[str, Any]]) -> None:
    """Exit code 2, the file, the place and what should stand there."""
    case, manifest = made
    for at, wrong, told in (
        (("evidence", 0, "number"), 1 << 40, "evidence[0].number is of the wrong kind: a whole number from 0 to 21"),
        (("evidence", 0, "as_of_ms"), 1 << 60, "evidence[0].as_of_ms is of the wrong kind: a whole number from -11"),
        (("evidence", 1, "path"), "\ud800", "evidence[1].path is of the wrong kind: text should stand there"),
        (("options", "payload_limit"), "8", "options.payload_limit is of the wrong kind: a whole number from 0 to"),
        (("limits",), [3], "limits[0] is of the wrong kind: text should stand there"),
    ):
        (case / "manifest.json").write_text(json.dumps(altered(manifest, at, wrong)))
        run = [sys.executable, "-m", "jobsleuth", "queues", str(case)]
        done = subprocess.run(run, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        first, hint = done.stderr.splitlines()
        assert first.startswith(f"jobsleuth: {case}/manifest.json: the manifest is damaged: {told}")
        assert hint == "  Make it anew from the evidence: jobsleuth analyze DUMP --out CASE"
