//! What can go wrong between a file and its columns.

use std::fmt;

use arrow_schema::ArrowError;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug)]
pub enum Error {
    /// The evidence cannot be read, or not further.
    Evidence(jobsleuth_formats::Error),
    /// A caller asked for something that makes no sense: rows out of order, a projection that does not parse.
    Request(String),
    /// A fault of this program.
    Internal(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Evidence(error) => error.fmt(f),
            Error::Request(what) => f.write_str(what),
            Error::Internal(what) => write!(f, "internal error: {what}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Evidence(error) => Some(error),
            _ => None,
        }
    }
}

impl From<jobsleuth_formats::Error> for Error {
    fn from(error: jobsleuth_formats::Error) -> Self {
        Error::Evidence(error)
    }
}

impl From<ArrowError> for Error {
    fn from(error: ArrowError) -> Self {
        Error::Internal(error.to_string())
    }
}

impl From<Error> for ArrowError {
    fn from(error: Error) -> Self {
        match error {
            Error::Evidence(error) => ArrowError::ParseError(error.to_string()),
            Error::Request(what) => ArrowError::InvalidArgumentError(what),
            internal @ Error::Internal(_) => ArrowError::ComputeError(internal.to_string()),
        }
    }
}
