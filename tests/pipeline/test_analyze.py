"""A whole run: several pieces of evidence, packed or not, each with its own provenance in one case."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from jobsleuth.case import open_case
from jobsleuth.errors import EvidenceError, JobsleuthError, UsageError
from jobsleuth.pipeline import AnalyzeOptions, analyze, analyze_and_tell
from jobsleuth.reports import FORMATS, document, lines, render, render_html

FIXTURES = Path(__file__).parents[2] / "fixtures"
STATES = FIXTURES / "bullmq" / "v5-every-state" / "evidence.rdb"
FAULTS = FIXTURES / "bullmq" / "v5-faults" / "evidence.rdb"
ASYNQ = FIXTURES / "asynq" / "every-state-0.26.0" / "evidence.rdb"
TABLES = ("keys", "jobs", "membership", "queues", "workers", "schedules", "relations", "events", "findings", "checks")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _string(data: bytes) -> bytes:
    return bytes([len(data)]) + data


def _ziplist(entries: bytes, count: int) -> bytes:
    return struct.pack("<IIH", 11 + len(entries), 10, count) + entries + b"\xff"


DAMAGED_VALUE = (
    b"REDIS0009\xfe\x00"
    + (b"\x0d" + _string(b"bull:q:meta") + _string(_ziplist(b"\x00\x06paused\x08\x011", 2)))
    + (b"\x0d" + _string(b"bull:q:7") + _string(_ziplist(b"\x00\x04name\x06\x7fx", 2)))
    + (b"\x0a" + _string(b"bull:q:wait") + _string(_ziplist(b"\x00\x017", 1)))
    + b"\xff"
    + bytes(8)
)
"""RDB version 9 without checksum: the second value of job 7 says it is longer than the hash that holds it."""


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_the_case_of_packed_evidence_is_that_of_the_plain(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    """Row for row the same tables; the manifest has the hash of the file given and of what was in it."""
    packed = tmp_path / "evidence.packed"
    packed.write_bytes(pack(STATES.read_bytes()))
    plain = analyze([STATES], tmp_path / "plain", AnalyzeOptions())
    case = analyze([packed], tmp_path / "case", AnalyzeOptions())
    for table in TABLES:
        assert case.arrow(table).equals(plain.arrow(table)), table
    info = open_case(tmp_path / "case").manifest.evidence[0]
    assert (info.path, info.sha256, info.bytes) == (os.fspath(packed), sha256(packed), packed.stat().st_size)
    assert info.inner is not None
    assert (info.inner["sha256"], info.inner["bytes"]) == (sha256(STATES), STATES.stat().st_size)
    assert plain.manifest.evidence[0].inner is None
    assert case.verify() == []


def test_each_file_keeps_its_number_and_its_provenance(tmp_path: Path) -> None:
    """Three files, one of them packed: every row of every table is that of the file alone, under its number."""
    packed = tmp_path / "asynq.rdb.gz"
    packed.write_bytes(gzip.compress(ASYNQ.read_bytes()))
    given = [FAULTS, packed, STATES]
    case = analyze(given, tmp_path / "case", AnalyzeOptions())
    assert [(e.number, e.path, e.sha256) for e in case.manifest.evidence] == [
        (n, os.fspath(path), sha256(path)) for n, path in enumerate(given)
    ]
    for number, path in enumerate([FAULTS, ASYNQ, STATES]):
        alone = analyze([path], tmp_path / f"alone{number}", AnalyzeOptions())
        for table in ("keys", "jobs", "membership", "queues", "workers", "schedules", "relations", "events"):
            together = case.query(f"select * exclude (evidence) from {table} where evidence = {number}")
            assert together.num_rows == alone.arrow(table).num_rows, table
            first = alone.query(f"select * exclude (evidence) from {table}")
            assert sorted(map(repr, together.to_pylist())) == sorted(map(repr, first.to_pylist())), table
        findings = "select check_id, severity, namespace, queue, job_id, key, message from findings"
        mine = case.query(f"{findings} where evidence = {number}").to_pylist()
        assert sorted(map(repr, mine)) == sorted(map(repr, alone.query(findings).to_pylist()))
        assert case.manifest.evidence[number].as_of_ms == alone.manifest.evidence[0].as_of_ms
    assert case.verify() == []
    packed.write_bytes(b"changed")
    assert len(case.verify()) == 1
    assert case.verify()[0].startswith("evidence 1: ")


@pytest.mark.parametrize("how", ["same", "relative", "symlink", "hardlink", "copy", "packed"])
def test_the_same_evidence_twice_is_refused(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its jobs would be there twice; whatever the second name, nothing is left behind."""
    first = tmp_path / "dump.rdb"
    first.write_bytes(STATES.read_bytes())
    second = tmp_path / "second"
    if how == "same":
        second = first
    elif how == "relative":
        monkeypatch.chdir(tmp_path)
        second = Path("dump.rdb")
    elif how == "symlink":
        second.symlink_to(first)
    elif how == "hardlink":
        second.hardlink_to(first)
    else:
        second.write_bytes(gzip.compress(first.read_bytes()) if how == "packed" else first.read_bytes())
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError, match=r"same (file|content)") as told:
        analyze([first, ASYNQ, second], tmp_path / "case", AnalyzeOptions())
    assert told.value.file == os.fspath(second)
    assert sorted(tmp_path.iterdir()) == before


