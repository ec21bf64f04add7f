//! A file, its keys and their values.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use jobsleuth_columns::{self as columns, Batches, Lookup, Options, Projection, Source, Spelled};
use jobsleuth_formats::Limits;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::capsule::ArrowStream;
use crate::error::{not_opened, raise};
use crate::ops::{byte_strings, integers};
use crate::relay;

/// The keys of one RDB file after the index pass.
#[pyclass(frozen, module = "jobsleuth.sources._native")]
pub struct Index {
    source: Arc<Source>,
    info: String,
    lookup: OnceLock<Lookup>,
}

/// Walks the file once, values passed over, and verifies its checksum. `progress` is called about every 8 MB with bytes
/// done and bytes in all; what it raises ends the walk.
#[pyfunction]
#[pyo3(signature = (path, salvage, max_value_bytes, progress))]
pub fn index(
    py: Python<'_>,
    path: PathBuf,
    salvage: bool,
    max_value_bytes: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Index> {
    let limits = Limits { max_value_bytes, ..Limits::default() };
    let mut raised = None;
    let outcome = py.detach(|| {
        let file = File::open(path).map_err(not_opened)?;
        let mut report = relay(&mut raised, progress.as_ref());
        let indexed = columns::index(&file, limits, salvage, &mut report).map_err(|error| raise(&error))?;
        let info = serde_json::to_string(&indexed.summary);
        let info = info.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        let source = Arc::new(Source::new(file, indexed.table, indexed.context, salvage));
        Ok(Index { source, info, lookup: OnceLock::new() })
    });
    match raised {
        Some(error) => Err(error),
        None => outcome,
    }
}

#[pymethods]
impl Index {
    /// Facts about the file as JSON.
    fn info(&self) -> &str {
        &self.info
    }

    /// Values that could not be read so far, as JSON: a list of {kind, message, offset, key}, in file order.
    fn value_faults(&self) -> PyResult<String> {
        serde_json::to_string(&self.source.faults()).map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }

    /// Values read so far that hold what no server would load (a score that is no number, a field twice), likewise.
    fn value_oddities(&self) -> PyResult<String> {
        serde_json::to_string(&self.source.oddities()).map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }

    /// One row per key, in file order.
    fn keys(&self) -> ArrowStream {
        ArrowStream::of_batches(&self.source.table.schema(), self.source.table.batches())
    }

    /// Rows (int64) of the keys `prefixes[code] + middle + suffix`, -1 where there is none.
    fn lookup(
        &self,
        py: Python<'_>,
        prefixes: Vec<(i64, Vec<u8>)>,
        code: &Bound<'_, PyAny>,
        middle: &Bound<'_, PyAny>,
        suffix: Vec<u8>,
    ) -> PyResult<ArrowStream> {
        let chunks = byte_strings(middle)?;
        let codes = integers(code)?;
        let rows: usize = chunks.iter().map(Array::len).sum();
        if codes.len() != rows {
            return Err(PyValueError::new_err(format!("{rows} values, but {} codes", codes.len())));
        }
        py.detach(|| {
            let table = &self.source.table;
            let lookup = self.lookup.get_or_init(|| Lookup::new(table));
            let keys = Spelled { prefixes: &prefixes, suffix: &suffix };
            let found = lookup.find_all(table, &keys, &codes, &chunks);
            let found = found.into_iter().map(|rows| Arc::new(rows) as ArrayRef);
            Ok(ArrowStream::of_arrays(DataType::Int64, found.collect()))
        })
    }

    /// Hashes as one row each.
    fn records(
        &self,
        rows: &Bound<'_, PyAny>,
        projection: &str,
        rest: bool,
        threads: usize,
        batch_bytes: usize,
    ) -> PyResult<ArrowStream> {
        let projection = Projection::parse(projection, rest).map_err(|error| raise(&error))?;
        let options = Options::new(threads, batch_bytes);
        stream(columns::records(Arc::clone(&self.source), integers(rows)?, projection, options))
    }

    /// Elements of lists, sets, sorted sets and hashes.
    fn elements(&self, rows: &Bound<'_, PyAny>, threads: usize, batch_bytes: usize) -> PyResult<ArrowStream> {
        let options = Options::new(threads, batch_bytes);
        stream(columns::elements(Arc::clone(&self.source), integers(rows)?, options))
    }

    /// String values, cut to `limit` bytes.
    #[pyo3(signature = (rows, limit, threads, batch_bytes))]
    fn strings(
        &self,
        rows: &Bound<'_, PyAny>,
        limit: Option<usize>,
        threads: usize,
        batch_bytes: usize,
    ) -> PyResult<ArrowStream> {
        let options = Options::new(threads, batch_bytes);
        stream(columns::strings(Arc::clone(&self.source), integers(rows)?, limit, options))
    }

    /// Entries of streams, oldest first.
    fn stream_entries(
        &self,
        rows: &Bound<'_, PyAny>,
        projection: &str,
        threads: usize,
        batch_bytes: usize,
    ) -> PyResult<ArrowStream> {
        let projection = Projection::parse(projection, true).map_err(|error| raise(&error))?;
        let options = Options::new(threads, batch_bytes);
        stream(columns::stream_entries(Arc::clone(&self.source), integers(rows)?, projection, options))
    }

    /// Facts about streams and their consumer groups.
    fn stream_groups(&self, rows: &Bound<'_, PyAny>, threads: usize, batch_bytes: usize) -> PyResult<ArrowStream> {
        let options = Options::new(threads, batch_bytes);
        stream(columns::stream_groups(Arc::clone(&self.source), integers(rows)?, options))
    }
}

fn stream(batches: columns::Result<Batches>) -> PyResult<ArrowStream> {
    batches.map(ArrowStream::of_reader).map_err(|error| raise(&error))
}
