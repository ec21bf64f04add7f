//! Errors of the core as Python exceptions; all of that mapping is here.

use jobsleuth_columns::{self as columns, kind_of, offset_of, salvageable};
use jobsleuth_formats as formats;
use pyo3::exceptions::{PyException, PyRuntimeError, PyValueError};
use pyo3::{PyErr, create_exception};

create_exception!(
    jobsleuth.sources._native,
    Fault,
    PyException,
    "The evidence cannot be read on. args: (kind: str, message: str, offset: int | None, salvageable: bool)."
);

/// A fault of the evidence.
pub fn fault(error: &formats::Error) -> PyErr {
    Fault::new_err((kind_of(&error.kind), error.message(), offset_of(error), salvageable(error)))
}

/// Any error of the columns.
pub fn raise(error: &columns::Error) -> PyErr {
    match error {
        columns::Error::Evidence(error) => fault(error),
        columns::Error::Request(what) => PyValueError::new_err(what.clone()),
        columns::Error::Internal(_) => PyRuntimeError::new_err(error.to_string()),
    }
}

/// The evidence cannot be opened.
pub fn not_opened(error: std::io::Error) -> PyErr {
    fault(&formats::Error::from(error))
}
