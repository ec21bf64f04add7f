"""The native core against a real server: what it reads from a saved file is what the server answered before saving."""

from __future__ import annotations

import ast
import inspect
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from jobsleuth.keyspace import Projected, projection_json
from jobsleuth.sources import _native
from tests.conftest import RedisServer
from tests.sources.native.served import MAX, Dump, grouped, keys_of, numbers, open_index, read, saved

pytestmark = pytest.mark.integration


def test_keys_are_the_servers_keys(dump: Dump) -> None:
    """Every key is there once, with the server's type, expiry and, where the name says it, encoding."""
    index = open_index(dump.path)
    table = pa.table(index.keys())
    table.validate(full=True)
    keys = keys_of(index)
    assert len(keys) == len(set(keys))
    assert set(keys) == set(dump.types)
    assert dict(zip(keys, table["type"].to_pylist(), strict=True)) == dump.types
    assert dict(zip(keys, table["expire_at"].to_pylist(), strict=True)) == dump.expiries
    told = dict(zip(keys, table["encoding"].to_pylist(), strict=True))
    for at, encoding in dump.encodings.items():
        # On disk every string is one of three, and a list of any size is a quicklist.
        if dump.types[at] not in ("string", "list"):
            assert told[at] == encoding, at
    assert (told[0, b"s:int"], told[0, b"s:zip"], told[0, b"s:noise"]) == ("int", "lzf", "raw")


def test_places_cover_the_file(dump: Dump) -> None:
    """Entries follow each other: the bytes of an entry are its own, from its first modifier on."""
    table = pa.table(open_index(dump.path).keys())
    offset, nbytes = table["offset"].to_numpy(), table["nbytes"].to_numpy()
    ends = offset + nbytes
    assert (ends[:-1] <= offset[1:]).all()
    same_db = table["db"].to_numpy()[1:] == table["db"].to_numpy()[:-1]
    assert (ends[:-1][same_db] == offset[1:][same_db]).all()


def test_element_counts(dump: Dump) -> None:
    """`elements` is what LLEN, SCARD, ZCARD, HLEN and XLEN say; strings have none."""
    index = open_index(dump.path)
    for at, n in zip(keys_of(index), pa.table(index.keys())["elements"].to_pylist(), strict=True):
        if dump.types[at] == "string":
            assert n is None
        elif n is not None:
            assert n == len(dump.values[at]), at


def test_elements_are_the_servers_elements(dump: Dump) -> None:
    """Lists in order, sets, sorted sets by rank with their scores, hashes: as LRANGE, SMEMBERS, ZRANGE, HGETALL say."""
    index = open_index(dump.path)
    keys = keys_of(index)
    found = grouped(read(index.elements(numbers(range(len(keys))), 2, 1 << 20)))
    for row, at in enumerate(keys):
        rows, value = found.get(row, []), dump.values[at]
        members = [r["member"] for r in rows]
        assert [r["position"] for r in rows] == list(range(len(rows)))
        match dump.types[at]:
            case "list":
                assert members == value
            case "set":
                assert set(members) == value and len(members) == len(value)
            case "zset":
                assert [(r["member"], r["score"]) for r in rows] == value
            case "hash":
                assert {r["member"]: r["value"] for r in rows} == value and len(rows) == len(value)
            case _:
                assert rows == []


def test_strings_are_the_servers_strings(dump: Dump) -> None:
    """Strings come whole or cut, always with their size; keys of other types give nothing."""
    index = open_index(dump.path)
    keys = keys_of(index)
    expected = {row: dump.values[at] for row, at in enumerate(keys) if dump.types[at] == "string"}
    everything = numbers(range(len(keys)))
    whole = read(index.strings(everything, None, 2, 1 << 20)).to_pylist()
    assert {r["row"]: r["value"] for r in whole} == expected
    assert {r["row"]: r["size"] for r in whole} == {row: len(value) for row, value in expected.items()}
    cut = read(index.strings(everything, 3, 2, 1 << 20)).to_pylist()
    assert {r["row"]: (r["value"], r["size"]) for r in cut} == {r: (v[:3], len(v)) for r, v in expected.items()}


def test_stream_entries_are_the_servers_entries(dump: Dump) -> None:
    """Entries in order, deleted ones left out, fields in columns or in `rest`: together what XRANGE says."""
    index = open_index(dump.path)
    keys = keys_of(index)
    fields = (Projected("event", "event", "text"), Projected("n", "n", "int"))
    entries = grouped(read(index.stream_entries(numbers(range(len(keys))), projection_json(fields), 2, 1 << 20)))
    streams = {row: at for row, at in enumerate(keys) if dump.types[at] == "stream"}
    assert set(entries) == set(streams)
    for row, at in streams.items():
        told = [
            (
                f"{e['ms']}-{e['seq']}".encode(),
                {b"event": e["event"].encode(), b"n": b"%d" % e["n"]}
                | {name.encode(): value for name, value in e["rest"]},
            )
            for e in entries[row]
        ]
        assert told == dump.values[at]


