"""Keyspace NDJSON read as evidence: every type, cut and broken files, repeated keys, the window, DUMP payloads."""

from __future__ import annotations

import base64
import gzip
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobsleuth.case import open_case
from jobsleuth.errors import EvidenceError
from jobsleuth.pipeline import AnalyzeOptions, analyze
from jobsleuth.sources import ReadOptions, open_keyspace, snapshot, write_keyspace

JOBSLEUTH = [sys.executable, "-m", "jobsleuth"]
HEAD = {
    "format": "jobsleuth-keyspace",
    "version": 1,
    "started_at_ms": 1_700_000_000_000,
    "finished_at_ms": 1_700_000_004_000,
    "redis_version": "7.0.15",
    "atomic": False,
    "as_of_ms": None,
}
B64 = {"b64": "/wD+"}
STREAM = {
    "entries": [["5-1", [["a", "1"]]], ["5-3", [["a", "2"], ["b", B64]]], ["7-0", []]],
    "last_id": "9-9",
    "entries_added": 7,
    "max_deleted_id": "5-2",
    "groups": [
        {
            "name": "g",
            "last_id": "7-0",
            "entries_read": None,
            "pending": [["5-1", "c", 123, 2], ["5-3", B64, 124, 1]],
            "consumers": [["c", 5, 6], [B64, 7, None], ["idle", 8, None]],
        },
        {"name": B64, "last_id": "0-0", "entries_read": 3, "pending": [], "consumers": []},
    ],
}
VALUES: list[tuple[str, Any]] = [
    ("string", "text é \u0000 \u001b[31m"),
    ("string", B64),
    ("string", ""),
    ("list", ["a", B64, "a", ""]),
    ("set", ["x", "y"]),
    ("zset", [["a", "-inf"], ["b", "0.10000000000000001"], ["c", "1700000000123"], [B64, "inf"]]),
    ("hash", [["f", "v"], [B64, ""]]),
    ("hash", [["f", "v"], ["g", "w", 1_700_000_100_000], ["h", "x", 1]]),
    ("stream", STREAM),
    ("stream", {"entries": [], "last_id": "0-0", "entries_added": None, "max_deleted_id": None, "groups": []}),
    ("array", {"items": [[0, "a"], [7, B64]], "len": 8}),
    ("vectorset", {"dim": 3, "elements": [["a", None], [B64, '{"x":1}']]}),
    ("module", {"module": "ReJSON-RL"}),
]


def key(name: Any, kind: str = "string", value: Any = "v", **more: Any) -> dict[str, Any]:
    return {"db": 0, "key": name, "type": kind, "expire_at_ms": None, "value": value, **more}


def every_type() -> list[dict[str, Any]]:
    keys = [key(f"k{n}", kind, value) for n, (kind, value) in enumerate(VALUES)]
    keys[2].update(db=15, expire_at_ms=1_700_000_000_001)
    return keys


def write(path: Path, lines: Iterable[Any], *, head: Any = HEAD, end: bool = True, **told: Any) -> Path:
    lines = list(lines)
    last = [{"end": True, "keys": len(lines), **told}] if end else []
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in [head, *lines, *last])
    path.write_bytes(text.encode())
    return path


def read_back(export: Path, folder: Path, **options: Any) -> list[dict[str, Any]]:
    """Its lines, as they come out of the snapshot that was made of it."""
    out = folder / "back.ndjson"
    out.unlink(missing_ok=True)
    write_keyspace(export, out, **options)
    return [json.loads(line) for line in out.read_text("utf-8").splitlines()]


def keys_of(export: Path, **options: Any) -> tuple[pa.Table, Any]:
    with snapshot(export) as source, open_keyspace(source, ReadOptions(**options)) as keyspace:
        return keyspace.keys, keyspace.facts


def test_every_type_comes_back_as_it_was(tmp_path: Path) -> None:
    """No value loses anything on its way through the temporary snapshot."""
    lines = every_type()
    back = read_back(write(tmp_path / "e.ndjson", lines), tmp_path)
    assert back == [HEAD, *lines, {"end": True, "keys": len(lines)}]


def test_members_in_any_order_and_unknown_ones(tmp_path: Path) -> None:
    """Exporters may write a value before its key, and members that are not known; line ends may be those of Windows."""
    shuffled = [dict(sorted({**line, "zz": {"a": [1, {"b": None}]}}.items(), reverse=True)) for line in every_type()]
    export = write(tmp_path / "e.ndjson", shuffled)
    export.write_bytes(export.read_bytes().replace(b"\n", b"\r\n\r\n"))
    assert read_back(export, tmp_path)[1:-1] == every_type()


