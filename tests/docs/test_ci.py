"""docs/ci.md: its jobs are what the two services accept, and their commands do what the page says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")


def snippet(heading: str) -> Any:
    """The YAML below a heading."""
    section = PAGE.split(f"\n## {heading}\n", 1)[1]
    found = re.search(r"```yaml\n(.*?)```", section, re.DOTALL)
    assert found
    # `on` is a word of YAML 1.1 for true, and a key of GitHub's.
    return yaml.safe_load(re.sub(r"^on:", "'on':", found[1], flags=re.MULTILINE))


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A checkout, as far as the commands look."""
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    return tmp_path


def done(command: str, desk: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """The command as both services run it: bash, which stops at the first failure."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, **more}
    shell = ["bash", "-e", "-o", "pipefail", "-c", command]
    return subprocess.run(shell, cwd=desk, env=env, capture_output=True, text=True, timeout=120, check=False)


def expected(desk: Path) -> int:
    """The exit code that the case's own findings ask for."""
    told = json.loads(done("jobsleuth check case --json --fail-on never", desk).stdout)
    return 1 if told["counts"]["error"] else 0


@pytest.mark.parametrize(("heading", "schema"), [("GitHub Actions", "github-workflows"), ("GitLab", "gitlab-ci")])
def test_the_service_would_accept_it(heading: str, schema: str) -> None:
    """Validated against the schema that the service's own editors use."""
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed: NO snippet was validated")
    vendored = files("check_jsonschema") / "builtin_schemas" / "vendor" / f"{schema}.json"
    rules = json.loads(vendored.read_text(encoding="utf-8"))
    jsonschema.validators.validator_for(rules)(rules).validate(snippet(heading))


def test_github_actions(desk: Path) -> None:
    """Every `run` but the installation, in order: a summary, a SARIF file, annotations, the page that is uploaded."""
    job = snippet("GitHub Actions")["jobs"]["queues"]
    summary = desk / "summary.md"
    steps = [step for step in job["steps"] if "run" in step and step["name"] != "Install"]
    assert [step["name"] for step in steps][-1] == "Judge"
    for step in steps:
        ran = done(step["run"], desk, GITHUB_STEP_SUMMARY=str(summary))
        code = expected(desk) if step["name"] == "Judge" else 0
        assert (ran.returncode, ran.stderr) == (code, ""), step["run"]
    assert summary.read_text().startswith("## ")
    assert ran.stdout.startswith("::")
    uploads = [step["with"] for step in job["steps"] if "upload" in step.get("uses", "")]
    assert json.loads((desk / uploads[0]["sarif_file"]).read_text())["version"] == "2.1.0"
    assert (desk / uploads[1]["path"]).read_text().startswith("<!doctype html>")


def test_gitlab(desk: Path) -> None:
    """Every command of `script`, in order; the artifacts it names are there."""
    job = snippet("GitLab")["queue-snapshot"]
    for command in job["script"]:
        ran = done(command, desk)
        code = expected(desk) if command == job["script"][-1] else 0
        assert (ran.returncode, ran.stderr) == (code, ""), command
    assert ET.parse(desk / job["artifacts"]["reports"]["junit"]).getroot().tag == "testsuites"
    assert all((desk / path).is_file() for path in job["artifacts"]["paths"])


def test_every_format_is_told() -> None:
    """The table of formats names all that `check` has."""
    from jobsleuth.reports import FORMATS

    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == set(FORMATS)
