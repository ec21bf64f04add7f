"""The schema, and small messages decoded with it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from jobsleuth.dialects.asynq import messages

PACKAGE = Path(messages.__file__).parent
UPSTREAM = Path(__file__).with_name("upstream_schema.txt")
TYPES = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_BOOL: "bool",
}


def type_of(field: FieldDescriptor) -> str:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = field.message_type.fields
        return f"map<{TYPES[key.type]},{TYPES[value.type]}>"
    name = field.message_type.full_name if field.message_type is not None else TYPES[field.type]
    return f"repeated {name}" if repeated(field) else name


def repeated(field: FieldDescriptor) -> bool:
    proto = FileDescriptorProto()
    field.containing_type.file.CopyToProto(proto)
    (message,) = (m for m in proto.message_type if m.name == field.containing_type.name)
    (found,) = (f for f in message.field if f.name == field.name)
    return bool(found.label == found.LABEL_REPEATED)


def test_schema_is_the_librarys() -> None:
    """Every message, field, number and type of ours is what the compiled library 0.26.0 says of itself."""
    upstream = {line for line in UPSTREAM.read_text().splitlines() if not line.startswith("#")}
    ours: set[str] = set()
    descriptor: Descriptor
    for descriptor in messages.DESCRIPTORS.values():
        ours.update(f"{descriptor.full_name} {f.name} {f.number} {type_of(f)}" for f in descriptor.fields)
    assert upstream == ours


def test_compiled_schema_is_fresh(tmp_path: Path) -> None:
    """The committed descriptor set is what the committed .proto compiles to."""
    protoc = shutil.which("protoc")
    if protoc is None:
        pytest.skip("protoc is not installed: the compiled schema was not compared with its source")
    out = tmp_path / "asynq.binpb"
    subprocess.run(
        [protoc, f"--proto_path={PACKAGE}", "--include_imports", f"--descriptor_set_out={out}", "asynq.proto"],
        check=True,
    )
    pools = [descriptor_pool.DescriptorPool() for _ in range(2)]
    files = []
    for pool, data in zip(pools, (out.read_bytes(), PACKAGE.joinpath("asynq.binpb").read_bytes()), strict=True):
        for file in messages.FileDescriptorSet.FromString(data).file:
            pool.AddSerializedFile(file.SerializeToString())
        proto = FileDescriptorProto()
        pool.FindFileByName("asynq.proto").CopyToProto(proto)
        files.append(proto)
    assert files[0] == files[1]


def test_task_fields_for_the_core() -> None:
    """The core's table has each field of a task once; numbers that stand out of order in the source are right."""
    fields = {f.name: f for f in messages.task_fields(16)}
    assert sorted(f.number for f in fields.values()) == list(range(1, 16))
    assert (fields["last_failed_at"].number, fields["last_failed_at"].kind) == (11, "int64")
    assert (fields["group_key"].number, fields["retention"].number) == (14, 12)
    assert (fields["headers"].number, fields["headers"].kind) == (15, "string_map")
    assert (fields["payload"].limit, fields["payload"].size, fields["payload"].format) == (16, True, True)


def test_schema_does_not_clash_with_another() -> None:
    """A program may have loaded another `asynq.proto`: ours lives in a pool of its own."""
    other = FileDescriptorProto(name="asynq.proto", package="asynq")
    other.message_type.add(name="TaskMessage").field.add(name="x", number=1, type=13, label=1)
    descriptor_pool.Default().AddSerializedFile(other.SerializeToString())
    assert messages.TASK.fields_by_number[15].name == "headers"


@pytest.mark.parametrize(
    ("data", "hint"),
    [(b'{"Host":"a"}', True), (b"\x0a\x05abc", False), (b"\x0a\x01\xff", False), (b"\xff", False)],
)
def test_what_is_no_message_is_data(data: bytes, hint: bool) -> None:
    """Bytes that are no message give an error text, not an exception; JSON of old releases is named as such."""
    read = messages.decode("ServerInfo", data)
    assert read.error is not None
    assert ("JSON" in read.error) is hint
    assert read.message.host == ""


def test_unknown_fields_are_named() -> None:
    """A field a newer release added is named with its wire type; the known ones are read all the same."""
    read = messages.decode("ServerInfo", b"\x0a\x01h\xf8\x06\x01\xf2\x06\x01x")
    assert (read.message.host, read.error, read.unknown) == ("h", None, ["110:bytes", "111:varint"])


def test_never_is_no_time() -> None:
    """Go's zero time means "never"; years that no calendar column holds are no time either."""
    never = messages.decode("SchedulerEntry", b"").message
    assert messages.timestamp_ms(never, "prev_enqueue_time") is None
    never.prev_enqueue_time.seconds = -62_135_596_800
    assert messages.timestamp_ms(never, "prev_enqueue_time") is None
    never.prev_enqueue_time.seconds = 2**62
    assert messages.timestamp_ms(never, "prev_enqueue_time") is None
    never.prev_enqueue_time.seconds, never.prev_enqueue_time.nanos = 1_700_000_000, 123_999_999
    assert messages.timestamp_ms(never, "prev_enqueue_time") == 1_700_000_000_123