def test_keys_say_where_they_stand(tmp_path: Path) -> None:
    """`offset` and `nbytes` are those of the line, `encoding` is what it tells."""
    export = write(tmp_path / "e.ndjson", [key("a", encoding="int"), key("b"), key("c", encoding="<b>")])
    table, facts = keys_of(export)
    text = export.read_bytes()
    for row in table.to_pylist():
        line = json.loads(text[row["offset"] : row["offset"] + row["nbytes"]])
        assert line["key"].encode() == row["key"]
    assert table.column("encoding").to_pylist() == ["int", None, None]
    assert (facts.format, facts.format_version, facts.aux) == ("keyspace-ndjson", 1, {"redis-ver": "7.0.15"})


@pytest.mark.parametrize("filler", [0, 3 << 20], ids=["in memory still", "on disk already"])
def test_a_key_seen_twice_is_kept_as_it_was_last(tmp_path: Path, filler: int) -> None:
    """The later line wins, whatever its type and wherever the earlier one is by then; the count is told."""
    lines = [key("a", "list", ["1"] * 30), key("b"), key("big", value="x" * filler), key("a", value="new"), key("a")]
    export = write(tmp_path / "e.ndjson", lines)
    back = read_back(export, tmp_path)
    assert [line.get("key") for line in back] == [None, "b", "big", "a", None]
    assert back[3] == lines[4]
    _, facts = keys_of(export)
    assert [(r.kind, r.count) for r in facts.remarks] == [("keys_seen_twice", 2)]


def test_an_entry_of_any_size_can_be_hidden(tmp_path: Path) -> None:
    """What stands in the place of a replaced entry has exactly its size, from the smallest to pieces of megabytes."""
    sizes = [*range(80), 16_380, 16_390, 70_000, 1 << 20, (2 << 20) + 1, 5_000_000]
    lines = [key(f"k{n}", value="x" * size) for n, size in enumerate(sizes)]
    export = write(tmp_path / "e.ndjson", [*lines, *({**line, "value": "new"} for line in lines)])
    back = read_back(export, tmp_path)
    assert [line["value"] for line in back[1:-1]] == ["new"] * len(sizes)


def test_cut_anywhere_what_is_whole_is_used(tmp_path: Path) -> None:
    """Cut at every byte behind the first line: each whole line is there, and the cut is told, with its place."""
    whole = write(tmp_path / "e.ndjson", [key(f"k{n}", kind, value) for n, (kind, value) in enumerate(VALUES[:9])])
    text = whole.read_bytes()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    cut = tmp_path / "cut.ndjson"
    for size in range(starts[1], len(text) - 1):
        cut.write_bytes(text[:size])
        table, facts = keys_of(cut)
        # A line is whole with its brace, the line feed may be missing.
        begun = [s for s in starts[1:] if s <= size]
        whole_lines = sum(1 for end in starts[2:-1] if end - 1 <= size)
        assert table.num_rows == whole_lines, size
        assert facts.fault is not None
        assert facts.fault["kind"] == "cut_short"
        assert facts.fault["offset"] in (begun[-1], size)


def test_cut_short_makes_findings_possible_only(tmp_path: Path) -> None:
    """What is missing may explain anything: the case says that the export was cut, and is sure of nothing."""
    orphan = [key("bull:q:meta", "hash", [["opts.maxLenEvents", "10000"], ["version", "bullmq:5.0.0"]])]
    orphan += [key("bull:q:wait", "list", ["1"]), key("bull:q:id", value="1")]
    for name, end, certainty in (("whole", True, "certain"), ("cut", False, "possible")):
        head = {**HEAD, "atomic": True, "as_of_ms": 1_700_000_000_000}
        export = write(tmp_path / f"{name}.ndjson", orphan, head=head, end=end)
        case = analyze([export], tmp_path / name, AnalyzeOptions())
        found = {row["check_id"]: row["certainty"] for row in case.arrow("findings").to_pylist()}
        assert found["MB001"] == certainty
        assert ("EV002" in found) is not end


def test_the_window_is_the_time(tmp_path: Path) -> None:
    """An export that took a while shows no instant: its as-of is an interval, and a moving job explains findings."""
    lines = [key("bull:q:meta", "hash", [["version", "bullmq:5.0.0"]]), key("bull:q:wait", "list", ["1"])]
    case = analyze([write(tmp_path / "e.ndjson", lines)], tmp_path / "case", AnalyzeOptions())
    info = case.manifest.evidence[0]
    assert (info.as_of_from_ms, info.as_of_ms) == (1_700_000_000_000, 1_700_000_004_000)
    assert (info.as_of_source, info.atomic) == ("window", False)
    found = {row["check_id"]: row["certainty"] for row in case.arrow("findings").to_pylist()}
    assert found["MB001"] == "possible"


