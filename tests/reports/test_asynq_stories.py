"""What the story of an Asynq job tells that no other library has."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobsleuth.case import Case
from jobsleuth.pipeline import AnalyzeOptions, analyze
from jobsleuth.reports import find_jobs, picture, picture_lines

EVIDENCE = Path(__file__).parents[2] / "fixtures" / "asynq" / "faults-0.26.0" / "evidence.rdb"


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return analyze([EVIDENCE], tmp_path_factory.mktemp("stories") / "case", AnalyzeOptions())


def told(case: Case, id: str) -> list[str]:
    (ref,) = find_jobs(case, id)
    return ["".join(text for text, _ in line).strip() for line in picture_lines(picture(case, ref), width=200)]


def test_unknown_fields_are_told(case: Case) -> None:
    """The two fields that the fixture's maker appended (98 06 2a, ea 04 03 …) are named with their wire types."""
    lines = told(case, "msg-unknown-fields-victim")
    assert "fields that no known release writes: 99:varint, 77:bytes (9 bytes, shown by --decode-raw)" in lines
    assert not [line for line in told(case, "msg-unknown-fields-bystander") if "no known release" in line]


def test_what_cannot_be_decoded_is_told(case: Case) -> None:
    """Of a message that was cut to 51 bytes the story says how much is stored, and how to see it."""
    assert "stored message: 51 bytes, shown by --decode-raw" in told(case, "msg-truncated-victim")
