"""Policies on the command line: where the file is looked for, what a baseline hides, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jobsleuth.cli import main

FAULTS = Path(__file__).parents[2] / "fixtures/asynq/faults-0.26.0/evidence.rdb"


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("policies") / "case"
    assert CliRunner().invoke(main.app, ["analyze", str(FAULTS), "--out", str(out), "-q"]).exit_code == 0
    return out


def run(*words: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(main.app, [str(w) for w in words])
    return result.exit_code, result.output + (str(result.exception) if result.exception else "")


def test_a_baseline_makes_the_check_pass_until_it_ends(
    case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`check` fails on the planted faults, passes with their baseline, and fails again once its date is past."""
    monkeypatch.chdir(tmp_path)
    assert run("check", case, "-q")[0] == 1
    assert run("baseline", case, "--out", "known.json", "--reason", "planted")[0] == 0
    code, text = run("check", case, "--baseline", "known.json", "--format", "json")
    assert code == 0 and '"findings": []' in text and "known findings accepted" in text
    assert run("baseline", case, "--out", "known.json")[0] != 0, "an existing file is not overwritten"
    assert run("baseline", case, "-o", "known.json", "--force", "--expires", "2020-01-01")[0] == 0
    code, text = run("check", case, "--baseline", "known.json")
    assert code == 1 and "the time for which it was accepted is over" in text


def test_the_policy_of_the_working_folder_is_used_and_another_can_be_named(
    case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """./jobsleuth.toml where it is there; --config instead of it; a bad one is no reason to judge without."""
    monkeypatch.chdir(tmp_path)

    def errors(*words: str) -> set[str]:
        result = CliRunner().invoke(main.app, ["check", str(case), "--json", "-q", *words])
        return {f["check_id"] for f in json.loads(result.output)["findings"] if f["severity"] == "error"}

    everything = errors()
    Path("jobsleuth.toml").write_text('[checks]\ndisable = ["MB001"]\n')
    Path("other.toml").write_text('[severity]\nST001 = "info"\n')
    assert everything - errors() == {"MB001"}
    assert everything - errors("--config", "other.toml") == {"ST001"}
    Path("jobsleuth.toml").write_text("[check]\n")
    code, text = run("check", case)
    assert code != 0 and "there is no key check" in text
    assert run("check", case, "--config", "nowhere.toml")[0] != 0


def test_analyze_judges_by_the_policy_and_the_case_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stored findings are those of the policy, the manifest names it, and --fail-on heeds both."""
    monkeypatch.chdir(tmp_path)
    Path("p.toml").write_text('[checks]\ndisable = ["MB001"]\n')
    words = ("analyze", FAULTS, "-q", "--fail-on", "error")
    assert run(*words, "--out", "a", "--config", "p.toml")[0] == 1
    assert run("baseline", "a", "-o", "known.json")[0] == 0
    assert run(*words, "--out", "b", "--config", "p.toml", "--baseline", "known.json")[0] == 0
    options = json.loads((tmp_path / "b" / "manifest.json").read_text())["options"]
    assert options["policy"]["off"] == ["MB001"] and options["policy"]["accepted"] > 20


@pytest.mark.parametrize("given", [None, b"\xff\xfe not TOML"])
def test_a_policy_that_cannot_be_read_is_called_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: bytes | None
) -> None:
    """Whoever names a policy hears of the policy, not of the layouts that could stand in it too; no case is made."""
    monkeypatch.chdir(tmp_path)
    if given is not None:
        Path("p.toml").write_bytes(given)
    code, text = run("analyze", FAULTS, "--out", "a", "--config", "p.toml")
    assert code != 0 and "p.toml: the policy " in text and "layouts" not in text
    assert not Path("a").exists()