@pytest.mark.parametrize("ms", [2**63 - 1, 2**50, 0, -1, -(2**63)])
def test_times_that_no_clock_shows(tmp_path: Path, ms: int) -> None:
    """Whoever wrote the export chose them: they are left out, and told; the other times stand."""
    export = write(
        tmp_path / "e.ndjson", [key("a")], head={**HEAD, "atomic": False, "as_of_ms": ms, "started_at_ms": 5}
    )
    with snapshot(export) as source, open_keyspace(source) as keyspace:
        assert (keyspace.as_of.from_ms, keyspace.as_of.ms) == (5, HEAD["finished_at_ms"])
        assert [(r.kind, r.count) for r in keyspace.facts.remarks] == [("impossible_time", 1)]
    info = analyze([export], tmp_path / "case", AnalyzeOptions()).manifest.evidence[0]
    assert info.as_of_ms == HEAD["finished_at_ms"]


def test_the_last_line_may_tell_when_it_ended(tmp_path: Path) -> None:
    """Who writes as it reads knows the end only at the end; without an end the last time of a key counts."""
    head = {**HEAD, "finished_at_ms": None}
    lines = [key("a", seen_at_ms=1_700_000_001_000), key("b", seen_at_ms=1_700_000_000_500)]
    for end, told, expected in ((True, {"finished_at_ms": 1_700_000_009_000}, 9), (False, {}, 1)):
        export = write(tmp_path / "e.ndjson", lines, head=head, end=end, **told)
        with snapshot(export) as source, open_keyspace(source) as keyspace:
            assert keyspace.as_of.ms == 1_700_000_000_000 + expected * 1000
    export = write(tmp_path / "e.ndjson", lines, vanished=3)
    _, facts = keys_of(export)
    assert [(r.kind, r.count) for r in facts.remarks] == [("keys_vanished", 3)]


BROKEN = {
    "no JSON": b"nonsense",
    "no object": b"[1]",
    "a comma too many": b'{"db":0,"key":"x","type":"string","expire_at_ms":null,"value":"v",}',
    "half a pair": b'{"db":0,"key":"\\ud800","type":"string","expire_at_ms":null,"value":"v"}',
    "not UTF-8": b'{"db":0,"key":"\xff","type":"string","expire_at_ms":null,"value":"v"}',
    "no base64": b'{"db":0,"key":{"b64":"*"},"type":"string","expire_at_ms":null,"value":"v"}',
    "a raw line feed": b'{"db":0,"key":"a\nb","type":"string","expire_at_ms":null,"value":"v"}',
    "no such type": b'{"db":0,"key":"x","type":"tree","expire_at_ms":null,"value":"v"}',
    "no value": b'{"db":0,"key":"x","type":"string","expire_at_ms":null}',
    "value of another type": b'{"db":0,"key":"x","type":"list","expire_at_ms":null,"value":"v"}',
    "score": b'{"db":0,"key":"x","type":"zset","expire_at_ms":null,"value":[["a","1.5x"]]}',
    "database": b'{"db":-1,"key":"x","type":"string","expire_at_ms":null,"value":"v"}',
    "time": b'{"db":0,"key":"x","type":"string","expire_at_ms":1.5,"value":"v"}',
    "key twice": b'{"db":0,"key":"x","key":"y","type":"string","expire_at_ms":null,"value":"v"}',
    "two objects": b'{"db":0,"key":"x","type":"string","expire_at_ms":null,"value":"v"} {}',
    "nested": b'{"zz":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "dump": b'{"db":0,"key":"x","type":"string","expire_at_ms":null,"dump":"AAFhCgAAAAAAAAAAAA=="}',
    "stream id": b'{"db":0,"key":"x","type":"stream","expire_at_ms":null,"value":{"entries":[["1",[]]]}}',
    "module without a name": b'{"db":0,"key":"x","type":"module","expire_at_ms":null,"value":{}}',
}


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN)
def test_a_broken_line_is_an_error_with_its_place(tmp_path: Path, line: bytes) -> None:
    """The error names the line and a byte inside it; with salvage everything before it is there."""
    export = write(tmp_path / "e.ndjson", [key("a"), key("b")], end=False)
    start = export.stat().st_size
    with export.open("ab") as file:
        file.write(line + b"\n" + json.dumps(key("c")).encode() + b"\n")
    with pytest.raises(EvidenceError, match="line 4") as caught:
        keys_of(export)
    assert caught.value.offset is not None
    assert start <= caught.value.offset <= start + len(line)
    assert "(at byte" not in caught.value.message
    assert "--salvage" in (caught.value.hint or "")
    table, facts = keys_of(export, salvage=True)
    assert table.column("key").to_pylist() == [b"a", b"b"]
    assert facts.fault is not None


