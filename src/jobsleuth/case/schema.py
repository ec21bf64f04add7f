"""Every table of a case: columns, types, units, meaning. The one place that knows them.

Names and types of the columns are a promise (see docs/tables/): a change is a changelog entry and raises
:data:`SCHEMA_VERSION`. Readers pick columns by name; writers give what they know and the rest becomes null.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

SCHEMA_VERSION = 1

_S = pa.string()
_B = pa.binary()
_I = pa.int64()
_BOOL = pa.bool_()
_MS = pa.timestamp("ms", tz="UTC")
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
_DICT = pa.dictionary(pa.int32(), pa.string())
_TEXTMAP = pa.map_(pa.string(), pa.string())
_BYTESMAP = pa.map_(pa.string(), pa.binary())
_COUNTS = pa.map_(pa.string(), pa.int64())


@dataclass(frozen=True)
class Column:
    """One column: name, Arrow type, meaning (with unit), and whether its values can be large."""

    name: str
    type: pa.DataType
    doc: str
    big: bool = False


@dataclass(frozen=True)
class Table:
    """One table of a case."""

    name: str
    doc: str
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, in column order."""
        return pa.schema([(c.name, c.type) for c in self.columns])

    @property
    def small_columns(self) -> list[str]:
        """Names of the columns that are cheap to read."""
        return [c.name for c in self.columns if not c.big]


_DIALECT = Column("dialect", _DICT, "Queue library family: `bullmq`, `asynq`.")
_NAMESPACE = Column("namespace", _DICT, "What stands before the queue name: BullMQ's prefix; `asynq`.")
_QUEUE = Column("queue", _DICT, "Queue name as the library's user gave it, non-UTF-8 bytes as `\\xNN`.")
_EVIDENCE = Column("evidence", pa.int32(), "Number of the evidence file in the manifest, from 0.")
_DB = Column("db", _I, "Redis database number.")
_JOB_ID = Column("job_id", _S, "Job id, non-UTF-8 bytes as `\\xNN`.")
_JOB_ID_BYTES = Column("job_id_bytes", _B, "The id's bytes where `job_id` could not be exact, else null.")


def _bytes_of(name: str) -> Column:
    return Column(f"{name}_bytes", _B, f"The bytes of `{name}` where the text could not be exact, else null.")


