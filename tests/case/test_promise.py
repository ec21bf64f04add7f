"""The promise about tables: columns are pinned, changes are told, older and newer cases open or say why not."""

from __future__ import annotations

import json
import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobsleuth.case import SCHEMA_VERSION, TABLES, Case, open_case
from jobsleuth.checks import run_checks
from jobsleuth.errors import CaseError, UsageError
from tests.tables import build, rows_of

ROOT = Path(__file__).parents[2]
PINNED = Path(__file__).with_name("tables.json")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
_TELL = (
    "A column that is gone or has another type breaks what others wrote: raise SCHEMA_VERSION. Either way write a line"
    " with its name into CHANGELOG.md, then refresh the pin: python -m tests.case.test_promise"
)


def promised() -> dict[str, dict[str, str]]:
    """Table → column → Arrow type, as the code has them."""
    return {t.name: {c.name: str(c.type) for c in t.columns} for t in TABLES}


def pinned() -> dict[str, object]:
    """What the committed file has: version of the schema, tables, and columns that came after the first release."""
    loaded: dict[str, object] = json.loads(PINNED.read_text(encoding="utf-8"))
    return loaded


def test_no_column_changes_unnoticed() -> None:
    """Names, order and types of all columns are those of the committed file."""
    then = pinned()
    assert (SCHEMA_VERSION, promised()) == (then["schema_version"], then["tables"]), _TELL


def test_the_changelog_names_the_version_and_every_later_column() -> None:
    """The version of the schema is in the changelog, and so is each column that is not of the first release."""
    assert re.search(rf"[Tt]able schema version {SCHEMA_VERSION}\b", CHANGELOG)
    assert [name for name in pinned()["later"] if f"`{name}`" not in CHANGELOG] == [], _TELL  # type: ignore[attr-defined]


def test_every_table_is_in_the_changelog() -> None:
    """A new table is news."""
    assert [t.name for t in TABLES if not re.search(rf"\b{t.name}\b", CHANGELOG)] == []


def older(folder: Path) -> Case:
    """A case as it was before `jobs.has_record`, `findings.basis` and the table `logs` came."""
    made = build(folder, {"jobs": rows_of("jobs", [{"job_id": "1", "state": "waiting"}])})
    for table, column in (("jobs", "has_record"), ("findings", "basis")):
        (file,) = (folder / table).glob("*.parquet")
        pq.write_table(pq.read_table(file, partitioning=None).drop_columns([column]), file)
    (logs,) = (folder / "logs").glob("*.parquet")
    logs.unlink()
    manifest = made.manifest
    del manifest.files["logs/part-00000.parquet"], manifest.tables["logs"]
    (folder / "manifest.json").write_text(manifest.to_json())
    return open_case(folder)


def test_what_an_older_case_lacks_is_null_and_empty(tmp_path: Path) -> None:
    """pandas, Arrow and SQL see the columns of today; none of them fails because the case is older."""
    case = older(tmp_path / "case")
    types = {t.name: t.schema for t in TABLES}
    for name, schema in types.items():
        assert set(case.arrow(name).column_names) == set(schema.names)
        assert set(case.query(f"select * from {name} limit 0").column_names) == set(schema.names)
    assert case.arrow("jobs", ["job_id", "has_record"]).to_pylist() == [{"job_id": "1", "has_record": None}]
    assert case.arrow("jobs").schema.field("has_record").type == pa.bool_()
    assert case.jobs["has_record"].isna().tolist() == [True]
    assert case.query("select job_id, has_record from jobs").to_pylist() == [{"job_id": "1", "has_record": None}]
    assert len(case.findings) == len(case.logs) == case.query("select * from logs").num_rows == 0
    with pytest.raises(UsageError, match="no column colour"):
        case.arrow("jobs", ["colour"])