def test_the_first_line_must_be_understood(tmp_path: Path) -> None:
    """An export of a later version is refused, not half understood."""
    with pytest.raises(EvidenceError, match="version 2"):
        keys_of(write(tmp_path / "e.ndjson", [], head={**HEAD, "version": 2}))


def test_counts_that_differ_and_bytes_behind_the_end_are_told(tmp_path: Path) -> None:
    """Nothing is passed over in silence."""
    export = write(tmp_path / "e.ndjson", [key("a"), {"no": "key"}])
    with export.open("ab") as file:
        file.write(b'{"more":1}\n')
    _, facts = keys_of(export)
    assert {r.kind for r in facts.remarks} == {"key_count_differs", "line_without_key", "trailing_bytes"}


def test_packed_and_piped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """gzip and zstd are unpacked on the way, and a compressed export of a repeated line cannot fill the disk."""
    export = write(tmp_path / "e.ndjson", every_type())
    packed = tmp_path / "e.ndjson.gz"
    packed.write_bytes(gzip.compress(export.read_bytes()))
    zstd = tmp_path / "e.ndjson.zst"
    with pa.CompressedOutputStream(pa.OSFile(str(zstd), "wb"), "zstd") as out:
        out.write(export.read_bytes())
    expected, _ = keys_of(export)
    for path in (packed, zstd):
        table, _ = keys_of(path)
        assert table.equals(expected)


@pytest.mark.parametrize("time", [-5, 0, 1 << 50])
def test_field_times_beyond_any_server(tmp_path: Path, time: int) -> None:
    """A time that no server holds is brought to the nearest, and told."""
    export = write(tmp_path / "e.ndjson", [key("h", "hash", [["f", "v", time]])])
    back = read_back(export, tmp_path)
    assert back[1]["value"] == [["f", "v", max(1, min(time, (1 << 48) - 1))]]
    _, facts = keys_of(export)
    assert [r.kind for r in facts.remarks] == ["field_times_clamped"]


CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "servers"
PAYLOADS = sorted(CORPUS.glob("*/dump-payloads.json"))


@pytest.mark.corpus
@pytest.mark.skipif(not PAYLOADS, reason="the shared corpus is absent: NO real DUMP payload was read")
@pytest.mark.parametrize("file", PAYLOADS, ids=lambda p: p.parent.name)
def test_dump_payloads_of_real_servers(file: Path, tmp_path: Path) -> None:
    """Payloads that 20 server builds answered to DUMP give the values that the same servers told."""

    spec = importlib.util.spec_from_file_location("compare_cat", CORPUS.parent / "compare_cat.py")
    assert spec is not None
    assert spec.loader is not None
    comparison = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(comparison)
    truth = json.loads(file.read_text())
    lines = []
    for db, keys in truth["databases"].items():
        for told in keys:
            name = base64.b64decode(told["key"])
            lines.append(
                {
                    "db": int(db),
                    "key": {"b64": base64.b64encode(name).decode()},
                    "type": told["type"],
                    "expire_at_ms": told["expire_at_ms"],
                    "dump": told["payload"],
                }
            )
    assert lines
    out = tmp_path / "back.ndjson"
    write_keyspace(write(tmp_path / "e.ndjson", lines), out)
    assert comparison.differences(truth, comparison.parse(out.read_bytes()), truth["saved_between_ms"][1]) == []


def test_cat_into_analyze(tmp_path: Path) -> None:
    """`jobsleuth cat DUMP | jobsleuth analyze -`: an export through standard input makes a case."""
    fixture = Path(__file__).parents[2] / "fixtures" / "bullmq" / "v5-healthy" / "evidence.rdb"
    export = subprocess.run([*JOBSLEUTH, "cat", fixture], check=True, capture_output=True).stdout
    done = subprocess.run(
        [*JOBSLEUTH, "analyze", "-", "--out", tmp_path / "case"], input=export, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    info = open_case(tmp_path / "case").manifest.evidence[0]
    assert (info.format, info.streamed, info.bytes) == ("keyspace-ndjson", True, len(export))
