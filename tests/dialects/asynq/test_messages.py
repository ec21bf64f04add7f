"""The schema, and small messages decoded with it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from jobsleuth.dialects.asynq import messages, wholemessages
from jobsleuth.dialects.asynq.columns import NO_TIME

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
    ("data", "json"),
    [
        (b"\x0a\x05abc", False), (b"\x0a\x01\xff", False), (b"\xff", False), (b"{", True), (b'{"Host":7}', True),
        (b'{"PID":"1"}', True), (b'{"PID":99999999999}', True), (b'{"Queues":[]}', True),
        (b'{"Queues":{"a":"b"}}', True),
        (b'{"Started":"yesterday"}', True), (b'{"Started":7}', True), (b'{"PID":1.5}', True), (b'{"Status":{}}', True),
        (b'{"Host":' + b"[" * 100_000, True),
    ],
)  # fmt: skip
def test_what_is_no_message_is_data(data: bytes, json: bool) -> None:
    """Bytes that are no message give an error text, not an exception; JSON of old releases is named as such."""
    read = messages.decode("ServerInfo", data)
    assert read.error is not None
    assert ("JSON" in read.error) is json
    assert read.message == type(read.message)()


def test_json_of_old_releases() -> None:
    """What releases before 0.18 wrote as JSON reads like the later message; members they never wrote are named."""
    server = messages.decode(
        "ServerInfo",
        b'{"Host":"h","PID":7,"ServerID":"s","Queues":{"a":2},"Started":"2020-01-02T03:04:05.678901+01:00","New":[1]}',
    )
    assert (server.message.host, server.message.pid, dict(server.message.queues)) == ("h", 7, {"a": 2})
    assert messages.timestamp_ms(server.message, "start_time") == 1_577_930_645_678
    assert (server.error, server.unknown) == (None, ["New:json"])
    # Asynq 0.3 and 0.4 called it so.
    assert messages.decode("ServerInfo", b'{"State":"running"}').message.status == "running"
    entry = messages.decode(
        "SchedulerEntry", b'{"Payload":{"n": 1.50},"Opts":["MaxRetry(3)"],"Prev":"0001-01-01T00:00:00Z"}'
    )
    assert (entry.message.task_payload, list(entry.message.enqueue_options)) == (b'{"n": 1.50}', ["MaxRetry(3)"])
    assert messages.timestamp_ms(entry.message, "prev_enqueue_time") is None


def test_unknown_fields_are_named() -> None:
    """A field a newer release added is named with its wire type; the known ones are read all the same."""
    read = messages.decode("ServerInfo", b"\x0a\x01h\xf8\x06\x01\xf2\x06\x01x")
    assert (read.message.host, read.error, read.unknown) == ("h", None, ["110:bytes", "111:varint"])
    assert read.remarks(b"\x0a\x01h") == {"unknown_fields": "110:bytes, 111:varint", "stored": "\n\x01h"}


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


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0s", 0), ("30m0s", 1_800 * 10**9), ("1h0m0.5s", 3_600_500_000_000), ("-1.5h", -5_400 * 10**9),
        ("300ms", 3 * 10**8),
        ("1.5µs", 1500), ("2562047h47m16.854775807s", 2**63 - 1),
        ("", None), ("s", None), ("1", None), ("1d", None), ("1h ", None), ("99999999h", None),
    ],
)  # fmt: skip
def test_durations(text: str, ns: int | None) -> None:
    """Durations are what Go's time.ParseDuration reads (its documented examples and limits); others are none."""
    assert wholemessages.duration_ns(text) == ns


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2020-06-01T12:00:00Z", 1_591_012_800_000), ("2020-06-01T14:00:00.9999+02:00", 1_591_012_800_999),
        ("1969-12-31T23:59:59.5Z", -500), ("0001-01-01T00:00:00Z", NO_TIME),
        ("2020-06-01", None), ("2020-13-01T00:00:00Z", None), ("0001-01-01T00:00:00+23:59", None), ("x", None),
    ],
)  # fmt: skip
def test_times_as_text(text: str, ms: int | None) -> None:
    """RFC 3339 times in Unix ms; Go's zero time is none; what is no time of the calendar is said to be so."""
    assert wholemessages.rfc3339_ms(text) == ms


def test_what_stands_behind_a_whole_message() -> None:
    """The library (0.17.2, `DecodeMessage`, was asked) reads the first value and no further; what follows is kept."""
    read = wholemessages.read(b'{"Type":"t","ID":"x"},"Retry":3}')
    assert (read.id, read.type, read.retry, dict(read.rest)) == ("x", "t", 0, {"msg.behind": b',"Retry":3}'})
    assert wholemessages.read(b'{"Type":"t","ID":"x"}\n ').rest == []
    server = messages.decode("ServerInfo", b'{"Host":"h"}x')  # these it reads whole
    assert server.error is not None and "Extra data at byte 12" in server.error


def test_whole_message_keeps_what_it_does_not_know() -> None:
    """Members of other writers, names in other case, repeated members, values out of range: kept as stored."""
    read = wholemessages.read(
        b'{"ID":"a","type":"t","New":{"x":1.50},"ID":"b","Timeout":"soon","Deadline":-1,"Payload":null,"Retry":null}'
    )
    assert (read.id, read.type, read.payload, read.retry, read.timeout_s) == ("b", "t", b"null", 0, 0)
    assert read.unknown == ["New:json"]
    assert dict(read.rest) == {
        "msg.New": b'{"x":1.50}', "msg.ID": b'"a"', "msg.Timeout": b'"soon"', "msg.Deadline": b"-1",
    }  # fmt: skip