def test_checks_do_not_call_clean_what_they_could_not_see(tmp_path: Path) -> None:
    """A column that is null because the case is too old judges nothing: the check could not run, and says why."""
    rows = {row["check_id"]: row for row in run_checks(older(tmp_path / "case")).checks.to_pylist()}
    assert rows["MB001"]["status"] == "could_not_run"
    assert rows["MB001"]["reason"] == "the case's table jobs has no column has_record"
    assert rows["MB004"]["status"] == "ran"


@pytest.mark.parametrize(
    ("version", "why", "hint"),
    [
        (SCHEMA_VERSION + 1, f"jobsleuth 9.9.9 wrote it with table version {SCHEMA_VERSION + 1}", "9.9.9 or later"),
        (0, "table version 0", "make it anew"),
        (True, "table version True", "make it anew"),
        (None, "table version None", "make it anew"),
        ("1", "table version 1", "make it anew"),
    ],
)
def test_a_case_of_another_version_says_what_to_do(tmp_path: Path, version: object, why: str, hint: str) -> None:
    """The message has both versions, the hint the way out; nothing is read half."""
    build(tmp_path / "case", {})
    file = tmp_path / "case" / "manifest.json"
    stored = json.loads(file.read_text())
    file.write_text(json.dumps({**stored, "schema_version": version, "version": "9.9.9"}))
    with pytest.raises(CaseError, match=re.escape(why)) as failed:
        open_case(tmp_path / "case")
    assert hint in (failed.value.hint or "")
    assert failed.value.file == str(file)


def test_the_version_in_a_message_is_harmless(tmp_path: Path) -> None:
    """The manifest may be anybody's: its words do not act on the terminal."""
    build(tmp_path / "case", {})
    file = tmp_path / "case" / "manifest.json"
    stored = json.loads(file.read_text())
    file.write_text(json.dumps({**stored, "schema_version": 99, "version": "\u001b[2J\n"}))
    with pytest.raises(CaseError) as failed:
        open_case(tmp_path / "case")
    assert not {"\u001b", "\n"} & set(f"{failed.value}{failed.value.hint}")


@pytest.mark.parametrize("read", ["jobs", "pandas", "arrow", "polars", "sql", "query"])
def test_a_large_case_is_not_read_whole_by_accident(tmp_path: Path, read: str) -> None:
    """Above the limit nothing is read and the error says what to do; less is given, and without a limit everything."""
    jobs = [{"job_id": str(n), "payload": "x" * 2000, "error": "y" * 2000} for n in range(200)]
    case = build(tmp_path / "case", {"jobs": rows_of("jobs", jobs)})
    case.most_bytes = 20_000
    asked = {
        "jobs": lambda: case.jobs,
        "pandas": lambda: case.pandas("jobs"),
        "arrow": lambda: case.arrow("jobs"),
        "polars": lambda: case.polars("jobs"),
        "sql": lambda: case.sql("select repeat(job_id, 200) from jobs"),
        "query": lambda: case.query("select repeat(job_id, 200) from jobs"),
    }[read]
    with pytest.raises(UsageError, match=r"the limit") as failed:
        asked()
    assert "stream()" in (failed.value.hint or "")
    assert len(case.pandas("jobs", ["job_id"])) == case.sql("select count(*) as n from jobs").n[0] == 200
    assert sum(len(piece) for piece in case.stream("select * from jobs")) == 200
    case.most_bytes = None
    assert len(asked()) == 200


