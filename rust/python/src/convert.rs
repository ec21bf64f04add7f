//! Other evidence, written as a snapshot for the run.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{ArrayRef, DictionaryArray, Int8Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use jobsleuth_columns::{FaultFacts, escaped};
use jobsleuth_formats::{self as formats, Encoding};
use jobsleuth_spool::{Export, Layout, Ledger, Reading, Writer, read_foreign, read_ndjson};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use serde_json::json;

use crate::capsule::ArrowStream;
use crate::error::{fault, not_opened};
use crate::relay;

/// Version of the snapshots that are written here: the first that has every kind of value.
pub const RDB_VERSION: u32 = 15;

/// What came of a conversion.
#[pyclass(frozen, module = "jobsleuth.sources._native")]
pub struct Conversion {
    info: String,
    ledger: Ledger,
}

impl Conversion {
    pub fn new(info: String, ledger: Ledger) -> Self {
        Conversion { info, ledger }
    }
}

#[pymethods]
impl Conversion {
    /// Facts about the evidence as JSON.
    fn info(&self) -> &str {
        &self.info
    }

    /// Per key, in the order of the snapshot, where it stood: `offset`, `nbytes`, and the `encoding` that was told.
    fn origins(&self) -> PyResult<ArrowStream> {
        let mut names: Vec<Encoding> = Vec::new();
        let mut codes = Vec::new();
        for origin in self.ledger.origins() {
            codes.push(origin.encoding.map(|encoding| {
                let known = names.iter().position(|&name| name == encoding);
                known.unwrap_or_else(|| {
                    names.push(encoding);
                    names.len() - 1
                }) as i8
            }));
        }
        let offset: UInt64Array = self.ledger.origins().map(|origin| Some(origin.offset)).collect();
        let nbytes: UInt64Array = self.ledger.origins().map(|origin| Some(origin.nbytes)).collect();
        let names = Arc::new(StringArray::from_iter_values(names.iter().map(|name| name.as_str())));
        let encoding = DictionaryArray::<Int8Type>::try_new(Int8Array::from(codes), names);
        let encoding = encoding.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        let columns: Vec<ArrayRef> = vec![Arc::new(offset), Arc::new(nbytes), Arc::new(encoding)];
        let named = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        let schema = Arc::new(Schema::new(vec![
            Field::new("offset", DataType::UInt64, true),
            Field::new("nbytes", DataType::UInt64, true),
            Field::new("encoding", named, true),
        ]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns);
        let batch = batch.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        Ok(ArrowStream::of_batches(&schema, vec![batch]))
    }
}

/// Writes the keyspace NDJSON in the file `path` as a snapshot to the file `spool`.
#[pyfunction]
#[pyo3(signature = (path, spool, salvage, max_value_bytes, max_spool_bytes, progress))]
pub fn convert_ndjson(
    py: Python<'_>,
    path: PathBuf,
    spool: PathBuf,
    salvage: bool,
    max_value_bytes: u64,
    max_spool_bytes: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Conversion> {
    let reading = Reading { salvage, max_value_bytes };
    converted(py, &path, &spool, max_spool_bytes, progress.as_ref(), |file, writer, report| {
        let export = read_ndjson(file, writer, reading, report)?;
        Ok(Conversion { info: facts(&export).to_string(), ledger: export.ledger.closed() })
    })
}

/// Has `read` read the file `path` and write a snapshot to the file `spool`.
fn converted<R>(
    py: Python<'_>,
    path: &Path,
    spool: &Path,
    max_spool_bytes: u64,
    progress: Option<&Py<PyAny>>,
    read: R,
) -> PyResult<Conversion>
where
    R: FnOnce(&File, &mut Writer<&File>, &mut dyn FnMut(u64, u64) -> io::Result<()>) -> formats::Result<Conversion>
        + Send,
{
    let mut raised = None;
    let outcome = py.detach(|| {
        let file = File::open(path).map_err(not_opened)?;
        let mut report = relay(&mut raised, progress);
        let to = open_spool(spool)?;
        let mut writer = Writer::new(&to, RDB_VERSION, max_spool_bytes);
        let made = read(&file, &mut writer, &mut report).map_err(|error| fault(&error))?;
        close_spool(writer)?;
        Ok(made)
    });
    match raised {
        Some(error) => Err(error),
        None => outcome,
    }
}

pub fn open_spool(spool: &Path) -> PyResult<File> {
    OpenOptions::new().write(true).open(spool).map_err(not_opened)
}

pub fn close_spool(writer: Writer<&File>) -> PyResult<()> {
    let close = || -> formats::Result<()> {
        let (file, size) = writer.finish()?;
        // Something that was taken back may have been longer.
        file.set_len(size).map_err(formats::Error::from)
    };
    close().map_err(|error: formats::Error| fault(&error))
}

/// Writes the JSON export of another tool in the file `path` as a snapshot to the file `spool`. `layout` is `records`,
/// `typed` or `bare`, see [`Layout`].
#[pyfunction]
#[pyo3(signature = (path, spool, layout, salvage, max_value_bytes, max_spool_bytes, progress))]
#[allow(clippy::too_many_arguments)]
pub fn convert_foreign(
    py: Python<'_>,
    path: PathBuf,
    spool: PathBuf,
    layout: &str,
    salvage: bool,
    max_value_bytes: u64,
    max_spool_bytes: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Conversion> {
    let layout = match layout {
        "records" => Layout::Records,
        "typed" => Layout::Typed,
        "bare" => Layout::Bare,
        _ => return Err(PyValueError::new_err(format!("no layout: {layout}"))),
    };
    let reading = Reading { salvage, max_value_bytes };
    converted(py, &path, &spool, max_spool_bytes, progress.as_ref(), |file, writer, report| {
        let export = read_foreign(file, writer, layout, reading, report)?;
        let info = json!({
            "tool": export.tool.as_str(),
            "started_at_ms": export.seen_ms.map(|(first, _)| first),
            "finished_at_ms": export.seen_ms.map(|(_, last)| last),
            "redis_version": null,
            "as_of_ms": null,
            "seen_at_ms": null,
            "atomic": false,
            "keys": export.ledger.len(),
            "replaced": export.ledger.replaced,
            "warnings": export.notes,
            "fault": ended_by(export.fault.as_ref(), export.cut_short_at),
        });
        Ok(Conversion { info: info.to_string(), ledger: export.ledger.closed() })
    })
}

/// What ended the reading of an export before its end.
fn ended_by(fault: Option<&formats::Error>, cut_short_at: Option<u64>) -> Option<serde_json::Value> {
    match cut_short_at {
        Some(at) => {
            let message = "the export does not end as it should: it was cut short";
            Some(json!({"kind": "cut_short", "message": message, "offset": at}))
        }
        None => fault.map(|error| json!(FaultFacts::new(error))),
    }
}

fn facts(export: &Export) -> serde_json::Value {
    json!({
        "redis_version": export.redis_version.as_deref().map(escaped),
        "started_at_ms": export.started_at_ms,
        "finished_at_ms": export.finished_at_ms,
        "as_of_ms": export.as_of_ms,
        "seen_at_ms": export.seen_at_ms,
        "atomic": export.atomic,
        "keys": export.ledger.len(),
        "replaced": export.ledger.replaced,
        "warnings": export.notes,
        "fault": ended_by(export.fault.as_ref(), export.cut_short_at),
    })
}