def test_standard_input_can_be_given_once(tmp_path: Path) -> None:
    """There is only one."""
    with pytest.raises(UsageError, match="same file"):
        analyze([Path("-"), Path("-")], tmp_path / "case", AnalyzeOptions())


def test_a_cut_archive_makes_a_case_only_in_a_salvage(tmp_path: Path) -> None:
    """The manifest then tells both: where the packing ends, and where in the unpacked bytes the snapshot does."""
    packed = tmp_path / "dump.rdb.gz"
    packed.write_bytes(gzip.compress(STATES.read_bytes())[:9000])
    with pytest.raises(EvidenceError, match="the gzip data is cut short") as told:
        analyze([packed], tmp_path / "case", AnalyzeOptions())
    assert told.value.offset == 9000
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dump.rdb.gz"]
    case = analyze([packed], tmp_path / "case", AnalyzeOptions(salvage=True))
    info = case.manifest.evidence[0]
    assert ("compression_cut_short", 9000) in [(w.kind, w.offset) for w in info.warnings]
    assert info.fault is not None
    whole = analyze([STATES], tmp_path / "whole", AnalyzeOptions())
    kept = case.arrow("keys").num_rows
    assert 0 < kept < whole.arrow("keys").num_rows
    assert case.arrow("keys", ["key", "offset"]).equals(whole.arrow("keys", ["key", "offset"]).slice(0, kept))