def test_hashes_lose_nothing(dump: Dump) -> None:
    """Without any column everything is in `rest`; a key of another type is a row of nulls."""
    index = open_index(dump.path)
    keys = keys_of(index)
    table = read(index.records(numbers(range(len(keys))), "[]", True, 2, 1 << 20))
    assert table["row"].to_pylist() == list(range(len(keys)))
    for at, rest in zip(keys, table["rest"].to_pylist(), strict=True):
        if dump.types[at] != "hash":
            assert rest is None
            continue
        names = dict(rest)
        assert len(names) == len(rest)
        text = {_native_text(name): value for name, value in dump.values[at].items()}
        assert names == text


def _native_text(name: bytes) -> str:
    return pa.table(_native.to_text(pa.chunked_array([pa.array([name])])))["text"][0].as_py()


def test_batches_do_not_depend_on_threads(dump: Dump) -> None:
    """One thread or many, the same rows arrive in the same batches."""
    index = open_index(dump.path)
    rows = numbers(range(len(keys_of(index))))
    for batches in (
        lambda threads: index.records(rows, "[]", True, threads, 1 << 16),
        lambda threads: index.elements(rows, threads, 1 << 16),
    ):
        one, two, many = ([*pa.RecordBatchReader.from_stream(batches(n))] for n in (1, 2, 16))
        assert [b.num_rows for b in one] == [b.num_rows for b in two] == [b.num_rows for b in many]
        assert pa.Table.from_batches(one) == pa.Table.from_batches(two) == pa.Table.from_batches(many)
        assert len(one) > 1


def test_order_over_many_tasks(server: RedisServer) -> None:
    """Far more values than one task holds arrive in file order, whoever decoded them, also when only some are asked."""
    client = server.client()
    client.flushall()
    pipe = client.pipeline(transaction=False)
    rng = random.Random(2)
    for i in range(30_000):
        pipe.hset(f"bull:q:{i}", mapping={"name": f"job {i}", "data": rng.randbytes(600), "n": i})
    pipe.execute()
    index = open_index(saved(server, "many.rdb"))
    keys = keys_of(index)
    fields = (Projected("n", "n", "int"), Projected("data", "data", "bytes", limit=0, size=True))
    for rows in (range(len(keys)), range(5, len(keys), 97), [3, 29_999]):
        table = read(index.records(numbers(rows), projection_json(fields), True, 4, 1 << 18))
        assert table["row"].to_pylist() == list(rows)
        assert table["n"].to_pylist() == [int(keys[row][1].rsplit(b":", 1)[1]) for row in rows]
        assert set(table["data_size"].to_pylist()) == {600} and set(table["data"].to_pylist()) == {b""}


def test_a_reader_that_leaves_early(server: RedisServer, dump: Dump) -> None:
    """Dropping a stream half-way, or never reading it, hangs nothing; a stream can be read once."""
    index = open_index(dump.path)
    rows = numbers(range(len(keys_of(index))))
    for _ in range(20):
        reader = pa.RecordBatchReader.from_stream(index.elements(rows, 4, 1 << 16))
        reader.read_next_batch()
        del reader
        index.elements(rows, 4, 1 << 16)
    stream = index.elements(rows, 1, 1 << 20)
    read(stream)
    with pytest.raises(RuntimeError, match="read already"):
        pa.RecordBatchReader.from_stream(stream)


def test_large_values_stream(server: RedisServer) -> None:
    """A list of 30 MB comes in batches near the size asked for, complete and in order; so does a zset by rank."""
    client = server.client()
    client.flushall()
    pipe = client.pipeline(transaction=False)
    rng = random.Random(3)
    body = rng.randbytes(20_000)
    for i in range(1_500):
        pipe.rpush("l", b"%d:" % i + body)
    for start in range(0, 250_000, 10_000):
        pipe.zadd("z", {f"member {i} {'.' * 20}": i % 1000 for i in range(start, start + 10_000)})
    pipe.execute()
    index = open_index(saved(server, "large.rdb"))
    keys = keys_of(index)
    limit = 1 << 20
    at = numbers([keys.index((0, b"l"))])
    n = 0
    for batch in pa.RecordBatchReader.from_stream(index.elements(at, 2, limit)):
        assert batch.nbytes < 2 * limit
        for member in batch["member"].to_pylist():
            assert member == b"%d:" % n + body
            n += 1
    assert n == 1_500
    table = read(index.elements(numbers([keys.index((0, b"z"))]), 2, limit))
    expected = client.zrange("z", 0, -1, withscores=True)
    assert list(zip(table["member"].to_pylist(), table["score"].to_pylist(), strict=True)) == expected
    assert table["position"].to_pylist() == list(range(250_000))


