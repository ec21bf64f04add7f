"""Compressed data as the tools themselves wrote it: recognised, measured, unpacked whole and up to a damage."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import shutil
import subprocess
import zlib
from collections.abc import Callable

import pyarrow as pa
import pytest

from jobsleuth.errors import EvidenceError
from jobsleuth.sources.compression import COMPRESSIONS, Damage, Tape, Unpacking, declared_size, recognise

TINY = b"REDIS0009\xfe\x00\x00\x03key\x05value\xff" + bytes(8)
"""One key, no checksum: what the command line tools below were given."""
BY_TOOLS = {
    # gzip 1.12, zstd 1.5.4, lz4 1.9.4, bzip2 1.0.8, xz 5.4: `TOOL -c tiny.rdb`
    "gzip": "1f8b08000000000000030b7275f10c363030b0fcc7c0c09c9d5ac95a9698539afa9f010a00b7f6a3e61f000000",
    "zstd": "28b52ffd241ff90000524544495330303039fe0000036b65790576616c7565ff0000000000000000aecc7b27",
    "lz4": "04224d186440a71f000080524544495330303039fe0000036b65790576616c7565ff0000000000000000000000002b113d3d",
    "bzip2": (
        "425a68393141592653593ee108a00000084f80ce00402006201800220c03200001a000229a001a1a7ea85309a680d310411ee16cfcaeb0a"
        "31b61813e2ee48a70a1207dc21140"
    ),
    "xz": (
        "fd377a585a000004e6d6b4460200210116000000742fe5a3e0001e001d5d002911449451ed4be25a3cb1e4e879e25392df5d830ae55e47e2"
        "6449c900000000005d66befe4f340e0a0001391f64350aa31fb6f37d010000000004595a"
    ),
}
PLAIN = b"REDIS0009" + random.Random(7).randbytes(40_000) + b"job" * 30_000
SKIPPABLE = b"\x53\x2a\x4d\x18\x04\x00\x00\x00note"


def packed(compression: str, data: bytes) -> bytes:
    """As Python's or Arrow's own writers pack it."""
    if compression in ("zstd", "lz4"):
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, compression) as stream:
            stream.write(data)
        return sink.getvalue().to_pybytes()
    writers: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}
    return writers[compression](data)


def unpacked(compression: str, data: bytes) -> tuple[bytes, int]:
    unpacking = Unpacking(compression, Tape(io.BytesIO(data), "given"))
    return b"".join(unpacking), unpacking.trailing


def until_damage(compression: str, data: bytes) -> tuple[bytes, Damage | None]:
    found = b""
    try:
        for piece in Unpacking(compression, Tape(io.BytesIO(data), "given")):
            found += piece
    except Damage as damage:
        return found, damage
    return found, None


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_what_the_tools_wrote_comes_back(compression: str) -> None:
    """The bytes each command line tool was given are the bytes that come out."""
    data = bytes.fromhex(BY_TOOLS[compression])
    assert recognise(data) == compression
    assert unpacked(compression, data) == (TINY, 0)


def test_only_compressed_data_is_taken_for_it() -> None:
    """An RDB file, other text and a start cut short are no compression that is known."""
    for head in (b"", b"REDIS0009", b"VALKEY080", b"\x1f\x8b", b"BZ", b"*3\r\n", SKIPPABLE, SKIPPABLE + b"REDIS0009"):
        assert recognise(head) is None


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_the_envelope_of_valkey_is_passed_over(compression: str) -> None:
    """`VCS`, version 1, codec, flags, kind, as `compression_stream.h` of Valkey's development branch has them, then a
    frame. Its codec's number has changed there, so the frame decides; another version and what is cut are not taken."""
    frame = bytes.fromhex(BY_TOOLS[compression])
    for rest in (b"\x01\x00\x00", b"\x02\x01\x00"):
        enveloped = b"VCS\x01" + rest + frame
        assert recognise(enveloped) == compression
        assert unpacked(compression, enveloped) == (TINY, 0)
        assert declared_size(compression, enveloped, b"", 0) == declared_size(compression, frame, b"", 0)
        for cut in range(8, len(enveloped)):
            assert until_damage(compression, enveloped[:cut])[1] is not None
    assert recognise(b"VCS\x02\x01\x00\x00" + frame) is None
    assert recognise(b"VCS\x01\x01\x00\x00" + TINY) is None


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_members_one_after_the_other_are_one(compression: str) -> None:
    """`cat a.gz b.gz` and what parallel packers write hold the contents of all members."""
    data = packed(compression, PLAIN) + packed(compression, b"") + packed(compression, b"the end")
    assert unpacked(compression, data) == (PLAIN + b"the end", 0)


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_frames_to_be_skipped_are_skipped(compression: str) -> None:
    """`pzstd` puts a skippable frame first: it is recognised by what follows, and its content is no data."""
    data = SKIPPABLE + packed(compression, PLAIN) + SKIPPABLE + packed(compression, b"x")
    assert recognise(data[:1024]) == compression
    assert unpacked(compression, data) == (PLAIN + b"x", 0)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_what_stands_behind_is_counted(compression: str) -> None:
    """Padding of a tape and a stranger's bytes are no data and no fault, but a number.

    `gzip`, `bzip2`, `zstd`, `lz4` and `xz -d`, given each of these, all write the content whole; the first two go on.
    """
    data = packed(compression, PLAIN)
    assert unpacked(compression, data + bytes(512)) == (PLAIN, 512)
    assert unpacked(compression, data + b"\0\0\0\0rest") == (PLAIN, 8)
    assert unpacked(compression, data + b"r") == (PLAIN, 1)
    # Padding longer than what is read at once, between two members and before the rest.
    padding = bytes(5 << 19)
    assert unpacked(compression, data + padding + data + padding + b"rest") == (PLAIN * 2, len(padding) + 4)
    assert unpacked(compression, data + bytes(4) + packed(compression, b"x")) == (PLAIN + b"x", 0)


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_frames_end_where_their_own_lengths_say(compression: str) -> None:
    """Frames of every form the tools can write, with bytes behind them: nothing is missing and nothing too much."""
    forms = {
        # `zstd` and `lz4` with content size, checks of frame and blocks, dependent blocks, repeats and stored blocks.
        "zstd": [["-3"], ["--no-check", "-19"], ["--no-content-size", "-1"], ["--long=27"], ["-T2", "-B16KiB"]],
        "lz4": [["-1"], ["--content-size", "-BX", "-B4"], ["--no-frame-crc", "-B7"], ["-BD", "-9"], ["-BI", "-B5"]],
    }
    tool = shutil.which(compression)
    if tool is None:
        pytest.skip(f"{compression} is not installed")
    for content in (PLAIN, b"", b"a", bytes(1 << 20), random.Random(3).randbytes(300_000), b"job" * 90_000):
        for form in forms[compression]:
            data = subprocess.run([tool, "-q", "-c", *form], input=content, capture_output=True, check=True).stdout
            assert unpacked(compression, data + SKIPPABLE + data + b"rest") == (content * 2, 4), form


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_where_more_seems_to_begin_behind_is_told(compression: str) -> None:
    """A member whose first byte was changed is a stranger's bytes; that another follows says that it was none."""
    data = packed(compression, PLAIN)
    unpacking = Unpacking(compression, Tape(io.BytesIO(data + b"x" + data[1:] + data), "given"))
    assert b"".join(unpacking) == PLAIN
    assert (unpacking.trailing, unpacking.again) == (2 * len(data), 2 * len(data))


