"""Writing cases: every row, in order, or nothing at all."""

from __future__ import annotations

import hashlib
import random
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from jobsleuth.case import TABLES, CaseWriter, Manifest, conform, open_case, store, table_file
from jobsleuth.errors import CaseError
from tests.tables import T, build, evidence, rows_of

_TEXT = pa.dictionary(pa.int32(), pa.string())


def test_every_table_has_a_file_and_a_row_count(tmp_path: Path) -> None:
    """A reader may open any table of any case: an empty one is a file with zero rows."""
    case = build(tmp_path / "c", {"queues": rows_of("queues", [{}])})
    for table in TABLES:
        (file,) = (tmp_path / "c" / table.name).glob("*.parquet")
        read = pq.read_table(file, partitioning=None)
        assert read.schema.equals(table.schema), table.name
        assert read.num_rows == case.manifest.tables[table.name]["rows"] == (table.name == "queues")


def test_columns_of_every_kind_survive(tmp_path: Path) -> None:
    """Texts, bytes, maps, lists, times beyond 2262 and before 1970, unsigned 64-bit offsets: out as they went in."""
    job = {
        "job_id": "ü\u0000\u202e",
        "job_id_bytes": "\xff\x00",
        "payload": "\x00\x01",
        "result": None,
        "created_at": -1,
        "finished_at": 253_402_300_799_999,
        "unknown_fields": ["99:varint"],
        "rest": {"opts": b"{}", "odd\n": b"\xff"},
        "group": "",
        "priority": -(2**63),
        "has_record": True,
    }
    key = {"key": "k", "offset": 2**64 - 1, "nbytes": 0, "expired": None}
    case = build(tmp_path / "c", {"jobs": rows_of("jobs", [job]), "keys": rows_of("keys", [key])})
    (got,) = (
        case.arrow("jobs")
        .select([*job, "state"])
        .cast(
            pa.schema(
                [
                    f if f.name not in ("created_at", "finished_at") else f.with_type(pa.int64())
                    for f in case.arrow("jobs").select([*job, "state"]).schema
                ]
            )
        )
        .to_pylist()
    )
    assert got == {
        **job,
        "job_id_bytes": b"\xff\x00",
        "payload": b"\x00\x01",
        "rest": [("opts", b"{}"), ("odd\n", b"\xff")],
        "state": None,
    }
    assert case.arrow("keys", ["offset"]).to_pylist() == [{"offset": 2**64 - 1}]