def test_a_long_name_counts_as_often_as_it_is_written_out(tmp_path: Path) -> None:
    """300 jobs whose queue, and whose one stored field, have a name of 100,000 characters: 0.2 MB in the file, 30 MB as
    plain text in pandas and in a map of Arrow. Arrow has the name of the queue once, and may have it."""
    long = "q" * 100_000
    jobs = [{"job_id": str(n), "queue": long, "rest": {"f" * 100_000: "v"}} for n in range(300)]
    case = build(tmp_path / "case", {"jobs": rows_of("jobs", jobs)})
    case.most_bytes = 5_000_000
    assert case.stored_bytes("jobs", ["queue", "rest"]) < 500_000
    for ask in (lambda: case.jobs, lambda: case.pandas("jobs", ["queue"]), lambda: case.arrow("jobs", ["rest"])):
        with pytest.raises(UsageError, match=r"300 rows of jobs .*take more than the limit of 5\.00 MB") as failed:
            ask()
        assert failed.value.file == str(case.path) and "stream()" in (failed.value.hint or "")
    assert case.arrow("jobs", ["queue"]).column("queue").to_pylist() == [long] * 300
    case.most_bytes = 40_000_000
    assert case.pandas("jobs", ["queue"]).queue.tolist() == [long] * 300
    assert case.arrow("jobs", ["rest"]).column("rest")[299].as_py() == [("f" * 100_000, b"v")]


def test_a_stream_in_hand_blocks_nobody(tmp_path: Path) -> None:
    """Between the pieces of a large result other queries are answered, another stream too; and the rest still comes."""
    jobs = [{"job_id": str(n)} for n in range(10)]
    case = build(tmp_path / "case", {"jobs": rows_of("jobs", jobs)})
    stream = case.stream("select * from range(200_000)")
    first = stream.read_next_batch().num_rows
    assert case.sql("select count(*) as n from jobs").n[0] == 10
    other = case.stream("select job_id from jobs")
    assert other.read_next_batch().num_rows == 10
    assert first + sum(piece.num_rows for piece in stream) == 200_000
    with pytest.raises(UsageError, match="SQL: "):
        case.stream("select nothing from nowhere")
    thrown_away = case.stream("select * from range(200_000)")
    case.close()
    del thrown_away
    assert case.sql("select count(*) as n from jobs").n[0] == 10


def test_polars_has_the_same_values(tmp_path: Path) -> None:
    """The same rows as Arrow, columns in the order asked for; and lazily from the files that `tables` names."""
    polars = pytest.importorskip("polars", reason="polars is not installed: NOTHING was compared with it")
    jobs = [{"job_id": "a", "state": "waiting", "payload": "{}"}, {"job_id": "b", "state": "failed"}]
    case = build(tmp_path / "case", {"jobs": rows_of("jobs", jobs)})
    frame = case.polars("jobs", ["payload", "job_id"])
    assert frame.columns == ["payload", "job_id"]
    assert frame.rows() == [(b"{}", "a"), (None, "b")]
    assert case.polars("jobs").height == 2
    assert set(case.polars("findings").columns) == set(case.arrow("findings").column_names)
    lazy = polars.scan_parquet(case.tables["jobs"]).filter(polars.col("state").cast(str) == "failed").select("job_id")
    assert lazy.collect().rows() == [("b",)]


def test_views_say_which_columns_an_older_case_lacks(tmp_path: Path) -> None:
    """Whoever looks at the connection can tell null from not written."""
    case = older(tmp_path / "case")
    with case.connect() as connection:
        told = connection.execute(
            "select table_name, column_name from duckdb_columns() where comment is not null and table_name <> 'logs'"
        ).fetchall()
        with pytest.raises(duckdb.Error):
            connection.execute("insert into logs select * from logs")
    assert sorted(told) == [("findings", "basis"), ("jobs", "has_record")]


if __name__ == "__main__":
    before = pinned() if PINNED.exists() else {"tables": promised(), "later": []}
    known: dict[str, dict[str, str]] = before["tables"]  # type: ignore[assignment]
    new = [f"{t}.{c}" for t, columns in promised().items() for c in columns if c not in known.get(t, {})]
    released = re.search(r"^## [0-9.]+(?![0-9.]| \(unreleased\))", CHANGELOG, re.MULTILINE)
    later = sorted({*before["later"], *(new if released else [])})  # type: ignore[misc]
    text = json.dumps({"schema_version": SCHEMA_VERSION, "later": later, "tables": promised()}, indent=1)
    PINNED.write_text(text + "\n", encoding="utf-8")