TABLES: tuple[Table, ...] = (
    Table(
        "keys",
        "Every key of the evidence, claimed by a queue or not.",
        (
            _EVIDENCE,
            _DB,
            Column("key", _S, "Key name, non-UTF-8 bytes as `\\xNN`."),
            _bytes_of("key"),
            Column("type", _DICT, "string, list, set, zset, hash, stream, array, vectorset, module."),
            Column("encoding", _DICT, "Encoding on disk: listpack, ziplist, intset, quicklist, hashtable, skiplist, …"),
            Column("expire_at", _MS, "When the key expires; null: never."),
            Column("expired", _BOOL, "Whether it had expired at the snapshot; null: snapshot time unknown."),
            Column("offset", pa.uint64(), "Byte offset of its entry or line in the evidence; null: it has no place."),
            Column("nbytes", pa.uint64(), "Bytes of that entry or line as stored; null: it has no place."),
            Column("elements", pa.uint64(), "Elements, fields or entries; null where the file does not say."),
            Column("dialect", _DICT, "Dialect that claims the key; null: none."),
            _NAMESPACE,
            _QUEUE,
            _bytes_of("namespace"),
            _bytes_of("queue"),
            Column("role", _DICT, "What the key is to its queue: `job`, `wait`, `lock`, …; `unplaced`: fits no role."),
        ),
    ),
    Table(
        "jobs",
        "One row for every job id seen: with a record, or named by a structure only. Never a marker.",
        (
            _DIALECT,
            _NAMESPACE,
            _QUEUE,
            _bytes_of("namespace"),
            _bytes_of("queue"),
            _JOB_ID,
            _JOB_ID_BYTES,
            Column(
                "state",
                _DICT,
                "BullMQ: what the library's getState answers. Asynq: the structure the id is in. Streams: undelivered,"
                " pending (delivered, not acknowledged), released (handed back, Redis 8.8), acknowledged.",
            ),
            Column("decided_by", _DICT, "The structure that makes `state`, first in precedence (Asynq); null: none."),
            Column("claimed_state", _DICT, "What the job's own record says (Asynq); null where it says nothing."),
            Column("has_record", _BOOL, "Whether the job's own record exists and had not expired."),
            Column("record_complete", _BOOL, "Whether the record has the fields every real job has; null: no record."),
            Column("name", _S, "BullMQ job name; Asynq task type."),
            Column(
                "payload",
                _B,
                "Payload bytes as stored (BullMQ `data`, Asynq field 2), cut by --payload. Streams: the entry's fields"
                " as JSON, an object; as list of pairs where a name comes twice or a value is not UTF-8.",
                big=True,
            ),
            Column("payload_bytes", _I, "Size of the whole payload in bytes."),
            Column("payload_format", _DICT, "`json` where the payload parses as JSON, `empty`, else `opaque`."),
            Column(
                "payload_begins_json",
                _BOOL,
                "Whether a payload that is no JSON begins as an object or a list does (`{` or `[` after white space),"
                " also where it was not kept; null: it is JSON, there is none, or the dialect is neither plain"
                " lists nor described layouts.",
            ),
            Column("created_at", _MS, "When the job was added (BullMQ `timestamp`); Asynq: only where knowable."),
            Column("scheduled_at", _MS, "When it is due (delayed, scheduled, retry); null otherwise."),
            Column(
                "started_at", _MS, "Latest start (BullMQ `processedOn`; Asynq: live worker entry; streams: delivery)."
            ),
            Column("finished_at", _MS, "When it ended (BullMQ `finishedOn`, Asynq `completed_at` or archive time)."),
            Column("last_failed_at", _MS, "Latest failure (Asynq `last_failed_at`)."),
            Column(
                "attempts", _I, "The library's own counter: BullMQ `atm`/`attemptsMade`, Asynq `retried`; deliveries."
            ),
            Column("attempts_started", _I, "Times made active (BullMQ `ats`)."),
            Column("stalled_count", _I, "Times recovered after a lost lock (BullMQ `stc`/`stalledCounter`)."),
            Column("max_attempts", _I, "BullMQ `opts.attempts`, Asynq `retry`."),
            Column("priority", _I, "BullMQ `priority`, 0: none."),
            Column("delay_ms", _I, "BullMQ `delay` in milliseconds."),
            Column("timeout_s", _I, "Asynq `timeout` in seconds, 0: none."),
            Column("deadline", _MS, "Asynq `deadline`; null: none."),
            Column("retention_s", _I, "Asynq `retention` in seconds, 0: none."),
            Column("error", _S, "Latest failure text (BullMQ `failedReason`, Asynq `error_msg`).", big=True),
            Column("stacktrace", _S, "BullMQ `stacktrace` as stored (a JSON array).", big=True),
            Column("result", _B, "Return value as stored (BullMQ `returnvalue`, Asynq `result`).", big=True),
            Column("progress", _S, "BullMQ `progress` as stored (JSON).", big=True),
            Column(
                "worker_name",
                _DICT,
                "BullMQ `pb`: name of the worker that took it; the stream's consumer that holds it.",
            ),
            Column("deferred_failure", _S, "BullMQ `defa`: why it must fail at the next pick-up.", big=True),
            Column("parent_namespace", _DICT, "Namespace of the parent's queue."),
            Column("parent_queue", _DICT, "Queue of the parent in a flow."),
            Column("parent_id", _S, "Id of the parent in a flow."),
            _bytes_of("parent_id"),
            Column("schedule_id", _S, "Schedule that made the job (BullMQ `rjk`)."),
            Column("deduplication_id", _S, "BullMQ `deid`; Asynq `unique_key`."),
            Column("group", _S, "Asynq group."),
            Column("pending_since", _MS, "Asynq `pending_since`."),
            Column("record_id", _S, "The id inside the record's message (Asynq), null where it says none."),
            Column("record_queue", _S, "The queue inside the record's message (Asynq), null where it says none."),
            Column(
                "decode_error", _S, "Why the record could not be decoded, with the byte offset inside it; else null."
            ),
            Column("unknown_fields", pa.list_(_S), "Fields a newer or foreign writer added, as `number:wire type`."),
            Column("message_rest", _B, "Bytes of the unknown message fields as stored (Asynq).", big=True),
            Column("undecoded", _B, "The whole stored message where it could not be decoded (Asynq).", big=True),
            Column("key", _S, "Key of the record, or where it would be; null where records live inside structures."),
            _bytes_of("key"),
            _EVIDENCE,
            _DB,
            Column("rest", _BYTESMAP, "Stored fields that no column above holds, exactly as stored.", big=True),
        ),
    ),
    Table(
        "membership",
        "Which structure holds which id: one row per element of every list, zset and set that names jobs.",
        (
            _DIALECT,
            _NAMESPACE,
            _QUEUE,
            _bytes_of("namespace"),
            _bytes_of("queue"),
            Column("structure", _DICT, "`wait`, `active`, `delayed`, `lease`, … ; `marker` for wake-up entries."),
            Column("kind", _DICT, "list, zset, set, stream or string."),
            Column("position", _I, "Index from the head of a list; rank in a zset; null for sets."),
            _JOB_ID,
            _JOB_ID_BYTES,
            Column("score", pa.float64(), "Zset score as stored."),
            Column("due_at", _MS, "The time in the score, decoded; null where it holds none."),
            Column("sequence", _I, "Tie-breaker packed into the score (BullMQ), null otherwise."),
            Column("decides_state", _BOOL, "Whether being here makes the state (false for `stalled`, `lease`, …)."),
            Column("group", _S, "The Asynq group that a group or an aggregation set belongs to, null otherwise."),
            Column("key", _S, "Key of the structure."),
            _bytes_of("key"),
            _EVIDENCE,
            _DB,
        ),
    ),
    Table(
        "queues",
        "One row per queue.",
        (
            _DIALECT,
            _NAMESPACE,
            _QUEUE,
            _bytes_of("namespace"),
            _bytes_of("queue"),
            Column("layout", _S, "Storage layout inferred from the keys, e.g. `bullmq 5.x`, `asynq 0.22+`."),
            Column("layout_why", _S, "The evidence for the layout, and doubts about prefix and name."),
            Column("library_version", _S, "Version the library itself recorded; null where it records none."),
            Column("paused", _BOOL, "Whether the queue is paused."),
            Column("paused_at", _MS, "Since when, where recorded (Asynq)."),
            Column("pause_flags", pa.list_(_S), "Where BullMQ and Bull record it: `meta.paused`, `meta-paused`."),
            Column("counts", _COUNTS, "State → rows in `jobs`."),
            Column("oldest_waiting_at", _MS, "Creation (or pending-since) time of the oldest job ready to run."),
            Column("last_activity_at", _MS, "Newest event, start, finish or heartbeat seen."),
            Column("last_worker_sign_at", _MS, "Latest sign that a worker lived (stalled check, lock, lease, event)."),
            Column("limits", _COUNTS, "Configured and running limits, e.g. `concurrency`, `max`, `duration_ms`."),
            Column("counters", _COUNTS, "Counters the library keeps, e.g. `id`, `processed`, `failed`."),
            Column("registered", _BOOL, "Whether the library's registry names it (Asynq `asynq:queues`)."),
            _EVIDENCE,
            _DB,
        ),
    ),
    Table(
        "workers",
        "Servers, workers, locks, leases and consumers that the snapshot shows.",
        (
            _DIALECT,
            _NAMESPACE,
            _QUEUE,
            _bytes_of("namespace"),
            _bytes_of("queue"),
            Column(
                "kind",
                _DICT,
                "server, worker, lock, lease, consumer; Asynq: scheduler, aggregation_set, semaphore too.",
            ),
            Column("worker_id", _S, "Server id, worker id or lock token."),
            Column("host", _S, "Host name as recorded."),
            Column("pid", _I, "Process id as recorded."),
            _JOB_ID,
            _JOB_ID_BYTES,
            Column("started_at", _MS, "When the server or the work started."),
            Column("deadline", _MS, "When the work must be done."),
            Column("valid_until", _MS, "When lock, lease or heartbeat runs out; null: never."),
            Column("valid", _BOOL, "Whether it was valid at the snapshot; null: snapshot time unknown."),
            Column("seen_at", _MS, "When a stream's consumer last asked for anything."),
            Column("active_at", _MS, "When it last got something (since Redis 7.2; null: never, or not recorded)."),
            Column("holds", _I, "Entries pending for a stream's consumer."),
            Column("details", _TEXTMAP, "Further facts, e.g. concurrency, status, queues."),
            Column("key", _S, "Key it was read from."),
            _EVIDENCE,
            _DB,
        ),
    ),
    Table(
        "schedules",
        "Repeatable jobs, job schedulers, cron entries.",
        (
            _DIALECT,
            _NAMESPACE,
            _QUEUE,
            _bytes_of("namespace"),
            _bytes_of("queue"),
            Column("schedule_id", _S, "Scheduler id or repeat key."),
            Column("spec", _S, "Cron pattern, `every <ms>`, or the library's own text."),
            Column("next_at", _MS, "Next run."),
            Column("last_at", _MS, "Previous run."),
            _JOB_ID,
            _JOB_ID_BYTES,
            Column("details", _TEXTMAP, "Further stored fields, e.g. tz, limit, end date, template."),
            Column("has_record", _BOOL, "Whether the definition's own key exists."),
            Column("key", _S, "Key of the definition."),
            _EVIDENCE,
            _DB,
        ),
    ),
    Table(
        "relations",
        "Links between jobs: flow parents, deduplication, uniqueness, schedules.",
        (
            _DIALECT,
            Column(
                "kind",
                _DICT,
                "parent, deduplication, uniqueness or schedule; parked: a job that was added while another ran.",
            ),
            Column("via", _DICT, "Where it is recorded: `parentKey`, `dependencies`, `processed`, `failed`, …"),
            Column("source_namespace", _DICT, "Namespace of the source."),
            Column("source_queue", _DICT, "Queue of the source (the child; the holder of a key)."),
            Column("source_id", _S, "Id of the source; for deduplication, uniqueness and parked the key's own name."),
            _bytes_of("source_id"),
            Column("target_namespace", _DICT, "Namespace of the target."),
            Column("target_queue", _DICT, "Queue of the target (the parent; the job that is pointed to)."),
            Column("target_id", _S, "Id of the target."),
            _bytes_of("target_id"),
            Column("valid_until", _MS, "When the link runs out; null: never."),
            Column("key", _S, "Key it was read from."),
            Column(
                "rest", _BYTESMAP, "Of a parked job all stored fields, `data` cut by --payload; else null.", big=True
            ),
            _EVIDENCE,
            _DB,
        ),
    ),
    Table(
        "events",
        "Entries of the libraries' own event streams, oldest first.",
        (
            _DIALECT,
            _NAMESPACE,
            _QUEUE,
            _bytes_of("namespace"),
            _bytes_of("queue"),
            Column("at", _MS, "Time in the entry's id."),
            Column("event", _DICT, "Event name as stored."),
            _JOB_ID,
            _JOB_ID_BYTES,
            Column("stream_id", _S, "Entry id."),
            Column("fields", _TEXTMAP, "The other fields of the entry.", big=True),
            _EVIDENCE,
            _DB,
        ),
    ),
    Table(
        "logs",
        "What processors logged of their jobs, a row a line, also of jobs that are gone.",
        (
            _DIALECT,
            _NAMESPACE,
            _QUEUE,
            _bytes_of("namespace"),
            _bytes_of("queue"),
            _JOB_ID,
            _JOB_ID_BYTES,
            Column("position", _I, "Place in the log, 0 is the oldest line kept."),
            Column("line", _S, "The line, non-UTF-8 bytes as `\\xNN`.", big=True),
            Column("line_bytes", _B, "The line's bytes where `line` could not be exact, else null.", big=True),
            Column("key", _S, "Key it was read from."),
            _EVIDENCE,
            _DB,
        ),
    ),
    Table(
        "transitions",
        "Moves of jobs between structures, from an append-only file. Empty for a snapshot.",
        (
            _DIALECT,
            _NAMESPACE,
            _QUEUE,
            _JOB_ID,
            _JOB_ID_BYTES,
            Column("at", _MS, "When, to the second, where the file notes times; else null."),
            Column("from_structure", _DICT, "Structure left; `record`, `lock`: that key of the job went; null: none."),
            Column("to_structure", _DICT, "Structure entered; `record`, `lock`: that key came; null: none."),
            Column("command", _S, "The command that moved it; two where one took it out and another put it in."),
            Column("file", _DICT, "File in which the command stands."),
            Column("file_offset", pa.uint64(), "Byte offset of the command in that file."),
            Column("step", _I, "Number of the command among those that change keys, from 0: the order of all."),
            Column("transaction_number", _I, "Number of the transaction it stands in, from 1; null: in none."),
            _EVIDENCE,
            _DB,
        ),
    ),
    Table(
        "checks",
        "Every check, whether it ran, and its texts: a report needs no check code.",
        (
            Column("check_id", _S, "Permanent id, e.g. `MB001`."),
            Column("name", _S, "The bad pattern in kebab-case."),
            Column("title", _S, "One line."),
            Column("severity", _DICT, "error, warning or info: the check's own, findings may differ."),
            Column("status", _DICT, "ran, off or could_not_run."),
            Column("reason", _S, "Why it could not run or is off; which evidence it had to leave out; else null."),
            Column("findings", _I, "Findings it made."),
            Column(
                "impact", _S, "What a finding means for the work, as the end of a sentence that begins with a count."
            ),
            Column("versions", _S, "Releases it holds for."),
            Column("texts", _TEXTMAP, "Section → text: what it finds, why it matters, what to do next, …"),
        ),
    ),
    Table(
        "causes",
        "What explains several findings at once: one row for each value of `findings.cause`.",
        (
            Column("cause", _S, "Its key: the kind, and after a colon the queue or process that it is about."),
            Column("kind", _DICT, "What kind of cause: `workers-died`, `evidence-cut`, …"),
            Column("title", _S, "What happened, one line."),
            Column("what_to_do", _S, "What to do about all of it."),
            Column("basis", _DICT, "What it rests on that these findings have one cause: derived or inferred."),
            Column("findings", _I, "Findings that it explains."),
            Column("waiting_parents", _I, "Parents in flows that wait for the jobs it is about."),
        ),
    ),
    Table(
        "findings",
        "What does not add up.",
        (
            Column("check_id", _DICT, "Which check says so."),
            Column("severity", _DICT, "error, warning or info."),
            Column("certainty", _DICT, "certain or possible."),
            _DIALECT,
            _NAMESPACE,
            _QUEUE,
            _JOB_ID,
            _JOB_ID_BYTES,
            Column("key", _S, "Key concerned."),
            Column("message", _S, "One sentence, hostile bytes escaped."),
            Column("details", _S, "JSON object: the numbers behind the sentence; infinities and NaN as strings."),
            Column("help_url", _DICT, "Page of the check."),
            Column("fingerprint", _S, "Check, place and subject as one number: the same in every snapshot."),
            Column("cause", _S, "What findings of one cause share, see the table `causes`; null: it stands alone."),
            Column("basis", _DICT, "What the finding rests on: observed, derived or inferred."),
            Column("since_from", _MS, "Not wrong before this moment; null: cannot be known."),
            Column("since_to", _MS, "Wrong at the latest at this moment; null: cannot be known."),
            Column(
                "since_why", _S, "The evidence for that interval, or why it cannot be known; null: not about a job."
            ),
            Column("since_basis", _DICT, "observed, derived or inferred."),
            Column("held_by", _S, "Who held the job: server, worker or lock token; null: not about a job."),
            Column("held_by_basis", _DICT, "observed, derived or inferred."),
            Column("heals", _S, "Which mechanism of the library repairs this, or that none does."),
            Column("heals_at", _MS, "When it does, at the latest; null: cannot be known, or never."),
            Column("heals_basis", _DICT, "observed, derived or inferred."),
            Column(
                "retry", _DICT, "safe (it never started), unsafe (it ran or may have), unknown; null: not about a job."
            ),
            Column("retry_why", _S, "The evidence for that verdict."),
            Column("retry_basis", _DICT, "observed, derived or inferred."),
            _EVIDENCE,
            _DB,
        ),
    ),
)

