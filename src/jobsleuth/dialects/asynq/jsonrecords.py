"""Servers, workers and schedulers as releases before 0.18 wrote them: JSON, read into the messages of later releases.

The later protobuf messages have a place for all that the JSON says, so that what reads servers reads them of all ages.
"""

from __future__ import annotations

from typing import Any

from jobsleuth.dialects.asynq.columns import NO_TIME
from jobsleuth.dialects.asynq.jsontext import Members, NoJson, Number, plain
from jobsleuth.dialects.asynq.wholemessages import rfc3339_ms

FIELDS: dict[str, dict[str, str]] = {
    "ServerInfo": {
        "Host": "host", "PID": "pid", "ServerID": "server_id", "Concurrency": "concurrency", "Queues": "queues",
        "StrictPriority": "strict_priority", "Status": "status", "State": "status", "Started": "start_time",
        "ActiveWorkerCount": "active_worker_count",
    },
    "WorkerInfo": {
        "Host": "host", "PID": "pid", "ServerID": "server_id", "ID": "task_id", "Type": "task_type",
        "Payload": "task_payload", "Queue": "queue", "Started": "start_time", "Deadline": "deadline",
    },
    "SchedulerEntry": {
        "ID": "id", "Spec": "spec", "Type": "task_type", "Payload": "task_payload", "Opts": "enqueue_options",
        "Next": "next_enqueue_time", "Prev": "prev_enqueue_time",
    },
    "SchedulerEnqueueEvent": {"TaskID": "task_id", "EnqueuedAt": "enqueue_time"},
}  # fmt: skip
"""Message → the JSON's name of each field (`State`: 0.3 and 0.4)."""
_LIMIT = 2**31


def fill(name: str, message: Any, data: bytes) -> list[str]:
    """Fills an empty message of the type `name` from JSON; returns members it has no field for, as `name:json`.

    Raises:
        ValueError: the bytes are no such JSON.
    """
    unknown = []
    found = Members(data)
    try:
        for member, value, start, end in found:
            field = FIELDS[name].get(member)
            if field is None:
                unknown.append(f"{plain(member)}:json")
            elif field == "task_payload":
                message.task_payload = found.stored(start, end)
            elif value is not None:
                _set(message, field, value)
    except NoJson as error:
        raise ValueError(str(error)) from None
    except (TypeError, AttributeError) as error:
        raise ValueError("a member of another type than the library's") from error
    return sorted(set(unknown))


def _set(message: Any, field: str, value: Any) -> None:
    if field.endswith("_time") or field == "deadline":
        ms = rfc3339_ms(value)
        if ms is None:
            raise ValueError(f"{plain(value)} is no time")
        if ms != NO_TIME:
            stamp = getattr(message, field)
            stamp.seconds, stamp.nanos = ms // 1000, ms % 1000 * 1_000_000
    elif field == "queues":
        for queue, priority in value.items():
            message.queues[plain(queue)] = _int(priority)
    elif field == "enqueue_options":
        message.enqueue_options.extend(plain(option) for option in value)
    elif isinstance(value, Number):
        setattr(message, field, _int(value))
    else:
        setattr(message, field, plain(value) if isinstance(value, str) else value)


def _int(value: Any) -> int:
    if not isinstance(value, Number) or len(value) > 11 or not -_LIMIT <= int(value) < _LIMIT:
        raise ValueError(f"{plain(str(value))[:40]} is no whole number that fits")
    return int(value)