def test_a_damaged_value_is_told_in_the_manifest(tmp_path: Path) -> None:
    """A job whose hash breaks off in its value: an error as it is, a warning with its place in a salvage."""
    dump = tmp_path / "dump.rdb"
    dump.write_bytes(DAMAGED_VALUE)
    with pytest.raises(JobsleuthError, match="bull:q:7"):
        analyze([dump], tmp_path / "case", AnalyzeOptions())
    case = analyze([dump], tmp_path / "case", AnalyzeOptions(salvage=True))
    (warning,) = [w for w in case.manifest.evidence[0].warnings if w.kind == "value_damaged"]
    start = DAMAGED_VALUE.index(b"bull:q:7")
    assert warning.offset is not None
    assert start < warning.offset < DAMAGED_VALUE.index(b"bull:q:wait")
    assert "bull:q:7" in warning.message


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_name_that_is_no_text_is_a_name(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    """File systems take any bytes: evidence under such a name is read, and found again by `verify`."""
    dump = tmp_path / os.fsdecode(b"dump-\xff.rdb")
    try:
        dump.write_bytes(pack(STATES.read_bytes()))
    except OSError:
        pytest.skip("this file system takes only UTF-8 names")
    case = analyze([dump], tmp_path / "case", AnalyzeOptions())
    assert open_case(tmp_path / "case").manifest.evidence[0].path == os.fspath(dump)
    assert case.verify() == []
    assert case.query("select path from evidence").column(0)[0].as_py().endswith("dump-\\xff.rdb")


def test_expiry_off_the_calendar_is_told(tmp_path: Path) -> None:
    """The table cannot show such a time: the manifest says of how many keys, and where the first is."""
    dump = tmp_path / "dump.rdb"
    keys = [
        b"\xfc" + ms.to_bytes(8, "little", signed=True) + b"\x00" + _string(b"k%d" % n) + _string(b"v")
        for n, ms in enumerate([253_402_300_799_999, 253_402_300_800_000, (1 << 63) - 1])
    ]
    dump.write_bytes(b"REDIS0009\xfe\x00" + b"".join(keys) + b"\xff" + bytes(8))
    case = analyze([dump], tmp_path / "case", AnalyzeOptions(as_of_ms=1))
    (warning,) = [w for w in case.manifest.evidence[0].warnings if w.kind == "expiry_out_of_range"]
    assert (warning.offset, warning.count) == (11 + len(keys[0]), 2)
    shown = case.query("select epoch_ms(expire_at) as at, expired from keys order by key").to_pylist()
    assert shown == [
        {"at": 253_402_300_799_999, "expired": False},
        {"at": None, "expired": False},
        {"at": None, "expired": False},
    ]


def test_progress_names_the_stages(tmp_path: Path) -> None:
    """Packed evidence is unpacked before its keys are read and its jobs decoded."""
    packed = tmp_path / "dump.rdb.gz"
    packed.write_bytes(gzip.compress(STATES.read_bytes()) + gzip.compress(os.urandom(2 << 20)))
    stages: list[str] = []
    analyze([packed], tmp_path / "case", AnalyzeOptions(), lambda stage, done, total: stages.append(stage))
    assert list(dict.fromkeys(stages)) == ["unpack", "index", "extract"]


def test_options_of_the_machine_are_not_in_the_case(tmp_path: Path) -> None:
    """Same evidence, same bytes: where temporary files went and how many threads there were changes nothing."""
    (tmp_path / "room").mkdir()
    packed = tmp_path / "dump.rdb.gz"
    packed.write_bytes(gzip.compress(STATES.read_bytes()))
    one = analyze([packed], tmp_path / "one", AnalyzeOptions())
    options = AnalyzeOptions(tmpdir=tmp_path / "room", max_spool_bytes=1 << 30, threads=1)
    two = analyze([packed], tmp_path / "two", options)
    assert (one.path / "manifest.json").read_bytes() == (two.path / "manifest.json").read_bytes()


def test_what_a_run_tells_is_what_its_case_tells(tmp_path: Path) -> None:
    """The report of the run and one made from the folder later are the same in every format, findings of two files
    with their causes included."""
    out = tmp_path / "case"
    case, told = analyze_and_tell([FAULTS, ASYNQ], out, AnalyzeOptions())
    later = document(open_case(out))
    assert told.counts["error"] > 0
    assert case.path == out
    for fmt in FORMATS:
        assert list(render(told, fmt)) == list(render(later, fmt)), fmt
    assert list(lines(told, width=100)) == list(lines(later, width=100))
    assert "".join(render_html(case, told)) == "".join(render_html(case, later))


def test_arrows_memory_pool_is_given_back(tmp_path: Path) -> None:
    """A run uses a pool of its own choice; the program around it has its own again afterwards, even after an error."""
    usual = pa.default_memory_pool().backend_name
    analyze([STATES], tmp_path / "case", AnalyzeOptions())
    assert pa.default_memory_pool().backend_name == usual
    with pytest.raises(JobsleuthError):
        analyze([tmp_path / "absent"], tmp_path / "other", AnalyzeOptions())
    assert pa.default_memory_pool().backend_name == usual
