//! The native core of jobsleuth: Redis formats to Arrow, for Python. Nothing is decided here; see `jobsleuth-columns`.

use pyo3::prelude::*;

mod capsule;
mod cat;
mod convert;
mod error;
mod ops;
mod replay;
mod source;

#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::capsule::ArrowStream;
    #[pymodule_export]
    use crate::cat::{cat, cat_dump};
    #[pymodule_export]
    use crate::convert::{Conversion, convert_foreign, convert_ndjson};
    #[pymodule_export]
    use crate::error::Fault;
    #[pymodule_export]
    use crate::ops::{cut, find_prefix, find_suffix, to_text};
    #[pymodule_export]
    use crate::replay::replay_commands;
    #[pymodule_export]
    use crate::source::{Index, index};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

/// Tells progress, and lets `Ctrl-C` end the work meanwhile.
fn relay(raised: &mut Option<PyErr>, progress: Option<&Py<PyAny>>) -> impl FnMut(u64, u64) -> std::io::Result<()> {
    move |done, total| {
        interrupted(raised, |py| match progress {
            Some(progress) => progress.call1(py, (done, total)).map(drop),
            None => Ok(()),
        })
    }
}

/// Lets `Ctrl-C` end long work; the error it raises is kept in `raised`, since no native code can carry it.
fn interrupted(raised: &mut Option<PyErr>, ask: impl FnOnce(Python<'_>) -> PyResult<()>) -> std::io::Result<()> {
    Python::attach(|py| py.check_signals().and_then(|()| ask(py))).map_err(|error| {
        *raised = Some(error);
        std::io::Error::other("stopped by the caller")
    })
}