def test_info(dump: Dump) -> None:
    """The facts about the file are the server's own: version, counts per database, a checksum that is right."""
    info = json.loads(open_index(dump.path).info())
    assert (info["family"], info["fault"], info["trailing_bytes"]) == ("redis", None, 0)
    assert info["aux"]["redis-ver"].count(".") == 2 and int(info["aux"]["ctime"]) > 1_700_000_000
    assert info["checksum"]["status"] == "ok" and info["checksum"]["stored"] == info["checksum"]["computed"]
    assert info["bytes"] == info["end_offset"] == dump.path.stat().st_size
    for db in (0, 3):
        keys = sum(1 for at in dump.types if at[0] == db)
        expires = sum(1 for at, when in dump.expiries.items() if at[0] == db and when is not None)
        facts = {"keys": keys, "expires": expires, "hint_keys": keys, "hint_expires": expires}
        assert info["databases"][str(db)] == facts
    assert info["counts"]["keys"] == len(dump.types)


def test_progress(server: RedisServer, dump: Dump) -> None:
    """Progress ends at the file's size; what the callback raises ends the walk and arrives unchanged."""
    calls: list[tuple[int, int]] = []
    _native.index(str(dump.path), False, MAX, lambda done, total: calls.append((done, total)))
    size = dump.path.stat().st_size
    assert calls[-1] == (size, size) and calls == sorted(calls)

    class Enough(Exception):
        pass

    def stop(done: int, total: int) -> None:
        raise Enough

    with pytest.raises(Enough):
        _native.index(str(dump.path), False, MAX, stop)


def test_find_prefix_and_suffix() -> None:
    """The longest of many nested and overlapping prefixes and suffixes is found, as trying each in turn finds it."""
    rng = random.Random(4)
    for _ in range(60):
        alphabet = rng.choice([b"ab", b"ab\xff\x00", b"abcdefgh:"])

        def some(longest: int, alphabet: bytes = alphabet) -> bytes:
            return bytes(rng.choices(alphabet, k=rng.randrange(longest)))

        parts = [b"bull:" * rng.randrange(2) + some(14) for _ in range(rng.randrange(1, 40))]
        values = [rng.choice([*parts, b"", b"bull:"]) + some(12) for _ in range(200)]
        values += [some(12) + rng.choice(parts) for _ in range(200)]
        column = pa.chunked_array([pa.array(values[:150], pa.binary()), pa.array([*values[150:], None], pa.binary())])

        def slow(value: bytes | None, fits: Callable[[bytes, bytes], bool], parts: list[bytes] = parts) -> int:
            best = [i for i, p in enumerate(parts) if value is not None and fits(value, p)]
            return max(best, key=lambda i: (len(parts[i]), -i), default=-1)

        found = pa.chunked_array(_native.find_prefix(column, parts))
        assert found.type == pa.int32() and [len(c) for c in found.chunks] == [len(c) for c in column.chunks]
        assert found.to_pylist() == [slow(v, bytes.startswith) for v in [*values, None]]
        found = pa.chunked_array(_native.find_suffix(column, parts))
        assert found.to_pylist() == [slow(v, bytes.endswith) for v in [*values, None]]
    assert pa.chunked_array(_native.find_prefix(column, [])).to_pylist() == [-1] * 401


def test_cut_and_text() -> None:
    """Cutting beyond a value gives an empty one; text shows what is not UTF-8 as `\\xNN` and keeps those bytes."""
    odd = b"\xff\\x00a\xe2\x82"
    column = pa.chunked_array([pa.array([b"bull:q:1", b"", None]), pa.array([b"abc", "ü".encode(), odd])])
    cut = pa.chunked_array(_native.cut(column, numbers([5, 1, 1, 0, 9, 1]), numbers([2, 0, 1, 3, 0, 0])))
    assert cut.to_pylist() == [b"q", b"", None, b"", b"", b"\\x00a\xe2\x82"]
    assert [len(c) for c in cut.chunks] == [3, 3]
    text = pa.table(_native.to_text(column))
    assert text["text"].to_pylist() == ["bull:q:1", "", None, "abc", "ü", "\\xff\\x00a\\xe2\\x82"]
    assert text["exact"].to_pylist() == [None] * 5 + [odd]
    with pytest.raises(ValueError, match="6 values, but 1 heads"):
        _native.cut(column, numbers([1]), numbers([1] * 6))
    sliced = pa.chunked_array([pa.array([b"\xff", b"keep", b"x"]).slice(1)])
    assert pa.table(_native.to_text(sliced))["text"].to_pylist() == ["keep", "x"]
    strings = pa.chunked_array([pa.array(["ab", "c"])])
    assert pa.chunked_array(_native.find_prefix(strings, [b"a"])).to_pylist() == [0, -1]
    large = pa.chunked_array([pa.array(["ab", "c"], pa.large_string())])
    assert pa.chunked_array(_native.find_prefix(large, [b"a"])).to_pylist() == [0, -1]
    empty = pa.chunked_array([], type=pa.binary())
    assert len(pa.chunked_array(_native.find_prefix(empty, [b"a"]))) == 0
    with pytest.raises(TypeError, match="byte strings"):
        _native.find_prefix(numbers([1]), [b"a"])


