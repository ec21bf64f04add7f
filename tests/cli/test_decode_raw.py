"""`jobsleuth job --decode-raw` on payloads that a real producer enqueued."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jobsleuth.cli.main import app
from jobsleuth.pipeline import AnalyzeOptions, analyze

EVIDENCE = Path(__file__).parents[2] / "fixtures" / "asynq" / "every-state-0.26.0" / "evidence.rdb"


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("raw") / "case"
    analyze([EVIDENCE], out, AnalyzeOptions())
    return out


def run(*words: object) -> str:
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert found.exit_code == 0, found.output
    return found.output


def test_protobuf_payload(case: Path) -> None:
    """A protobuf payload is shown as `protoc --decode_raw` shows the bytes that were enqueued."""
    shown = run("job", case, "payload-protobuf", "--decode-raw").partition("Raw decode: payload (8 bytes)\n")[2]
    lines = [line.removeprefix("    ") for line in shown.splitlines() if line.startswith("    ")]
    assert lines == ["1: 150", '2: "abc"']
    if shutil.which("protoc"):
        payload = b"\x08\x96\x01\x12\x03abc"
        said = subprocess.run(
            ["protoc", "--decode_raw"], input=payload, capture_output=True, check=True
        ).stdout.decode()
        assert lines == said.splitlines()


def test_msgpack_payload_as_json(case: Path) -> None:
    """`--json` gives every reading, also those that do not fit; without --decode-raw there is none."""
    (job,) = json.loads(run("job", case, "payload-msgpack", "--decode-raw", "--json"))
    readings = {raw["format"]: raw for raw in job["raw"] if raw["column"] == "payload"}
    assert readings["msgpack"]["lines"] == ['{"id": 7, "tags": ["a", "b"]}']
    assert " at byte " in readings["protobuf"]["error"]
    (plain,) = json.loads(run("job", case, "payload-msgpack", "--json"))
    assert "raw" not in plain