@pytest.mark.parametrize("compression", ["gzip", "bzip2", "xz"])
@pytest.mark.parametrize("between", [b"", b"\0\0\0\0"])
def test_many_members_cost_no_more_than_their_bytes(compression: str, between: bytes) -> None:
    """100,000 members that hold nothing: each byte is read a few times, not with a megabyte of what follows it."""

    class Counting(Tape):
        given = 0

        def read(self, count: int) -> bytes:
            piece = super().read(count)
            self.given += len(piece)
            return piece

    data = (packed(compression, b"") + between) * 100_000 + packed(compression, b"the end")
    tape = Counting(io.BytesIO(data), "given")
    assert b"".join(Unpacking(compression, tape)) == b"the end"
    assert tape.given < 10 * len(data)


@pytest.mark.parametrize("compression", ["bzip2", "xz"])
def test_a_bomb_unfolds_in_small_pieces(compression: str) -> None:
    """60 MB of zeros in a few bytes never come at once: `bzip2` packs 45 MB into as many bytes."""
    data = packed(compression, bytes(60 << 20))
    sizes = [len(piece) for piece in Unpacking(compression, Tape(io.BytesIO(data), "given"))]
    assert sum(sizes) == 60 << 20
    assert max(sizes) <= 1 << 20


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_cut_is_told_with_its_place(compression: str) -> None:
    """Cut anywhere, the data ends in damage that gives the length as its place, and what came out is right."""
    data = packed(compression, PLAIN)
    for cut in {1, 5, 10, 40, len(data) // 3, len(data) // 2, len(data) - 9, len(data) - 1}:
        found, damage = until_damage(compression, data[:cut])
        assert damage is not None, cut
        assert (damage.offset, damage.cut_short) == (cut, True)
        assert PLAIN.startswith(found)


def test_a_cut_gzip_gives_all_that_was_before_the_cut() -> None:
    """Stored blocks come out to the byte: zlib itself, fed byte by byte, gives no more."""
    data = packed("gzip", PLAIN)
    found, _ = until_damage("gzip", data[:30_000])
    assert found == zlib.decompressobj(wbits=31).decompress(data[:30_000])
    assert len(found) > 29_000


def test_damaged_gzip_is_told_to_the_byte() -> None:
    """A wrong check value is noticed at its last byte; everything before it has come out."""
    data = bytearray(packed("gzip", PLAIN))
    data[-6] ^= 1
    found, damage = until_damage("gzip", bytes(data))
    assert found == PLAIN
    assert damage is not None
    assert damage.offset in range(len(data) - 8, len(data) - 3)
    assert "incorrect data check" in damage.reason


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_no_changed_byte_is_an_accident(compression: str) -> None:
    """Each byte changed in turn: damage, or bytes that a checksum of theirs has to judge; never another exception."""
    data = bytes.fromhex(BY_TOOLS[compression])
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 0x5A
        until_damage(compression, bytes(changed))


@pytest.mark.parametrize("compression", ["zstd", "bzip2", "xz"])
def test_damage_before_the_checksum_is_told(compression: str) -> None:
    """A byte changed in the middle does not go unnoticed, and the place told is not before it by more than a step."""
    data = bytearray(bytes.fromhex(BY_TOOLS[compression]) if compression == "zstd" else packed(compression, PLAIN))
    at = len(data) // 2
    data[at] ^= 0xFF
    found, damage = until_damage(compression, bytes(data))
    assert damage is not None
    assert not damage.cut_short
    assert at < damage.offset <= len(data)
    assert found in (b"", PLAIN[: len(found)])


def test_an_xz_dictionary_beyond_reason_is_refused() -> None:
    """A header that asks for 4 GB of dictionary is damage, before any memory is taken."""
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 20}]
    data = bytearray(lzma.compress(TINY, filters=filters))
    at = data.index(b"\x21\x01") + 2  # filter id, size of properties, then the dictionary's size
    data[at] = 40  # 4 GiB - 1, by the format's table
    data[20:24] = zlib.crc32(bytes(data[12:20])).to_bytes(4, "little")
    found, damage = until_damage("xz", bytes(data))
    assert found == b""
    assert damage is not None
    assert "limit" in damage.reason.lower()