def test_pieces_with_other_dictionaries_stay_dictionaries_and_keep_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches from different places bring different dictionaries; rows keep their order over many row groups."""
    monkeypatch.setattr(store, "GROUP_ROWS", 1_000)
    rng = random.Random(7)
    words = [f"q{i}" for i in range(50)]
    expected: list[str] = []
    with CaseWriter(tmp_path / "c") as writer:
        for _ in range(40):
            some = [rng.choice(words) for _ in range(rng.randrange(400))]
            expected += some
            batch = pa.RecordBatch.from_pydict({"queue": pa.array(some, pa.string()).cast(_TEXT)})
            writer.append("membership", batch)
        case = writer.finish(Manifest(version="0"))
    (file,) = (tmp_path / "c" / "membership").iterdir()
    metadata = pq.ParquetFile(file).metadata
    assert metadata.num_row_groups > 3
    read = case.arrow("membership", ["queue"])
    assert read.schema.field("queue").type == _TEXT
    assert read.column("queue").cast(pa.string()).to_pylist() == expected
    assert case.query("SELECT count(*) AS n, count(DISTINCT queue) AS q FROM membership").to_pylist() == [
        {"n": len(expected), "q": len(set(expected))}
    ]
    for number in range(metadata.num_row_groups):
        chunk = metadata.row_group(number)
        column = next(chunk.column(i) for i in range(chunk.num_columns) if chunk.column(i).path_in_schema == "queue")
        assert "RLE_DICTIONARY" in column.encodings and column.compression == "LZ4"


def test_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    """Two runs over the same evidence differ in no byte, whatever the threads do."""
    for name in ("a", "b"):
        with CaseWriter(tmp_path / name) as writer:
            for i in range(30):
                writer.append(
                    "jobs", rows_of("jobs", [{"job_id": str(i), "payload": "x" * i, "created_at": T + i}] * 99)
                )
                writer.append("membership", rows_of("membership", [{"job_id": str(i), "score": i / 3}] * 7))
            writer.finish(Manifest(version="0", evidence=[evidence()]))
    files = [sorted(p.relative_to(tmp_path / n) for p in (tmp_path / n).rglob("*") if p.is_file()) for n in ("a", "b")]
    assert files[0] == files[1]
    for file in files[0]:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file


def test_big_columns_have_chunks_of_their_own_without_statistics(tmp_path: Path) -> None:
    """Statistics of a payload column would hold payloads; its chunk lies apart, so readers of others never touch it."""
    build(tmp_path / "c", {"jobs": rows_of("jobs", [{"job_id": "1", "payload": "secret", "result": "r"}])})
    (file,) = (tmp_path / "c" / "jobs").iterdir()
    chunk = pq.ParquetFile(file).metadata.row_group(0)
    columns = {chunk.column(i).path_in_schema: chunk.column(i) for i in range(chunk.num_columns)}
    assert columns["payload"].statistics is None
    assert columns["job_id"].statistics.has_min_max


def test_the_manifest_lists_every_file_with_its_hash(tmp_path: Path) -> None:
    """The hash is that of the bytes on disk, for files that others put into the folder, too."""
    with CaseWriter(tmp_path / "c") as writer:
        (writer.folder / "report.html").write_text("<p>", encoding="utf-8")
        writer.finish(Manifest(version="0"))
    case = open_case(tmp_path / "c")
    on_disk = {p.relative_to(tmp_path / "c").as_posix() for p in (tmp_path / "c").rglob("*") if p.is_file()}
    assert set(case.manifest.files) == on_disk - {"manifest.json"}
    for name, facts in case.manifest.files.items():
        data = (tmp_path / "c" / name).read_bytes()
        assert facts == {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def test_preview_shows_rows_so_far_and_later_rows_still_come(tmp_path: Path) -> None:
    """Checks judge the preview; their findings are written after it, and an empty preview leaves no empty part."""
    with CaseWriter(tmp_path / "c") as writer:
        writer.append("jobs", rows_of("jobs", [{"job_id": "1"}]))
        with writer.preview(Manifest(version="0", evidence=[evidence()])) as seen:
            assert seen.query("SELECT count(*) AS n FROM jobs").to_pylist() == [{"n": 1}]
            assert seen.query("SELECT count(*) AS n FROM events").to_pylist() == [{"n": 0}]
            assert not {"checks", "findings"} & set(seen.tables)
        writer.append("jobs", rows_of("jobs", [{"job_id": "2"}]))
        writer.append("events", rows_of("events", [{"job_id": "1"}]))
        writer.append("findings", rows_of("findings", [{"message": "m"}]))
        case = writer.finish(Manifest(version="0"))
    assert case.arrow("jobs", ["job_id"]).column(0).to_pylist() == ["1", "2"]
    assert [len(files) for files in case.tables.values()] == [1, 2, *[1] * (len(TABLES) - 2)]
    assert case.verify() == []


def test_nothing_is_left_when_the_run_fails(tmp_path: Path) -> None:
    """An error in the middle leaves neither the case nor the hidden folder."""
    with pytest.raises(RuntimeError), CaseWriter(tmp_path / "c") as writer:
        writer.append("jobs", rows_of("jobs", [{"job_id": "1"}]))
        writer.preview(Manifest(version="0"))
        raise RuntimeError
    with CaseWriter(tmp_path / "c"):
        pass  # never finished
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_error_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers run in the background: what goes wrong there surfaces as an error that names the output."""

    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(table_file.TableFile, "write", full)
    monkeypatch.setattr(store, "GROUP_ROWS", 1)
    with pytest.raises(CaseError, match="No space left on device") as failed, CaseWriter(tmp_path / "c") as writer:
        for _ in range(100):
            writer.append("jobs", rows_of("jobs", [{"job_id": "1"}]))
    assert failed.value.file == str(tmp_path / "c")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_output_is_refused_and_forced_only_over_a_case(tmp_path: Path) -> None:
    """--force replaces a case or an empty folder, never anything else."""
    build(tmp_path / "c", {})
    with pytest.raises(CaseError, match="exists"), CaseWriter(tmp_path / "c"):
        pass
    with CaseWriter(tmp_path / "c", force=True) as writer:
        writer.append("jobs", rows_of("jobs", [{"job_id": "new"}]))
        writer.finish(Manifest(version="1"))
    assert open_case(tmp_path / "c").manifest.version == "1"
    for name, make in {
        "file": lambda p: p.write_text("x"),
        "folder": lambda p: (p.mkdir(), (p / "mine.txt").write_text("x")),
        "fake": lambda p: (p.mkdir(), (p / "manifest.json").write_text("[]")),
        "link": lambda p: p.symlink_to(tmp_path / "nowhere" / "x"),
    }.items():
        make(tmp_path / name)
        with pytest.raises(CaseError), CaseWriter(tmp_path / name, force=True):
            pass
    (tmp_path / "empty").mkdir()
    with CaseWriter(tmp_path / "empty", force=True) as writer:
        writer.finish(Manifest(version="2"))
    assert (tmp_path / "folder" / "mine.txt").read_text() == "x"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c", "empty", "fake", "file", "folder", "link"]