BY_NAME: dict[str, Table] = {t.name: t for t in TABLES}


def conform(name: str, table: pa.Table | pa.RecordBatch) -> pa.Table:
    """The table in the order and types of the case table `name`; columns not given become null.

    A time outside the years 1 to 9999, which only a forged or foreign number can mean, becomes null: neither Python nor
    DuckDB could read the row otherwise. The number itself stays in `score` or `rest`.

    Raises:
        KeyError: a column that the case table does not have.
    """
    spec = BY_NAME[name]
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    known = {c.name for c in spec.columns}
    for given in table.column_names:
        if given not in known:
            raise KeyError(f"table {name} has no column {given}")
    out = []
    for column in spec.columns:
        if column.name in table.column_names:
            data = table.column(column.name)
            data = data if data.type.equals(column.type) else data.cast(column.type)
            out.append(_on_the_calendar(data) if column.type.equals(_MS) else data)
        else:
            nulls = pa.nulls(table.num_rows, column.type)
            out.append(pa.chunked_array([nulls]))
    return pa.Table.from_arrays(out, schema=spec.schema)


def _on_the_calendar(times: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    numbers: Any = times.cast(pa.int64())
    bounds: Any = pc.min_max(numbers).as_py()
    if bounds["min"] is None or (bounds["min"] >= _FIRST_MS and bounds["max"] <= _LAST_MS):
        return times
    fits: Any = pc.and_(pc.greater_equal(numbers, pa.scalar(_FIRST_MS)), pc.less_equal(numbers, pa.scalar(_LAST_MS)))
    kept: pa.ChunkedArray[Any] = pc.if_else(fits, times, pa.scalar(None, _MS))
    return kept