def test_lookup(dump: Dump) -> None:
    """Keys are found by database and composed name, and nothing else is; no key of another database is taken for it."""
    index = open_index(dump.path)
    keys = keys_of(index)
    prefixes = [(0, b""), (3, b""), (0, b"h:"), (7, b""), (0, b"bull")]
    middles: list[bytes | None] = [key for _, key in keys] + [b"sma", None, b"nothing", b"s:text", b"s:text"]
    codes = [0 if db == 0 else 1 for db, _ in keys] + [2, 0, 0, 3, -1]
    middle = pa.chunked_array([pa.array(middles[:5], pa.binary()), pa.array(middles[5:], pa.binary())])
    found = pa.chunked_array(index.lookup(prefixes, numbers(codes), middle, b""))
    assert found.type == pa.int64()
    assert found.to_pylist() == [*range(len(keys)), -1, -1, -1, -1, -1]
    composed = pa.chunked_array(index.lookup([(0, b"h:")], numbers([0]), pa.chunked_array([pa.array([b"sma"])]), b"ll"))
    assert composed.to_pylist() == [keys.index((0, b"h:small"))]


def test_cat(dump: Dump, tmp_path: Path) -> None:
    """`cat` writes a line a key and a last line; a reader that goes away after one line is no error."""
    out = tmp_path / "keys.ndjson"
    done = json.loads(_native.cat(str(dump.path), str(out), MAX))
    lines = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert done == {"keys": len(dump.types), "warnings": []}
    assert lines[0]["format"] == "jobsleuth-keyspace" and lines[-1] == {"end": True, "keys": len(dump.types)}
    assert len(lines) == len(dump.types) + 2
    code = f"from jobsleuth.sources import _native; _native.cat({str(dump.path)!r}, None, {MAX})"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stderr is not None
        child.stdout.readline()
        child.stdout.close()
        assert b"Traceback" not in child.stderr.read()
    assert child.returncode == 0
    with pytest.raises(OSError, match="directory"):
        _native.cat(str(dump.path), str(tmp_path), MAX)


def test_hand_over_copies_nothing(dump: Dump) -> None:
    """The keys table is shared: pyarrow allocates nothing for it, and asking twice gives the same memory."""
    index = open_index(dump.path)
    before = pa.total_allocated_bytes()
    first, second = pa.table(index.keys()), pa.table(index.keys())
    assert pa.total_allocated_bytes() == before
    address = [table["key"].chunk(0).buffers()[2].address for table in (first, second)]
    assert address[0] == address[1]
    del index
    assert first["key"].to_pylist() == second["key"].to_pylist()


def test_stub_says_what_the_module_has() -> None:
    """The type stub and the compiled module agree in every name, parameter and default."""
    tree = ast.parse(Path(_native.__file__).with_name("_native.pyi").read_text("utf-8"))
    public = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name[0] != "_"]
    assert {node.name for node in public} | {"__version__"} == set(_native.__all__)
    compared = 0
    for node in public:
        thing = getattr(_native, node.name)
        if isinstance(node, ast.FunctionDef):
            pairs = [(node, thing)]
        else:
            methods = [m for m in node.body if isinstance(m, ast.FunctionDef)]
            names = {name for name in vars(thing) if not name.startswith("__")}
            assert names == {m.name for m in methods if not m.name.startswith("__")}, node.name
            pairs = [(m, getattr(thing, m.name)) for m in methods]
        for stub, real in pairs:
            signature = inspect.signature(real).parameters.values()
            assert [p.name for p in signature] == [a.arg for a in stub.args.args], stub.name
            assert sum(p.default is not p.empty for p in signature) == len(stub.args.defaults), stub.name
            compared += 1
    assert compared >= 19
