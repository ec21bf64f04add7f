//! Append-only files, replayed into a snapshot.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::builder::{BinaryBuilder, Int32Builder, Int64Builder, StringDictionaryBuilder, UInt64Builder};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use jobsleuth_columns::{FaultFacts, escaped};
use jobsleuth_formats as formats;
use jobsleuth_replay::{Move, Options, Part, Report, Space, Stop, Witness, replay, save_history, save_space};
use jobsleuth_spool::{Ledger, Writer};
use pyo3::prelude::*;
use serde_json::json;

use crate::capsule::ArrowStream;
use crate::convert::{Conversion, RDB_VERSION, close_spool, open_spool};
use crate::error::{fault, not_opened};
use crate::relay;

/// Rows of a batch of moves.
const BATCH: usize = 1 << 16;

/// Replays the files of commands `parts` (path, name, and whether it is a base, in order) and writes what the keyspace
/// was in the end as a snapshot to the file `spool`. With `moves`, that is called with batches of every change on the
/// way, and every key that ever was is written to the file `history`.
#[pyfunction]
#[pyo3(signature = (
    parts, spool, salvage, inline, until_ms, until_offset, max_value_bytes, max_spool_bytes, history, moves, progress
))]
#[allow(clippy::too_many_arguments)]
pub fn replay_commands(
    py: Python<'_>,
    parts: Vec<(PathBuf, String, bool)>,
    spool: PathBuf,
    salvage: bool,
    inline: bool,
    until_ms: Option<i64>,
    until_offset: Option<(usize, u64)>,
    max_value_bytes: u64,
    max_spool_bytes: u64,
    history: Option<PathBuf>,
    moves: Option<Py<PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Conversion> {
    let mut raised = None;
    let refused = Arc::new(Mutex::new(None));
    let outcome = py.detach(|| {
        let mut files = Vec::new();
        for (path, name, base) in parts {
            files.push(Part { name, file: File::open(path).map_err(not_opened)?, base });
        }
        let mut report = relay(&mut raised, progress.as_ref());
        let mut space = Space::default();
        if let Some(moves) = moves {
            space.watch(Box::new(Recorder::new(moves, Arc::clone(&refused))));
        }
        let options = Options { salvage, max_value_bytes, until_ms, until_offset, inline };
        let replayed = replay(&files, &mut space, options, &mut report);
        let replayed = replayed.and_then(|report| space.dismiss().map(|()| report));
        let replayed = replayed.map_err(|error| fault(&error))?;
        for (path, all) in [(Some(&spool), false), (history.as_ref(), true)] {
            let Some(path) = path else { continue };
            let file = open_spool(path)?;
            let mut writer = Writer::new(&file, RDB_VERSION, max_spool_bytes);
            let saved = if all { save_history(&space, &mut writer) } else { save_space(&space, &mut writer) };
            saved.map_err(|error| fault(&error))?;
            close_spool(writer)?;
        }
        let info = facts(&replayed, &files, space.len()).to_string();
        Ok(Conversion::new(info, Ledger::default()))
    });
    match raised.or(taken(&refused)) {
        Some(error) => Err(error),
        None => outcome,
    }
}

/// What the taker of moves raised, since no native code can carry it.
type Refusal = Arc<Mutex<Option<PyErr>>>;

fn taken(refused: &Refusal) -> Option<PyErr> {
    refused.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn facts(report: &Report, parts: &[Part], keys: u64) -> serde_json::Value {
    let (part, offset) = report.end;
    let aux: std::collections::BTreeMap<&str, String> =
        report.aux.iter().map(|(name, value)| (name.as_str(), escaped(value))).collect();
    let names: std::collections::BTreeMap<String, u64> =
        report.names.iter().map(|(name, count)| (name.escape_ascii().to_string(), *count)).collect();
    let functions: Vec<serde_json::Value> = report
        .functions
        .iter()
        .map(|(name, library)| {
            let engine = library.engine.as_deref().map(escaped);
            json!({"name": name.map(escaped), "engine": engine, "size": library.size})
        })
        .collect();
    json!({
        "commands": report.commands,
        "replayed": report.replayed,
        "transactions": report.transactions,
        "names": names,
        "library_commands": report.library_commands,
        "first_time_s": report.first_time_s,
        "last_time_s": report.last_time_s,
        "aux": aux,
        "functions": functions,
        "keys": keys,
        "replaced": 0,
        "stop": match report.stop {
            Stop::End => "end",
            Stop::Time => "time",
            Stop::Offset => "offset",
            Stop::Fault => "fault",
        },
        "end": {"part": parts.get(part).map(|part| part.name.as_str()), "offset": offset},
        "warnings": report.notes,
        "fault": report.fault.as_ref().map(FaultFacts::new),
    })
}

/// Hands changes over in batches.
struct Recorder {
    give: Py<PyAny>,
    refused: Refusal,
    schema: SchemaRef,
    rows: usize,
    db: Int64Builder,
    key: BinaryBuilder,
    kind: StringDictionaryBuilder<Int32Type>,
    member: BinaryBuilder,
    change: StringDictionaryBuilder<Int32Type>,
    command: StringDictionaryBuilder<Int32Type>,
    at: Int64Builder,
    part: Int32Builder,
    offset: UInt64Builder,
    step: Int64Builder,
    transaction: Int64Builder,
}

impl Recorder {
    fn new(give: Py<PyAny>, refused: Refusal) -> Self {
        let word = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let schema = Arc::new(Schema::new(vec![
            Field::new("db", DataType::Int64, false),
            Field::new("key", DataType::Binary, false),
            Field::new("type", word.clone(), false),
            Field::new("member", DataType::Binary, true),
            Field::new("change", word.clone(), false),
            Field::new("command", word, false),
            Field::new("at_ms", DataType::Int64, true),
            Field::new("part", DataType::Int32, false),
            Field::new("offset", DataType::UInt64, false),
            Field::new("step", DataType::Int64, false),
            Field::new("transaction", DataType::Int64, false),
        ]));
        Recorder {
            give,
            refused,
            schema,
            rows: 0,
            db: Int64Builder::new(),
            key: BinaryBuilder::new(),
            kind: StringDictionaryBuilder::new(),
            member: BinaryBuilder::new(),
            change: StringDictionaryBuilder::new(),
            command: StringDictionaryBuilder::new(),
            at: Int64Builder::new(),
            part: Int32Builder::new(),
            offset: UInt64Builder::new(),
            step: Int64Builder::new(),
            transaction: Int64Builder::new(),
        }
    }

    fn batch(&mut self) -> Result<RecordBatch, arrow_schema::ArrowError> {
        self.rows = 0;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.db.finish()),
            Arc::new(self.key.finish()),
            Arc::new(self.kind.finish()),
            Arc::new(self.member.finish()),
            Arc::new(self.change.finish()),
            Arc::new(self.command.finish()),
            Arc::new(self.at.finish()),
            Arc::new(self.part.finish()),
            Arc::new(self.offset.finish()),
            Arc::new(self.step.finish()),
            Arc::new(self.transaction.finish()),
        ];
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
    }

    fn give(&mut self) -> formats::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let batch = self.batch().map_err(std::io::Error::other)?;
        let stream = ArrowStream::of_batches(&self.schema, vec![batch]);
        let given = Python::attach(|py| self.give.call1(py, (stream,)).map(drop));
        given.map_err(|error| {
            *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            formats::Error::from(std::io::Error::other("stopped by the caller"))
        })
    }
}

impl Witness for Recorder {
    fn saw(&mut self, change: &Move<'_>) -> formats::Result<()> {
        self.db.append_value(i64::try_from(change.db).unwrap_or(i64::MAX));
        self.key.append_value(change.key);
        self.kind.append_value(change.kind.as_str());
        self.member.append_option(change.member);
        self.change.append_value(change.change.as_str());
        self.command.append_value(change.cause.command.escape_ascii().to_string());
        self.at.append_option(change.cause.at_ms);
        self.part.append_value(i32::from(change.cause.part));
        self.offset.append_value(change.cause.offset);
        self.step.append_value(i64::try_from(change.cause.step).unwrap_or(i64::MAX));
        self.transaction.append_value(i64::try_from(change.cause.transaction).unwrap_or(i64::MAX));
        self.rows += 1;
        if self.rows >= BATCH { self.give() } else { Ok(()) }
    }

    fn dismissed(&mut self) -> formats::Result<()> {
        self.give()
    }
}
