"""The messages of Asynq 0.18 and later, from the one schema `asynq.proto`.

Small messages (servers, workers, scheduler entries, enqueue events) are decoded here with the protobuf package; tasks
in bulk by the native core, from the field table that :func:`task_fields` derives of the same descriptor.
Field meanings: see NOTES.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from jobsleuth.dialects.asynq.jsonrecords import fill
from jobsleuth.keyspace import MessageField
from jobsleuth.keyspace.projection import MessageKind
from jobsleuth.safetext import from_bytes

_KINDS: dict[int, MessageKind] = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
}
_WIRE = {0: "varint", 1: "fixed64", 2: "bytes", 3: "group", 5: "fixed32"}
_ZERO_TIME_S = -62_135_596_800
"""Go's zero time in Unix seconds: what "never" looks like as a Timestamp."""

JSON_HINT = " (it begins with a brace, like the JSON of releases before 0.18)"


def _load() -> dict[str, Descriptor]:
    # A pool of our own: a program that analyses a case may have another file of the package `asynq` loaded.
    pool = descriptor_pool.DescriptorPool()
    compiled = FileDescriptorSet.FromString(files(__package__).joinpath("asynq.binpb").read_bytes())
    for file in compiled.file:
        pool.AddSerializedFile(file.SerializeToString())
    return dict(pool.FindFileByName("asynq.proto").message_types_by_name)


DESCRIPTORS = _load()
"""Message name → descriptor."""

TASK = DESCRIPTORS["TaskMessage"]
_CLASSES: dict[str, type[Message]] = {name: message_factory.GetMessageClass(d) for name, d in DESCRIPTORS.items()}


def task_fields(payload_limit: int | None) -> tuple[MessageField, ...]:
    """The fields of TaskMessage as the native core's decoder takes them, by field number.

    Args:
        payload_limit: bytes of each payload kept; None: all.
    """
    out = []
    for field in sorted(TASK.fields, key=lambda f: f.number):
        if field.type == FieldDescriptor.TYPE_BYTES:
            out.append(MessageField(field.number, field.name, "bytes", payload_limit, size=True, format=True))
        elif field.type == FieldDescriptor.TYPE_MESSAGE:  # the only one is the map of headers
            out.append(MessageField(field.number, field.name, "string_map"))
        else:
            out.append(MessageField(field.number, field.name, _KINDS[field.type]))
    return tuple(out)


@dataclass(frozen=True)
class Decoded:
    """A small message, or why it could not be read.

    Attributes:
        message: the message; all its fields are empty where `error` is set.
        error: None, or what was wrong with the bytes.
        unknown: fields that the schema does not have, as `number:wire type`, or `name:json`.
    """

    message: Any
    error: str | None
    unknown: list[str]

    def remarks(self, data: bytes, limit: int | None = None) -> dict[str, str]:
        """What there is to say of a message's bytes: why they are none, or what fields the schema lacks; and the bytes.

        Args:
            data: the bytes.
            limit: how many of them may be told, where there is a payload among them; None: all.
        """
        if self.error is not None:
            return {"decode_error": self.error, "undecoded": from_bytes(data[:limit])}
        if self.unknown:
            return {"unknown_fields": ", ".join(self.unknown), "stored": from_bytes(data[:limit])}
        return {}


def payload_facts(payload: bytes, limit: int | None) -> dict[str, str]:
    """A payload of a small message, as much of it as the case keeps, and its size where that is not all."""
    kept = payload[:limit]
    more = {"payload_bytes": str(len(payload))} if len(kept) < len(payload) else {}
    return {"payload": from_bytes(kept), **more}


def decode(name: str, data: bytes) -> Decoded:
    """One message of the type `name`; bytes that are none give an empty message and an error, never an exception.

    JSON is read as releases before 0.18 wrote it.
    """
    kind = _CLASSES[name]
    try:
        message = kind.FromString(data)
    except DecodeError:  # its text differs from release to release of the package
        if data[:1] == b"{":
            return _from_json(name, data)
        return Decoded(kind(), f"{len(data)} bytes that are no {name} message", [])
    unknown = sorted({f"{f.field_number}:{_WIRE.get(f.wire_type, f.wire_type)}" for f in UnknownFieldSet(message)})  # type: ignore[attr-defined]
    return Decoded(message, None, unknown)


def _from_json(name: str, data: bytes) -> Decoded:
    message = _CLASSES[name]()
    try:
        return Decoded(message, None, fill(name, message, data))
    except ValueError as error:
        return Decoded(_CLASSES[name](), f"{len(data)} bytes that begin like JSON but are no {name}: {error}", [])


def timestamp_ms(message: Any, field: str) -> int | None:
    """A Timestamp field in Unix milliseconds; None where it is absent, Go's zero time, or outside the years 1–9999."""
    if not message.HasField(field):
        return None
    stamp = getattr(message, field)
    if not _ZERO_TIME_S < stamp.seconds <= 253_402_300_799:
        return None
    return int(stamp.seconds) * 1000 + int(stamp.nanos) // 1_000_000
