"""The JSON messages of releases 0.1 to 0.17, one at a time: no schema, and one Python call per message.

That is some ten microseconds each, on queues that have not been written since 2021; nothing is kept from one message to
the next. Field names, units and which release brought them: NOTES.md, "Whole messages".
"""

from __future__ import annotations

import re
from base64 import b32hexdecode
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from jobsleuth.dialects.asynq.columns import NO_TIME
from jobsleuth.dialects.asynq.jsontext import Members, NoJson, Number, plain

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_UNIT_NS = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9,
}  # fmt: skip
_XID = re.compile(r"[0-9a-v]{19}[0g]", re.ASCII)
_LAST_S = 253_402_300_799


class NoMessage(ValueError):
    """Bytes that are no task of the library."""


@dataclass(slots=True)
class WholeMessage:
    """One task as its message says; the payload's bytes as stored.

    Attributes:
        timeout_s: whole seconds, 0: none.
        deadline_ms: Unix ms, `NO_TIME`: none.
        shown: what it shows of the release that wrote it (see `layout.py`).
        unknown: names of members that the library never wrote.
        rest: members that no attribute holds in full, by name, as stored.
    """

    id: str = ""
    queue: str = ""
    type: str = ""
    payload: bytes = b""
    retry: int = 0
    retried: int = 0
    error: str = ""
    timeout_s: int = 0
    deadline_ms: int = NO_TIME
    unique_key: str = ""
    shown: set[str] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)
    rest: list[tuple[str, bytes]] = field(default_factory=list)


def read(data: bytes) -> WholeMessage:
    """Decodes one message.

    As in the library's own decoder names count whatever their case, the last of several wins, and what stands behind
    the message does not count; none of it is dropped, it is in `rest`.

    Raises:
        NoMessage: why the library could not have read it either, with the byte offset where there is one.
    """
    message = WholeMessage()
    found = Members(data, alone=False)
    places: dict[str, tuple[int, int]] = {}
    try:
        for name, value, start, end in found:
            known = name if name in _MEMBERS else _FOLDED.get(name.lower())
            if known is None:
                message.unknown.append(f"{plain(name)}:json")
                message.rest.append((f"msg.{plain(name)}", found.stored(start, end)))
                continue
            if known in places:
                message.rest.append((f"msg.{known}", found.stored(*places[known])))
            places[known] = start, end
            if value is not None and not _MEMBERS[known](message, known, value):
                message.rest.append((f"msg.{known}", found.stored(start, end)))
    except NoJson as error:
        raise NoMessage(f"broken JSON: {error}" if data[:1] == b"{" else f"no JSON object: {error}") from None
    if found.behind:
        message.rest.append(("msg.behind", found.behind))
    if "Payload" in places:
        message.payload = found.stored(*places["Payload"])
    if not message.id:
        raise NoMessage("JSON without an ID")
    message.shown.add("xid" if _XID.fullmatch(message.id) else "uuid" if len(message.id) == 36 else "other_id")
    return message


def created_ms(message: WholeMessage) -> int | None:
    """When the task was enqueued, Unix ms, where its id tells: releases up to 0.9 gave ids (xid) that begin with the
    second they were made in. None for other ids."""
    if "xid" not in message.shown or "int_times" in message.shown:
        return None
    return int.from_bytes(b32hexdecode(message.id.upper() + "====")[:4], "big") * 1000


def queue_of(message: WholeMessage) -> bytes:
    """The queue a message names, as the keys of releases before 0.18.2 have it."""
    return message.queue.lower().encode()


def is_message(data: bytes) -> bool:
    """Whether the bytes are a message of these releases. Task ids of 0.18 and later are free text."""
    try:
        read(data)
    except NoMessage:
        return False
    return True


# Each takes a member's value, and says whether the attributes hold all of it.


def _text(message: WholeMessage, name: str, value: Any) -> bool:
    setattr(message, _ATTRIBUTE[name], _string(name, value))
    return True


def _int(message: WholeMessage, name: str, value: Any) -> bool:
    setattr(message, _ATTRIBUTE[name], _number(name, value))
    return True


def _payload(message: WholeMessage, name: str, value: Any) -> bool:
    if not isinstance(value, dict):
        raise NoMessage("Payload is no JSON object")
    return True


def _timeout(message: WholeMessage, name: str, value: Any) -> bool:
    if isinstance(value, Number):
        message.shown.add("int_times")
        message.timeout_s = _number(name, value)
        return True
    message.shown.add("text_times")
    ns = duration_ns(_string(name, value))
    if ns is None:
        return False
    message.timeout_s, fraction = divmod(ns, 10**9)
    return fraction == 0


def _deadline(message: WholeMessage, name: str, value: Any) -> bool:
    if isinstance(value, Number):
        message.shown.add("int_times")
        seconds = _number(name, value)
        if 0 < seconds <= _LAST_S:
            message.deadline_ms = seconds * 1000
            return True
        return seconds == 0
    message.shown.add("text_times")
    ms = rfc3339_ms(_string(name, value))
    if ms is not None:
        message.deadline_ms = ms
    return ms is not None


def _string(name: str, value: Any) -> str:
    if isinstance(value, Number) or not isinstance(value, str):
        raise NoMessage(f"{name} is no text")
    return plain(value)


def _number(name: str, value: Any) -> int:
    if not isinstance(value, Number) or not value.removeprefix("-").isdigit() or len(value) > 19:
        raise NoMessage(f"{name} is no whole number")
    return int(value)


_ATTRIBUTE = {
    "Type": "type", "ID": "id", "Queue": "queue", "Retry": "retry", "Retried": "retried", "ErrorMsg": "error",
    "UniqueKey": "unique_key",
}  # fmt: skip
_MEMBERS: dict[str, Callable[[WholeMessage, str, Any], bool]] = {
    "Type": _text, "Payload": _payload, "ID": _text, "Queue": _text, "Retry": _int, "Retried": _int, "ErrorMsg": _text,
    "Timeout": _timeout, "Deadline": _deadline, "UniqueKey": _text,
}  # fmt: skip
_FOLDED = {name.lower(): name for name in _MEMBERS}


def duration_ns(text: str) -> int | None:
    """Nanoseconds of a duration as Go writes it, such as `1h0m30.5s`; None for what is none."""
    sign, body = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if body == "0":
        return 0
    at, total = 0, 0
    while at < len(body):
        part = _DURATION.match(body, at)
        if part is None or len(part[1]) > 25:
            return None
        whole, _, fraction = part[1].partition(".")
        unit = _UNIT_NS[part[2]]
        total += int(whole or 0) * unit + (int(fraction) * unit // 10 ** len(fraction) if fraction else 0)
        at = part.end()
    return sign * total if body and total < 2**63 else None


def rfc3339_ms(text: str) -> int | None:
    """Unix ms of a time as Go writes it; `NO_TIME` for Go's zero time, which means none; None for what is no time."""
    found = _RFC3339.fullmatch(text)
    if found is None:
        return None
    try:
        moment = datetime(*(int(found[n]) for n in range(1, 7)), tzinfo=UTC)  # type: ignore[misc,arg-type]
        if found[8]:
            offset = timedelta(hours=int(found[9]), minutes=int(found[10]))
            moment += offset if found[8] == "-" else -offset
    except (ValueError, OverflowError):
        return None
    if moment == datetime(1, 1, 1, tzinfo=UTC) and not found[7]:
        return NO_TIME
    whole = (moment - _EPOCH) // timedelta(milliseconds=1)
    return whole + int((found[7] or "0").ljust(9, "0")[:3])