def test_the_old_case_stays_when_the_new_one_fails(tmp_path: Path) -> None:
    """--force removes the old case only once the new one is complete."""
    build(tmp_path / "c", {"jobs": rows_of("jobs", [{"job_id": "old"}])})
    with pytest.raises(RuntimeError), CaseWriter(tmp_path / "c", force=True) as writer:
        writer.append("jobs", rows_of("jobs", [{"job_id": "new"}]))
        raise RuntimeError
    assert open_case(tmp_path / "c").arrow("jobs", ["job_id"]).to_pylist() == [{"job_id": "old"}]
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_a_missing_parent_is_an_error_with_a_hint(tmp_path: Path) -> None:
    """Nothing is created outside the output itself."""
    with pytest.raises(CaseError, match="parent folder") as failed, CaseWriter(tmp_path / "a" / "c"):
        pass
    assert failed.value.hint and list(tmp_path.iterdir()) == []


def test_a_name_that_is_no_text_is_refused_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither Arrow nor DuckDB opens such a file: told at once, for the case and for the folder of temporary files."""
    odd = tmp_path / b"case-\xff".decode("utf-8", "surrogateescape")
    with pytest.raises(CaseError, match="is no UTF-8"), CaseWriter(odd):
        pass
    assert list(tmp_path.iterdir()) == []
    case = build(tmp_path / "c", {})
    monkeypatch.setattr(tempfile, "tempdir", str(odd))
    with pytest.raises(CaseError, match="is no UTF-8") as told:
        case.connect()
    assert told.value.hint == "let TMPDIR name another folder for temporary files"


def test_conform_orders_casts_and_fills() -> None:
    """Writers give what they know in any order; the rest is null; a column that is not ours is a mistake."""
    table = conform("membership", pa.table({"structure": ["wait"], "evidence": pa.array([0], pa.int64())}))
    assert table.schema == next(t.schema for t in TABLES if t.name == "membership")
    assert table.column("structure").to_pylist() == ["wait"] and table.column("job_id").null_count == 1
    assert pc.sum(table.column("evidence")).as_py() == 0
    with pytest.raises(KeyError, match="colour"):
        conform("membership", pa.table({"colour": ["red"]}))
