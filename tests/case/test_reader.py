"""Reading cases: what is there, nothing else, and whether it is still what it was."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

from jobsleuth.case import SCHEMA_VERSION, Case, CaseWriter, EvidenceWarning, Manifest, open_case
from jobsleuth.errors import CaseError, UsageError
from tests.tables import T, build, evidence, rows_of


@pytest.fixture
def case(tmp_path: Path) -> Case:
    jobs = [{"job_id": str(i), "state": "waiting", "payload": "{}", "created_at": T + i} for i in range(3)]
    info = evidence(
        path="dump.rdb",
        warnings=[{"kind": "trailing-bytes", "message": "m", "offset": 7, "count": 2}],
        fault={"kind": "truncated", "message": "cut", "offset": 9},
        format_version=11,
    )
    return build(tmp_path / "case", {"jobs": rows_of("jobs", jobs)}, [info])


def test_small_columns_are_arrow_backed_and_big_ones_are_not_read(case: Case) -> None:
    """`case.jobs` is for looking around: no payloads, times as times, text as text with its methods."""
    jobs = case.jobs
    assert not {"payload", "result", "error", "rest"} & set(jobs.columns)
    assert all(isinstance(kind, pd.ArrowDtype) for kind in jobs.dtypes)
    assert jobs.state.str.upper().tolist() == ["WAITING"] * 3
    assert jobs.created_at.max() - jobs.created_at.min() == pd.Timedelta(milliseconds=2)
    for name in ("membership", "queues", "workers", "schedules", "relations", "events", "keys", "checks", "findings"):
        assert len(getattr(case, name)) == 0


def test_any_column_can_be_asked_for(case: Case) -> None:
    """Arrow, pandas and SQL give the same values, columns in the order asked for."""
    assert case.arrow("jobs", ["payload", "job_id"]).column_names == ["payload", "job_id"]
    assert case.pandas("jobs", columns=["payload"]).payload.tolist() == [b"{}"] * 3
    assert case.pandas("jobs").shape == (3, len(case.arrow("jobs").column_names))
    assert case.sql("SELECT job_id FROM jobs WHERE job_id > ?", ["0"]).job_id.tolist() == ["1", "2"]
    assert case.sql("SELECT count(*) AS n FROM jobs WHERE created_at > make_timestamptz(2000, 1, 1, 0, 0, 0)").n[0] == 3


def test_sums_can_be_calculated_with(case: Case) -> None:
    """DuckDB's type for sums of integers is a decimal in Arrow, with which pandas can neither add nor divide."""
    frame = case.sql("select sum(i) as s, count(*) as n from (values (1), (2), (4)) t(i)")
    assert str(frame.dtypes["s"]) == "int64[pyarrow]"
    assert ((frame.s / frame.n).tolist(), (frame.s + 1).tolist()) == ([7 / 3], [8])
    assert case.sql("select sum(i) as s from (values (9223372036854775807), (1)) t(i)").s[0] == 2**63
    assert case.sql("select sum(null::int) as s").s.isna().all()


def test_the_zone_of_the_machine_decides_nothing(tmp_path: Path) -> None:
    """The same dump gives the same case in New York, byte for byte: cursors, on which checks run, have UTC as well."""
    dump = Path(__file__).parents[2] / "fixtures" / "bullmq" / "v5-every-state" / "evidence.rdb"
    hashes = []
    for zone in ("UTC", "America/New_York"):
        run = [sys.executable, "-m", "jobsleuth", "analyze", str(dump), "--out", zone.rpartition("/")[2], "--quiet"]
        subprocess.run(run, cwd=tmp_path, env={**os.environ, "TZ": zone}, check=True)
        hashes.append(open_case(tmp_path / zone.rpartition("/")[2]).manifest.files)
    assert hashes[0] == hashes[1]