@pytest.mark.parametrize(
    ("compression", "data", "size"),
    [
        ("gzip", BY_TOOLS["gzip"], 31),
        ("zstd", BY_TOOLS["zstd"], 31),
        ("zstd", "28b52ffd642c004d00001000000100272ac00290ea003a", 300),
        ("zstd", "28b52ffda47011010055000010000001006b1139c002f865eb5e", 70_000),
        ("zstd", "28b52ffd0458f90000524544495330303039fe0000036b65790576616c7565ff0000000000000000aecc7b27", None),
        (
            "lz4",
            "04224d186c401f00000000000000221f000080524544495330303039fe0000036b65790576616c7565ff0000000000000000000000002b"
            "113d3d",
            31,
        ),
        ("lz4", BY_TOOLS["lz4"], None),
        ("bzip2", BY_TOOLS["bzip2"], None),
        ("xz", BY_TOOLS["xz"], None),
    ],
)
def test_the_size_told_is_the_size_given(compression: str, data: str, size: int | None) -> None:
    """The tools were given 31, 300 and 70000 bytes; where they were told not to say so, nothing is known."""
    raw = bytes.fromhex(data)
    assert declared_size(compression, raw[:1024], raw[-4:], len(raw)) == size


def test_noise_behind_a_gzip_member_is_no_size() -> None:
    """More than deflate can unfold to is not what the last four bytes of a gzip file mean."""
    raw = packed("gzip", TINY) + b"\xff\xff\xff\x7f"
    assert declared_size("gzip", raw, raw[-4:], len(raw)) is None


def test_a_tape_counts_and_hashes_what_was_given() -> None:
    """Size and SHA-256 (of `printf abc`, from FIPS 180-2) hold whatever part was read by then."""
    tape = Tape(io.BytesIO(b"abc"), "given")
    assert tape.peek(2) == b"ab"
    assert tape.read(2) == b"ab"
    assert tape.finish() == ("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", 3)


def test_a_reading_fault_names_the_evidence() -> None:
    """What the system says about a bad disk is no damage of the format: the error has file and offset."""

    class Bad(io.RawIOBase):
        def __init__(self) -> None:
            self.given = [bytes.fromhex(BY_TOOLS["zstd"])[:10]]

        def read(self, size: int = -1) -> bytes:
            if self.given:
                return self.given.pop()
            raise OSError(5, "Input/output error")

    with pytest.raises(EvidenceError, match="Input/output error") as told:
        b"".join(Unpacking("zstd", Tape(Bad(), "dump.zst")))  # type: ignore[arg-type]
    assert (told.value.file, told.value.offset) == ("dump.zst", 10)
