"""Evidence that cannot be read where it lies: packed, piped, damaged, or made to fill the disk."""

from __future__ import annotations

import bz2
import codecs
import gzip
import hashlib
import io
import lzma
import os
import shutil
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from jobsleuth.errors import EvidenceError
from jobsleuth.sources import RdbKeyspace, Snapshot, SpoolOptions, _native, snapshot, spool, write_keyspace

DUMP = Path(__file__).parents[2] / "fixtures" / "bullmq" / "v5-every-state" / "evidence.rdb"
PLAIN = DUMP.read_bytes()


def _arrow(name: str) -> Callable[[bytes], bytes]:
    def pack(data: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, name) as stream:
            stream.write(data)
        return sink.getvalue().to_pybytes()

    return pack


PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": lambda data: bz2.compress(data, 1),
    "xz": lzma.compress,
    "zstd": _arrow("zstd"),
    "lz4": _arrow("lz4"),
}


@pytest.fixture
def room(tmp_path: Path) -> Iterator[SpoolOptions]:
    """A folder of its own for temporary files, which has to be empty afterwards."""
    folder = tmp_path / "room"
    folder.mkdir()
    yield SpoolOptions(tmpdir=folder)
    assert list(folder.iterdir()) == []


def given(tmp_path: Path, data: bytes, name: str = "dump.bin") -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


def refused(path: Path, room: SpoolOptions, **more: object) -> EvidenceError:
    with pytest.raises(EvidenceError) as told, snapshot(path, spool=room, **more):  # type: ignore[arg-type]
        pass
    return told.value


def test_a_plain_file_is_read_where_it_lies(room: SpoolOptions) -> None:
    """No copy, and no second reading for a hash that the pipeline takes anyway."""
    with snapshot(DUMP, spool=room) as found:
        assert found == Snapshot(os.fspath(DUMP), DUMP, len(PLAIN), len(PLAIN))


@pytest.mark.parametrize("compression", PACK)
def test_packed_evidence_is_unpacked_with_both_hashes(compression: str, tmp_path: Path, room: SpoolOptions) -> None:
    """By content, whatever its name: the plain bytes are there, and the hashes are those of sha256 over both."""
    data = PACK[compression](PLAIN)
    path = given(tmp_path, data, "backup-of-tuesday")
    with snapshot(path, spool=room) as found:
        assert found.path.read_bytes() == PLAIN
        assert (found.compression, found.size, found.bytes) == (compression, len(PLAIN), len(data))
        assert found.sha256 == hashlib.sha256(data).hexdigest()
        assert found.inner_sha256 == hashlib.sha256(PLAIN).hexdigest()
        assert (found.streamed, found.remarks) == (False, ())


def test_the_keyspace_is_that_of_the_plain_file(tmp_path: Path, room: SpoolOptions) -> None:
    """Keys and values are the same, and the facts speak of the file that was given."""
    path = given(tmp_path, gzip.compress(PLAIN))
    plain = RdbKeyspace.open(DUMP)
    with snapshot(path, spool=room) as found:
        packed = RdbKeyspace.open(found)
        rows = plain.live.nonzero()[0]
        assert packed.keys.equals(plain.keys)
        assert packed.elements(rows).read_all().equals(plain.elements(rows).read_all())
        assert (packed.facts.path, packed.facts.bytes) == (os.fspath(path), path.stat().st_size)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can read a file that has no name")
def test_the_temporary_file_has_no_name(tmp_path: Path, room: SpoolOptions) -> None:
    """So that a killed process leaves no evidence behind either."""
    assert room.tmpdir is not None
    with snapshot(given(tmp_path, gzip.compress(PLAIN)), spool=room):
        assert list(room.tmpdir.iterdir()) == []