def test_manifest_views(case: Case) -> None:
    """SQL sees the evidence and its warnings as tables."""
    (row,) = case.query("SELECT * FROM evidence").to_pylist()
    assert (row["as_of_ms"], row["atomic"], row["checksum"], row["version"]) == (T, True, "ok", 11)
    assert (row["fault"], row["fault_offset"], row["bytes"]) == ("cut", 9, 100)
    assert case.query('SELECT kind, "offset", "count" FROM warnings').to_pylist() == [
        {"kind": "trailing-bytes", "offset": 7, "count": 2}
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM 'https://127.0.0.1:9/x.parquet'",
        "SELECT * FROM glob('/*')",
        "COPY (SELECT 1) TO '/tmp/out.csv'",
        "ATTACH '/tmp/other.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET allowed_directories = ['/']",
        "RESET lock_configuration",
    ],
)
def test_sql_reaches_nothing_outside(case: Case, statement: str) -> None:
    """Neither files nor network nor extensions, and the settings cannot be undone; not on a raw connection either."""
    with pytest.raises(UsageError):
        case.sql(statement)
    with case.connect() as connection, pytest.raises(duckdb.Error):
        connection.execute(statement).fetchall()


@pytest.mark.parametrize(
    "statement", ["DROP VIEW jobs", "CREATE TABLE t (a INT)", "SELECT 1; SELECT 2", "", "COPY jobs TO 'x'"]
)
def test_sql_takes_one_reading_query(case: Case, statement: str) -> None:
    """`sql` reads: a case is not changed by looking at it."""
    before = {p: p.read_bytes() for p in case.path.rglob("*") if p.is_file()}
    with pytest.raises(UsageError):
        case.sql(statement)
    assert before == {p: p.read_bytes() for p in case.path.rglob("*") if p.is_file()}


def test_sql_errors_are_one_harmless_line(case: Case) -> None:
    """DuckDB quotes the query in its errors; what the user pasted must not act on the terminal."""
    with pytest.raises(UsageError) as failed:
        case.sql("SELECT \u001b[2J nothing\n FROM nowhere")
    assert "\n" not in str(failed.value) and "\u001b" not in str(failed.value)


def test_variables_of_the_program_are_no_tables(case: Case) -> None:
    """DuckDB would read Python variables by name; a query sees the case only."""
    secret = pa.table({"a": [1]})
    with pytest.raises(UsageError):
        case.sql("SELECT * FROM secret")
    assert secret.num_rows == 1


@pytest.mark.parametrize("name", ["it's [a] *case*?", "ümlaut 名前", "-rf", "a,b;c", "%41{x}"])
def test_any_folder_name_works(tmp_path: Path, name: str) -> None:
    """Quotes and patterns in the path are only names: a sibling that the pattern would match is not read."""
    sibling = tmp_path / name.replace("*", "x").replace("?", "y")
    if sibling.name != name:
        build(sibling, {"jobs": rows_of("jobs", [{"job_id": "wrong"}])})
    build(tmp_path / name, {"jobs": rows_of("jobs", [{"job_id": "right"}])})
    assert open_case(tmp_path / name).query("SELECT job_id FROM jobs").to_pylist() == [{"job_id": "right"}]


