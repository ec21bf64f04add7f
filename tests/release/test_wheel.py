"""What a user installs: the wheel alone, without Rust or this repository; and the workflow that builds it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree; what was compiled for the development install is used again."""
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed: NO wheel was built")
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "maturin", "build", "--release", "--locked", "--out", str(out)]
    env = {"PYO3_PYTHON": sys.executable, **os.environ}
    done = subprocess.run(build, cwd=ROOT, env=env, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    (made,) = out.glob("*.whl")
    return made


def bare(folder: Path) -> dict[str, str]:
    """A clean Python first on the PATH, then what every system has: no cargo, no rustc."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CARGO", "RUST"))}
    path = os.pathsep.join([str(folder / "bin"), "/usr/bin", "/bin"])
    assert shutil.which("cargo", path=path) is shutil.which("rustc", path=path) is None
    return {**kept, "PATH": path, "NO_COLOR": "1"}


@pytest.mark.integration
def test_the_wheel_alone_is_enough_to_look_around(wheel: Path, tmp_path: Path) -> None:
    """Installed into a clean Python with what it declares, its demo makes a case that verifies, and Python opens it."""
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    env = bare(home)

    def run(*words: str) -> str:
        done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, f"{words}\n{done.stdout[-1000:]}{done.stderr[-3000:]}"
        return done.stdout

    python = str(home / "bin" / "python")
    run(python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", str(wheel))
    told = run("jobsleuth", "demo")
    assert "LV002" in run("jobsleuth", "sql", "jobsleuth-demo/case", "select distinct check_id from findings", "--json")
    for command in re.findall(r"^  (jobsleuth .*?)(?:   |$)", told.split("Go on:")[1], re.MULTILINE):
        assert run("bash", "-c", command)
    run("jobsleuth", "verify", "jobsleuth-demo/case")
    assert len(re.findall("press", run("jobsleuth", "jobs", "jobsleuth-demo/case", "--queue", "press"))) >= 3
    place = run(
        python,
        "-c",
        "import jobsleuth; print(jobsleuth.__file__); print(jobsleuth.open_case('mine').job('held-1', 'press').state)",
    )
    assert place.splitlines()[0].startswith(str(home)) and place.splitlines()[1] == "active"


@pytest.mark.integration
@pytest.mark.skipif(sys.version_info >= (3, 13), reason="the oldest versions have no wheels for this Python")
def test_the_oldest_versions_that_are_declared_will_do(wheel: Path, tmp_path: Path) -> None:
    """With each dependency as old as it is said to be allowed, the sample is made, judged, reported and read."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    oldest = [re.sub(r">=([\w.]+).*", r"==\1", line) for line in declared]
    assert all(re.fullmatch(r"[\w-]+==[\d.]+", line) for line in oldest)
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    env = bare(home)
    python = str(home / "bin" / "python")
    case = "jobsleuth-demo/case"
    read = (
        f"import jobsleuth; c = jobsleuth.open_case('{case}'); c.jobs; c.sql('select sum(attempts) s from jobs').s + 1"
    )
    for words, code in (
        ([python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", str(wheel), *oldest], 0),
        (["jobsleuth", "demo", "--quiet"], 0),
        (["jobsleuth", "check", case, "--fail-on", "warning", "--format", "sarif"], 1),
        (["jobsleuth", "report", case, "--redact", "--out", "page.html"], 0),
        (["jobsleuth", "jobs", case], 0),
        (["jobsleuth", "jobs", "--help"], 0),
        (["jobsleuth", "jobs"], 2),  # the one about the argument that is missing
        ([python, "-c", read], 0),
    ):
        done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == code, f"{words}\n{done.stdout[-1000:]}{done.stderr[-3000:]}"
        assert "unexpected" not in done.stderr


@pytest.mark.integration
def test_the_wheel_serves_every_python_from_3_11_on(wheel: Path) -> None:
    """One abi3 wheel a platform, with the samples, the type marker and the license, and nothing of the tests."""
    assert re.fullmatch(r"jobsleuth-[\w.]+-cp311-abi3-\w+\.whl", wheel.name)
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in ("jobsleuth/py.typed", "jobsleuth/cli/samples/bullmq.rdb", "jobsleuth/cli/samples/asynq.rdb"):
        assert wanted in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"jobsleuth"}
    assert wheel.stat().st_size < 10_000_000


def test_the_source_is_enough_to_build(tmp_path: Path) -> None:
    """The source distribution has the core with its lock file, the samples and the license, and no fixtures."""
    pytest.importorskip("maturin", reason="maturin is not installed: NO source distribution was made")
    build = [sys.executable, "-m", "maturin", "sdist", "--out", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True)
    (made,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(made) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    workspace = {str(p.relative_to(ROOT)) for p in (ROOT / "rust").glob("*/src/**/*.rs") if "fuzz" not in p.parts}
    samples = {f"src/jobsleuth/cli/samples/{name}.rdb" for name in ("bullmq", "asynq")}
    wanted = (
        workspace | samples | {"rust/Cargo.lock", "pyproject.toml", "LICENSE", "README.md", "src/jobsleuth/py.typed"}
    )
    assert wanted - names == set()
    assert not [name for name in names if name.startswith(("fixtures", "tests"))]


def test_demo_makes_folder_dumps_and_case(tmp_path: Path) -> None:
    """The dumps are those of the package, byte for byte, and the case is what `analyze` makes of them."""
    run = [sys.executable, "-m", "jobsleuth"]
    done = subprocess.run(
        [*run, "demo", "--out", "it's here"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    home = tmp_path / "it's here"
    for name in ("bullmq.rdb", "asynq.rdb"):
        assert (home / name).read_bytes() == (files("jobsleuth.cli") / "samples" / name).read_bytes()
    case = json.loads((home / "case" / "manifest.json").read_text())
    assert [e["path"] for e in case["evidence"]] == ["it's here/bullmq.rdb", "it's here/asynq.rdb"]
    words = ["analyze", "it's here/bullmq.rdb", "it's here/asynq.rdb", "--out", "again", "--quiet"]
    subprocess.run([*run, *words], cwd=tmp_path, check=True)
    again = json.loads((tmp_path / "again" / "manifest.json").read_text())
    assert again == case
    commands = re.findall(r"^  (jobsleuth .*?)(?:   |$)", done.stdout.split("Go on:")[1], re.MULTILINE)
    assert len(commands) == 4 and all("'it'\"'\"'s here" in command for command in commands)


def test_demo_leaves_what_is_there_alone(tmp_path: Path) -> None:
    """A folder of that name is the user's: exit 2, one line, nothing touched; --quiet says nothing at all."""
    run = [sys.executable, "-m", "jobsleuth", "demo"]
    (tmp_path / "jobsleuth-demo").mkdir()
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "jobsleuth-demo: the folder exists" in done.stderr
    assert not list((tmp_path / "jobsleuth-demo").iterdir())
    quiet = subprocess.run([*run, "-q", "-o", "other"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    nowhere = subprocess.run([*run, "-o", "no/where"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert nowhere.returncode == 2 and "no/where" in nowhere.stderr and "Traceback" not in nowhere.stderr


@pytest.fixture(scope="module")
def workflow() -> Any:
    text = WORKFLOW.read_text(encoding="utf-8")
    # `on` is a word of YAML 1.1 for true, and a key of GitHub's.
    return yaml.safe_load(re.sub(r"^on:", "'on':", text, flags=re.MULTILINE))


def test_the_release_workflow_is_valid(workflow: Any) -> None:
    """Validated against the schema that GitHub's own editors use."""
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed: the workflow was NOT validated")
    vendored = files("check_jsonschema") / "builtin_schemas" / "vendor" / "github-workflows.json"
    rules = json.loads(vendored.read_text(encoding="utf-8"))
    jsonschema.validators.validator_for(rules)(rules).validate(workflow)


def test_actions_are_pinned_and_rights_are_few(workflow: Any) -> None:
    """A tag of an action can be moved, a commit cannot; only the job that publishes may write, and only for a tag."""
    used = re.findall(r"uses: (\S+)(.*)", WORKFLOW.read_text(encoding="utf-8"))
    assert used
    for name, comment in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name) and re.match(r" # v\d", comment), name
    assert workflow["permissions"] == {"contents": "read"}
    writing = {name for name, job in workflow["jobs"].items() if job.get("permissions", {}).get("contents") == "write"}
    assert writing == {"publish"}
    assert workflow["jobs"]["publish"]["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert set(workflow["jobs"]["publish"]["needs"]) == {"wheel", "source", "try"}


def test_every_platform_is_built_and_tried(workflow: Any) -> None:
    """Linux on both processors, macOS, Windows: one wheel each, and each is installed and run without Rust."""
    built = {row["name"]: row for row in workflow["jobs"]["wheel"]["strategy"]["matrix"]["include"]}
    assert sorted(built) == ["linux-aarch64", "linux-x86_64", "macos-universal2", "windows-x86_64"]
    tried = workflow["jobs"]["try"]["strategy"]["matrix"]
    assert sorted(tried["name"]) == sorted(built)
    assert {row["name"]: row["runner"] for row in tried["include"]} == {n: row["runner"] for n, row in built.items()}
    steps = "\n".join(step.get("run", "") for step in workflow["jobs"]["try"]["steps"])
    assert "jobsleuth demo" in steps and "cargo" not in steps
