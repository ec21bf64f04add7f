"""What a dialect asks to have decoded from a hash or a stream entry, column by column.

A projection names stored fields and says how to read them; fields it does not name come back in a `rest` map, and so
does a named field whose bytes do not fit the asked type (its column is then null): nothing is lost.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

FieldKind = Literal["text", "bytes", "int", "ms", "json_text", "json_int", "present", "message"]
"""How a stored field becomes a column.

text      string column; bytes that are not UTF-8 become ``\\xNN`` and the exact bytes also go to `rest`
bytes     binary column, cut to `limit` bytes if given; with `size` also int64 `<name>_size` (bytes before the cut);
          with `format` also string `<name>_format`: `empty`, `json` (parses as JSON) or `opaque`
int       int64 from decimal text
ms        timestamp[ms, UTC] from decimal text in milliseconds (a fraction is cut)
json_text string at `path` (one member name) of a JSON object; other JSON types there as their JSON text; the whole
          field also stays in `rest`
json_int  int64 at `path` of a JSON object; the whole field also stays in `rest`
present   bool: whether the field is there; the field itself goes to `rest` unless another column takes it whole
message   protobuf message, one column `<name>.<field>` for each of `message`, and besides
          `<name>.error` string (null: decoded; else why, with the byte offset inside the message),
          `<name>.unknown` binary (raw bytes of unknown fields), `<name>.unknown_fields` list<string> (`99:varint`),
          `<name>.raw` binary (the whole stored value where it could not be decoded), `<name>_size` int64
"""

MessageKind = Literal["string", "bytes", "int32", "int64", "string_map"]


@dataclass(frozen=True)
class MessageField:
    """One field of a protobuf message: its number, its column's name and its wire meaning.

    A proto3 scalar that is absent is its zero value (0, empty); a repeated occurrence overwrites the earlier one.
    `format` and `limit` are for `bytes`, as in :class:`Projected`.
    """

    number: int
    name: str
    kind: MessageKind
    limit: int | None = None
    size: bool = False
    format: bool = False


@dataclass(frozen=True)
class Projected:
    """One projected stored field; see :data:`FieldKind`."""

    name: str
    field: str
    kind: FieldKind
    path: str | None = None
    limit: int | None = None
    size: bool = False
    format: bool = False
    message: tuple[MessageField, ...] = ()


def projection_json(fields: tuple[Projected, ...]) -> str:
    """The projection as the JSON text that the native core takes; empty members are left out."""

    def lean(value: object) -> object:
        if isinstance(value, Projected | MessageField):
            pairs = vars(value).items()
            return {k: lean(v) for k, v in pairs if v is not None and v is not False and v != ()}
        if isinstance(value, tuple):
            return [lean(v) for v in value]
        return value

    return json.dumps(lean(fields))
