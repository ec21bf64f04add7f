//! Keyspace NDJSON to a file or to standard output.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use jobsleuth_formats::{self as formats, CatOptions, Limits};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::{fault, not_opened};
use crate::interrupted;

/// Bytes between two looks for `Ctrl-C`.
const STEP: usize = 8 << 20;

/// Writes keyspace NDJSON to the file `out`, or to standard output; returns JSON {keys, warnings}. A reader of standard
/// output that goes away ends the work quietly.
#[pyfunction]
#[pyo3(signature = (path, out, max_value_bytes, first_line=None, cut_short=false))]
pub fn cat(
    py: Python<'_>,
    path: PathBuf,
    out: Option<PathBuf>,
    max_value_bytes: u64,
    first_line: Option<String>,
    cut_short: bool,
) -> PyResult<String> {
    let limits = Limits { max_value_bytes, ..Limits::default() };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let options = CatOptions { first_line, cut_short, threads, ..CatOptions::default() };
    py.detach(|| {
        let file = File::open(path).map_err(not_opened)?;
        let bytes = file.metadata().map_err(not_opened)?.len();
        let to: Box<dyn Write> = match &out {
            Some(out) => Box::new(File::create(out).map_err(|error| not_written(&error))?),
            None => Box::new(io::stdout().lock()),
        };
        let mut sink = Sink { to, failed: None, raised: None, since: 0 };
        let outcome = {
            let mut out = BufWriter::with_capacity(1 << 18, &mut sink);
            let outcome = formats::cat(&file, bytes, limits, &mut out, &options);
            // A failure is kept in the sink.
            let _ = out.flush();
            outcome
        };
        if let Some(error) = sink.raised {
            return Err(error);
        }
        match (sink.failed, outcome) {
            (Some(error), Ok(written)) if gone(out.as_deref(), &error) => Ok(summary(&written)),
            (Some(error), Err(failure)) if gone(out.as_deref(), &error) => Ok(summary(&failure.written)),
            (Some(error), _) => Err(not_written(&error)),
            (None, Ok(written)) => Ok(summary(&written)),
            (None, Err(failure)) => Err(fault(&failure.error)),
        }
    })
}

/// The value of a DUMP payload as a line of keyspace NDJSON without a key.
#[pyfunction]
#[pyo3(signature = (payload, max_value_bytes))]
pub fn cat_dump<'py>(py: Python<'py>, payload: &[u8], max_value_bytes: u64) -> PyResult<Bound<'py, PyBytes>> {
    let limits = Limits { max_value_bytes, ..Limits::default() };
    let mut line = Vec::new();
    formats::cat_dump(payload, limits, &mut line).map_err(|error| fault(&error))?;
    Ok(PyBytes::new(py, &line))
}

fn gone(out: Option<&Path>, error: &io::Error) -> bool {
    out.is_none() && error.kind() == io::ErrorKind::BrokenPipe
}

fn summary(written: &formats::CatSummary) -> String {
    let mut warnings = Vec::new();
    if let Some(kind) = written.behind.kind() {
        let (message, count) = (written.behind.to_string(), written.behind.bytes());
        warnings.push(serde_json::json!({"kind": kind, "message": message, "count": count}));
    }
    serde_json::json!({"keys": written.keys, "warnings": warnings}).to_string()
}

fn not_written(error: &io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(code) => PyOSError::new_err((code, error.to_string())),
        None => PyOSError::new_err(error.to_string()),
    }
}

/// Where the lines go; tells faults of writing from those of reading.
struct Sink {
    to: Box<dyn Write>,
    failed: Option<io::Error>,
    raised: Option<PyErr>,
    since: usize,
}

impl Sink {
    fn keep<T>(&mut self, outcome: io::Result<T>) -> io::Result<T> {
        outcome.inspect_err(|error| {
            let copy = match error.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => io::Error::new(error.kind(), error.to_string()),
            };
            if error.kind() != io::ErrorKind::Interrupted {
                self.failed.get_or_insert(copy);
            }
        })
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.since >= STEP {
            self.since = 0;
            interrupted(&mut self.raised, |_| Ok(()))?;
        }
        self.since = self.since.saturating_add(bytes.len());
        let outcome = self.to.write(bytes);
        self.keep(outcome)
    }

    fn flush(&mut self) -> io::Result<()> {
        let outcome = self.to.flush();
        self.keep(outcome)
    }
}