def test_a_named_temporary_file_goes_with_the_block(
    tmp_path: Path, room: SpoolOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere it has a name that nobody else may read, until the block ends, with an error too."""
    assert room.tmpdir is not None
    monkeypatch.setattr(spool.sys, "platform", "darwin")
    path = given(tmp_path, gzip.compress(PLAIN))
    with pytest.raises(KeyError), snapshot(path, spool=room) as found:
        assert [found.path] == list(room.tmpdir.iterdir())
        assert found.path.stat().st_mode & 0o077 == 0
        raise KeyError
    refused(given(tmp_path, gzip.compress(PLAIN)[:-1]), room)


def test_a_pipe_is_spooled(room: SpoolOptions) -> None:
    """What a shell's `<(command)` gives, plain or packed, with the hash of the bytes that came through."""
    for data, compression in ((PLAIN, None), (gzip.compress(PLAIN), "gzip")):
        reader, writer = os.pipe()
        feeding = threading.Thread(target=_feed, args=(writer, data))
        feeding.start()
        with snapshot(Path(f"/dev/fd/{reader}"), spool=room) as found:
            assert found.path.read_bytes() == PLAIN
            assert (found.streamed, found.compression, found.bytes) == (True, compression, len(data))
            assert found.sha256 == hashlib.sha256(data).hexdigest()
        feeding.join()
        os.close(reader)


def _feed(writer: int, data: bytes) -> None:
    with os.fdopen(writer, "wb") as out:
        out.write(data)


@pytest.mark.parametrize("compression", PACK)
def test_a_cut_file_is_refused_and_can_be_salvaged(compression: str, tmp_path: Path, room: SpoolOptions) -> None:
    """The error names file and place; salvage gives what came before, and a remark."""
    big = PLAIN + os.urandom(300_000)  # zstd, LZ4 and bzip2 unpack whole blocks only
    data = PACK[compression](big)[:-2000]
    path = given(tmp_path, data, "dump.packed")
    error = refused(path, room)
    assert (error.file, error.offset) == (os.fspath(path), len(data))
    assert "cut short" in error.message
    assert error.hint is not None
    assert "--salvage" in error.hint
    with snapshot(path, spool=room, salvage=True) as found:
        kept = found.path.read_bytes()
        assert big.startswith(kept)
        assert [(r.kind, r.offset) for r in found.remarks] == [("compression_cut_short", len(data))]
        assert f"{len(kept):,} bytes could be unpacked" in found.remarks[0].message
        assert found.bytes == len(data)
        assert found.sha256 == hashlib.sha256(data).hexdigest()
        if compression == "gzip":
            assert len(kept) > len(PLAIN)


def test_damage_is_refused_and_can_be_salvaged(tmp_path: Path, room: SpoolOptions) -> None:
    """A wrong check value at the end of a gzip file whose content is whole: refused, or kept with a remark."""
    data = bytearray(gzip.compress(PLAIN))
    data[-6] ^= 0xFF
    path = given(tmp_path, bytes(data))
    error = refused(path, room)
    assert "is damaged here (incorrect data check)" in error.message
    assert error.offset in range(len(data) - 8, len(data) - 4)
    with snapshot(path, spool=room, salvage=True) as found:
        assert RdbKeyspace.open(found, salvage=True).facts.checksum["status"] == "ok"
        assert [r.kind for r in found.remarks] == ["compression_damaged"]


def test_nothing_can_be_salvaged_of_nothing(tmp_path: Path, room: SpoolOptions) -> None:
    """A bare header unpacks to no byte: salvage does not make it evidence."""
    for salvage in (False, True):
        error = refused(given(tmp_path, gzip.compress(PLAIN)[:10]), room, salvage=salvage)
        assert "cut short" in error.message
        assert error.hint is None


def test_what_stands_behind_is_a_remark(tmp_path: Path, room: SpoolOptions) -> None:
    """The hash is that of the whole file given; the bytes nobody read are counted with their place."""
    data = gzip.compress(PLAIN)
    with snapshot(given(tmp_path, data + b"\0" * 100), spool=room) as found:
        assert [(r.kind, r.offset, r.count) for r in found.remarks] == [("compression_trailing_bytes", len(data), 100)]
        assert found.sha256 == hashlib.sha256(data + b"\0" * 100).hexdigest()
        assert found.path.read_bytes() == PLAIN


def test_a_fault_inside_says_that_it_is_inside(tmp_path: Path, room: SpoolOptions) -> None:
    """Offsets of the core are those of the unpacked bytes, and the error says so."""
    with snapshot(given(tmp_path, gzip.compress(PLAIN[:2000])), spool=room) as found:
        with pytest.raises(EvidenceError, match="in what was unpacked from it: ") as told:
            RdbKeyspace.open(found)
        assert told.value.file == os.fspath(tmp_path / "dump.bin")


def test_damage_leaves_a_doubt_about_what_came_before(tmp_path: Path, room: SpoolOptions) -> None:
    """Decoders notice a changed byte late: what they gave just before may be wrong, and the remark says so."""
    data = bytearray(lzma.compress(PLAIN * 3))
    data[len(data) // 2] ^= 0xFF
    with snapshot(given(tmp_path, bytes(data)), spool=room, salvage=True) as found:
        (remark,) = found.remarks
        assert remark.kind == "compression_damaged"
        assert remark.message.endswith(" bytes could be unpacked, the last of them perhaps wrongly")


@pytest.mark.parametrize("compression", PACK)
def test_bytes_behind_packed_evidence_are_a_remark(compression: str, tmp_path: Path, room: SpoolOptions) -> None:
    """The content is whole, so it is read; how many bytes stand behind it, and where, is told."""
    data = PACK[compression](PLAIN)
    with snapshot(given(tmp_path, data + b"stranger"), spool=room) as found:
        assert found.path.read_bytes() == PLAIN
        assert found.sha256 == hashlib.sha256(data + b"stranger").hexdigest()
        (remark,) = found.remarks
        assert (remark.kind, remark.offset, remark.count) == ("compression_trailing_bytes", len(data), 8)
    with snapshot(given(tmp_path, data + b"!" + data), spool=room) as found:
        (remark,) = found.remarks
        assert f"more of it seems to begin in them, at byte {len(data) + 1:,}" in remark.message


def _tar(data: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        entry = tarfile.TarInfo("dump.rdb")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "telling"),
    [
        (_tar(PLAIN), "tar archive"),
        (gzip.compress(gzip.compress(PLAIN), mtime=0), "gzip-compressed once more"),
        (bz2.compress(b"GIF89a"), "begins with 'GIF89a'"),
        (gzip.compress(b"", mtime=0), "what is in the gzip file is empty"),
        (gzip.compress(b"\x1b[2J", mtime=0), r"begins with '\x1b[2J'"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", r"begins with '\xff\xd8\xff\xe0\x00\x10JFI'"),
        ('{"format":"jobsleuth-keyspace","version":1}\n'.encode("utf-16"), "text in UTF-16"),
        (codecs.BOM_UTF16_BE + "{}".encode("utf-16-be"), "text in UTF-16"),
        (codecs.BOM_UTF8 + b'{"format":"jobsleuth-keyspace","version":1}\n', "text behind a byte order mark"),
        (b"PK\x03\x04", "ZIP archive"),
        (b"\x02\x21\x4c\x18", "old format"),
    ],
)
def test_other_content_is_named(data: bytes, telling: str, tmp_path: Path, room: SpoolOptions) -> None:
    """The message says what was found instead, and hostile bytes in it are escaped."""
    assert telling in refused(given(tmp_path, data), room).message


def test_a_bomb_of_no_snapshot_is_refused_at_once(
    tmp_path: Path, room: SpoolOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 MB of zeros: judged by their first bytes, before anything is written."""
    written: list[int] = []
    monkeypatch.setattr(spool.Target, "write", lambda self, piece: written.append(len(piece)))
    refused(given(tmp_path, gzip.compress(bytes(64 << 20))), room)
    assert written == []


@pytest.mark.parametrize("compression", ["gzip", "bzip2", "zstd", "xz", "lz4"])
def test_a_bomb_in_a_snapshots_clothes_stops_at_the_limit(compression: str, tmp_path: Path, room: SpoolOptions) -> None:
    """A true start and 20 MB of zeros in a few KB: refused with the limit's name, whether or not its size is told."""
    data = PACK[compression](PLAIN + bytes(20 << 20))
    limits = SpoolOptions(room.tmpdir, max_bytes=1 << 20)
    error = refused(given(tmp_path, data), limits)
    assert "--max-spool-bytes allows 1,048,576" in error.message
    assert error.file == os.fspath(tmp_path / "dump.bin")


def test_evidence_just_within_the_limit_is_read(tmp_path: Path, room: SpoolOptions) -> None:
    """The limit is the size that may be had, not one less."""
    path = given(tmp_path, gzip.compress(PLAIN))
    with snapshot(path, spool=SpoolOptions(room.tmpdir, len(PLAIN))) as found:
        assert found.size == len(PLAIN)
    refused(path, SpoolOptions(room.tmpdir, len(PLAIN) - 1))


@pytest.mark.parametrize("compression", ["gzip", "bzip2"])
def test_the_disk_is_not_filled(
    compression: str, tmp_path: Path, room: SpoolOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 MB where half a MB can be spared: refused before (gzip tells its size) or while written (bzip2 does not)."""
    spare = spool.RESERVE + (1 << 19)
    monkeypatch.setattr(spool.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1 << 40, 0, spare))
    error = refused(given(tmp_path, PACK[compression](PLAIN + bytes(20 << 20))), room)
    assert "has no room" in error.message
    assert error.hint is not None
    assert "--tmpdir" in error.hint


def test_a_bad_folder_is_named(tmp_path: Path) -> None:
    """The error speaks of the folder, not of the evidence."""
    error = refused(given(tmp_path, gzip.compress(PLAIN)), SpoolOptions(tmp_path / "none"))
    assert error.file == os.fspath(tmp_path / "none")


def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path, room: SpoolOptions) -> None:
    """Its hash would be that of no file that ever was."""
    path = given(tmp_path, gzip.compress(PLAIN + bytes(8 << 20)))

    def change(done: int, total: int) -> None:
        with path.open("ab") as file:
            file.write(b"\0")

    data = gzip.compress(os.urandom(3 << 20))
    path.write_bytes(gzip.compress(PLAIN) + data)
    assert "changed while it was read" in refused(path, room, progress=change).message


def test_a_packed_file_that_shrinks_meanwhile_is_not_called_damaged(tmp_path: Path, room: SpoolOptions) -> None:
    """Whoever began to write it anew cut it short: it was not so when it was copied."""
    path = given(tmp_path, gzip.compress(PLAIN) + gzip.compress(os.urandom(6 << 20)))

    def change(done: int, total: int) -> None:
        os.truncate(path, 1000)

    assert "changed while it was read" in refused(path, room, progress=change).message


def test_a_plain_file_that_changes_meanwhile_is_refused(tmp_path: Path, room: SpoolOptions) -> None:
    """Read where it lies, so what was read may be of two files; damage is told as what it is, the work of a writer."""
    path = given(tmp_path, PLAIN)
    with pytest.raises(EvidenceError, match="changed while it was read"), snapshot(path, spool=room) as source:
        assert source.path == path
        path.write_bytes(PLAIN[:100] + b"ZZ" + PLAIN[102:-1])
    with pytest.raises(EvidenceError, match="changed while it was read"), snapshot(path, spool=room) as source:
        path.write_bytes(PLAIN[:500])
        RdbKeyspace.open(source)


def test_a_plain_file_that_stays_is_told_as_damaged(tmp_path: Path, room: SpoolOptions) -> None:
    """Nobody wrote to it: the fault is the file's own."""
    with pytest.raises(EvidenceError, match="cut short"), snapshot(given(tmp_path, PLAIN[:500]), spool=room) as source:
        RdbKeyspace.open(source)


def test_cat_leaves_no_file_of_evidence_that_changed(
    tmp_path: Path, room: SpoolOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output is put in its place after the last look at the evidence."""
    path, out = given(tmp_path, PLAIN), tmp_path / "out.ndjson"
    write = _native.cat

    def meanwhile(*given: object) -> str:
        told = write(*given)  # type: ignore[arg-type]
        path.write_bytes(PLAIN + b"\0")
        return told

    monkeypatch.setattr(_native, "cat", meanwhile)
    with pytest.raises(EvidenceError, match="changed while it was read"):
        write_keyspace(path, out, spool=room)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dump.bin", "room"]


def test_cat_writes_through_no_link_that_lay_there(tmp_path: Path, room: SpoolOptions) -> None:
    """Neither a link at the name given nor one at a name that could be guessed leads to another file."""
    path, precious = given(tmp_path, PLAIN), tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / ".out.ndjson.partial").symlink_to(precious)
    write_keyspace(path, tmp_path / "out.ndjson", spool=room)
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    with pytest.raises(EvidenceError, match="exists already"):
        write_keyspace(path, tmp_path / "link", spool=room)
    assert precious.read_text() == "mine"
    assert (tmp_path / ".out.ndjson.partial").is_symlink()
    assert not (tmp_path / "nothing").exists()


def test_progress_ends_within_the_size(tmp_path: Path, room: SpoolOptions) -> None:
    """What is told grows and stays within the size of the file given."""
    path = given(tmp_path, gzip.compress(PLAIN) + gzip.compress(os.urandom(5 << 20)))
    told: list[tuple[int, int]] = []
    with snapshot(path, spool=room, progress=lambda done, total: told.append((done, total))):
        pass
    assert len(told) >= 3
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert all(done <= total == path.stat().st_size for done, total in told)


def test_folders_and_devices_are_refused(tmp_path: Path, room: SpoolOptions) -> None:
    """So is a pipe that lies in a folder: it might wait for its writer for ever."""
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    assert "folder" in refused(tmp_path, room).message
    assert "not a regular file" in refused(fifo, room).message
    assert "not a regular file" in refused(Path("/dev/zero"), room).message
    assert "no such file" in refused(tmp_path / "none.gz", room).message