def test_a_relative_path_works(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """`jobsleuth sql case` from the folder beside it."""
    monkeypatch.chdir(case.path.parent)
    assert len(open_case("case").sql("FROM jobs")) == 3


def test_unknown_names_are_usage_errors(case: Case) -> None:
    """Asking for what is not there names it."""
    with pytest.raises(UsageError, match="no table jbos"):
        case.arrow("jbos")
    with pytest.raises(UsageError, match="no column colour"):
        case.arrow("jobs", ["colour"])


def test_verify_tells_each_difference(tmp_path: Path, case: Case) -> None:
    """Changed, cut, missing and added files, and the evidence itself."""
    dump = tmp_path / "dump.rdb"
    dump.write_bytes(b"REDIS0011")
    info = evidence(path=str(dump), sha256=hashlib.sha256(b"REDIS0011").hexdigest(), bytes=9)
    case = build(tmp_path / "v", {"jobs": rows_of("jobs", [{"job_id": "1"}])}, [info])
    assert case.verify() == [] == open_case(tmp_path / "v").verify()
    jobs, keys = tmp_path / "v/jobs/part-00000.parquet", tmp_path / "v/keys/part-00000.parquet"
    jobs.write_bytes(jobs.read_bytes()[:-1] + b"x")
    keys.write_bytes(b"")
    (tmp_path / "v/queues/part-00000.parquet").unlink()
    (tmp_path / "v/note\n.txt").write_text("x")
    dump.write_bytes(b"REDIS0012")
    found = case.verify()
    assert found[0] == "jobs/part-00000.parquet: its content changed"
    assert found[1].startswith("keys/part-00000.parquet: 0 bytes, the manifest says ")
    assert found[2:4] == ["queues/part-00000.parquet: not there", "note\\n.txt: not in the manifest"]
    assert found[4:] == [f"evidence 0: {dump}: its content changed"]
    dump.unlink()
    assert not any("evidence" in difference for difference in case.verify())
    gone = f"evidence 0: {dump}: not found at its path, not compared; its SHA-256 was {info.sha256}"
    assert case.verification().uncompared == [gone]


def test_verify_counts_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tables of three rows and one: a manifest that says otherwise, or does not know a table, is found out by what
    the Parquet files themselves hold."""
    monkeypatch.chdir(tmp_path)  # where no dump.rdb lies, as it does in a checkout that the README was followed in
    rows = {"jobs": rows_of("jobs", [{"job_id": str(n)} for n in range(3)]), "keys": rows_of("keys", [{"key": "k"}])}
    build(tmp_path / "v", rows)
    file = tmp_path / "v" / "manifest.json"
    told = json.loads(file.read_text())
    assert open_case(tmp_path / "v").verify() == []
    told["tables"]["jobs"]["rows"] = 2
    del told["tables"]["keys"]
    file.write_text(json.dumps(told))
    found = open_case(tmp_path / "v").verification()
    assert found.differences == ["jobs: 3 rows, the manifest says 2", "keys: 1 row, the manifest says nothing"]
    assert found.manifest_sha256 == hashlib.sha256(file.read_bytes()).hexdigest()


def test_verify_of_a_damaged_manifest(tmp_path: Path) -> None:
    """Numbers, hashes and names that are missing or of another kind are differences, and no fault of the tool."""
    build(tmp_path / "v", {"jobs": rows_of("jobs", [{"job_id": "1"}])})
    file = tmp_path / "v" / "manifest.json"
    told = json.loads(file.read_text())
    told["files"].update({"x/y.parquet": 3, "manifest.json": {"bytes": "many"}})
    told["tables"].update(jobs=7, keys={"rows": "none"})
    told["evidence"][0].update(path=str(tmp_path), parts=[{"x": 1}, 5])
    file.write_text(json.dumps(told))
    found = open_case(tmp_path / "v").verify()
    assert [line.split(": ")[0] for line in found] == [
        "manifest.json",
        "x/y.parquet",
        "jobs",
        "keys",
        *["evidence 0"] * 2,
    ]


def test_a_damaged_table_is_an_error_with_its_file(case: Case) -> None:
    """Parquet that is none is a CaseError, from Arrow and from SQL."""
    file = case.path / "jobs" / "part-00000.parquet"
    file.write_bytes(b"PAR1garbage")
    with pytest.raises(CaseError) as failed:
        case.arrow("jobs")
    assert failed.value.file == str(file)
    with pytest.raises((CaseError, UsageError)):
        open_case(case.path).sql("SELECT * FROM jobs")


WHOLE = {"number": 0, "path": "dump.rdb", "sha256": "00", "bytes": 1, "format": "rdb"}


def test_no_case_and_a_broken_manifest_are_errors(tmp_path: Path) -> None:
    """Each names the place and what is wrong with it."""
    with pytest.raises(CaseError, match="no case here"):
        open_case(tmp_path)
    for text, why in {
        "": "not JSON",
        "[" * 100_000: "not JSON",
        "[]": "not written by jobsleuth",
        '{"tool": "other"}': "not written by jobsleuth",
        '{"tool": "jobsleuth"}': "table version None",
        json.dumps({"tool": "jobsleuth", "schema_version": SCHEMA_VERSION + 1}): "too new",
        json.dumps({"tool": "jobsleuth", "schema_version": 1}): "all of it .*: an object with version",
        json.dumps(
            {"tool": "jobsleuth", "schema_version": 1, "version": "1", "evidence": [{"number": 0}]}
        ): r"evidence\[0\] .*: an object with path",
        json.dumps({"tool": "jobsleuth", "schema_version": 1, "version": "1", "files": []}): "files .*: an object",
        **{
            json.dumps({"tool": "jobsleuth", "schema_version": 1, "version": "1", "evidence": [{**WHOLE, **odd}]}): (
                rf"evidence\[0\]\.{next(iter(odd))} is of the wrong kind"
            )
            for odd in ({"checksum": "ok"}, {"as_of_ms": "soon"}, {"fault": 5}, {"path": None}, {"aux": []})
        },
    }.items():
        (tmp_path / "manifest.json").write_text(text)
        with pytest.raises(CaseError, match=why):
            open_case(tmp_path)
    (tmp_path / "manifest.json").write_bytes(b"\xff\xfe")
    with pytest.raises(CaseError, match="cannot be read"):
        open_case(tmp_path)


def test_manifest_round_trip_keeps_everything_and_passes_over_news(tmp_path: Path) -> None:
    """What a newer writer adds within the same table version does not stop an older reader."""
    info = evidence(aux={"redis-ver": "7.0.15"}, counts={"keys": 4}, databases={"0": {"keys": 4}})
    info.warnings.append(EvidenceWarning("k", "m\u202e", 1, 2))
    manifest = Manifest(version="9", options={"a": [1]}, evidence=[info], tables={"jobs": {"rows": 1}})
    text = manifest.to_json()
    assert text.isascii() and text.endswith("}\n")
    assert Manifest.from_json(text) == manifest
    data = json.loads(text)
    data["news"], data["evidence"][0]["news"] = 1, 2
    assert Manifest.from_json(json.dumps(data)) == manifest


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes on Linux only")
def test_evidence_paths_that_are_no_utf8(tmp_path: Path) -> None:
    """A file name is bytes: it goes through manifest, SQL and verify without harm."""
    dump = tmp_path / os.fsdecode(b"d\xff.rdb")
    dump.write_bytes(b"x")
    with CaseWriter(tmp_path / "c") as writer:
        writer.finish(Manifest(version="0", evidence=[evidence(path=str(dump))]))
    case = open_case(tmp_path / "c")
    assert case.manifest.evidence[0].path == str(dump)
    assert case.query("SELECT path FROM evidence").to_pylist()[0]["path"].endswith("d\\xff.rdb")
    assert "100" in case.verify()[0]


def test_a_forged_manifest_leads_nowhere(case: Case, tmp_path: Path) -> None:
    """Files of another case, or of a folder below, are not read as the table's."""
    build(tmp_path / "other", {"jobs": rows_of("jobs", [{"job_id": "theirs"}])}, [evidence(0)])
    path = case.path / "manifest.json"
    manifest = json.loads(path.read_text())
    for name in ("jobs/../../other/jobs/part-00000.parquet", "jobs//part-00000.parquet"):
        manifest["files"][name] = manifest["files"]["jobs/part-00000.parquet"]
    path.write_text(json.dumps(manifest))
    forged = open_case(case.path)
    assert forged.arrow("jobs", ["job_id"]).column("job_id").to_pylist() == ["0", "1", "2"]
    assert forged.sql("select count(*) as n from jobs").n[0] == 3
