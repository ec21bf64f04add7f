//! Arrow's C stream interface in PyCapsules, both ways. The only module with `unsafe` code: the interface is a struct of
//! C callbacks, and no other part of the core needs any.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, DataType, Field, SchemaRef};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

const NAME: &CStr = c"arrow_array_stream";
/// What consumers are told when anything fails; the message says more.
const EINVAL: c_int = 22;

type Arrays = Box<dyn Iterator<Item = Result<ArrayRef, String>> + Send>;

enum Content {
    /// In memory: may be asked for again and again.
    Whole(Vec<ArrayRef>),
    /// Made while it is read: for one reader.
    Once(Mutex<Option<Arrays>>),
}

/// An Arrow C stream (PyCapsule interface).
#[pyclass(frozen, module = "jobsleuth.sources._native")]
pub struct ArrowStream {
    field: Field,
    content: Content,
}

impl ArrowStream {
    /// Chunks of one array.
    pub fn of_arrays(data_type: DataType, chunks: Vec<ArrayRef>) -> Self {
        ArrowStream { field: Field::new("", data_type, true), content: Content::Whole(chunks) }
    }

    /// A table in memory.
    pub fn of_batches(schema: &SchemaRef, batches: Vec<RecordBatch>) -> Self {
        let chunks = batches.into_iter().map(as_array).collect();
        ArrowStream { field: as_field(schema), content: Content::Whole(chunks) }
    }

    /// Batches that are made while they are read.
    pub fn of_reader(reader: impl RecordBatchReader + Send + 'static) -> Self {
        let field = as_field(&reader.schema());
        let arrays: Arrays = Box::new(reader.map(|batch| batch.map(as_array).map_err(message)));
        ArrowStream { field, content: Content::Once(Mutex::new(Some(arrays))) }
    }
}

#[pymethods]
impl ArrowStream {
    /// The stream as a PyCapsule. Streams of decoded values can be taken once only.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A request that may be turned down: consumers convert for themselves.
        let _ = requested_schema;
        let arrays: Arrays = match &self.content {
            Content::Whole(chunks) => Box::new(chunks.clone().into_iter().map(Ok)),
            Content::Once(arrays) => arrays
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take()
                .ok_or_else(|| PyRuntimeError::new_err("this stream has been read already"))?,
        };
        PyCapsule::new_with_value(py, export(self.field.clone(), arrays), NAME)
    }
}

fn as_array(batch: RecordBatch) -> ArrayRef {
    std::sync::Arc::new(StructArray::from(batch))
}

fn as_field(schema: &SchemaRef) -> Field {
    Field::new("", DataType::Struct(schema.fields().clone()), false)
}

/// The message of an error of ours, without the class that Arrow puts before it.
fn message(error: ArrowError) -> String {
    match error {
        ArrowError::ParseError(text) | ArrowError::InvalidArgumentError(text) | ArrowError::ComputeError(text) => text,
        other => other.to_string(),
    }
}

/// What the callbacks of an exported stream work on.
struct Exported {
    field: Field,
    arrays: Arrays,
    last_error: Option<CString>,
}

fn export(field: Field, arrays: Arrays) -> FFI_ArrowArrayStream {
    let exported = Box::new(Exported { field, arrays, last_error: None });
    let private = Box::into_raw(exported).cast::<c_void>();
    // SAFETY: the callbacks follow the C stream interface and take `private_data` for the `Exported` that it is;
    // `release` frees it once and marks the stream released.
    unsafe {
        FFI_ArrowArrayStream::new_unchecked(Some(get_schema), Some(get_next), Some(last_error), Some(release), private)
    }
}

/// Runs `work` on the state of a stream; errors and panics become a code and a message.
///
/// # Safety
/// `stream` must be one that [`export`] made and that is not released, and nobody else may use it meanwhile.
unsafe fn with(stream: *mut FFI_ArrowArrayStream, work: impl FnOnce(&mut Exported) -> Result<(), String>) -> c_int {
    // SAFETY: see above; `private_data` is then the `Exported` of this stream.
    let exported = unsafe { &mut *(*stream).private_data().cast::<Exported>() };
    let outcome = catch_unwind(AssertUnwindSafe(|| work(exported)));
    match outcome.unwrap_or_else(|_| Err("internal error: a panic in the native core".into())) {
        Ok(()) => 0,
        Err(text) => {
            exported.last_error = CString::new(text.replace('\0', "\\x00")).ok();
            EINVAL
        }
    }
}

unsafe extern "C" fn get_schema(stream: *mut FFI_ArrowArrayStream, out: *mut FFI_ArrowSchema) -> c_int {
    // SAFETY: consumers call this on a stream that is not released, from one thread at a time.
    unsafe {
        with(stream, |exported| {
            let schema = FFI_ArrowSchema::try_from(&exported.field).map_err(message)?;
            // SAFETY: consumers hand in memory for a schema, which need not be initialised.
            out.write(schema);
            Ok(())
        })
    }
}

unsafe extern "C" fn get_next(stream: *mut FFI_ArrowArrayStream, out: *mut FFI_ArrowArray) -> c_int {
    // SAFETY: as in `get_schema`.
    unsafe {
        with(stream, |exported| {
            let array = match exported.arrays.next().transpose()? {
                Some(array) => FFI_ArrowArray::new(&array.to_data()),
                None => FFI_ArrowArray::empty(),
            };
            // SAFETY: consumers hand in memory for an array, which need not be initialised.
            out.write(array);
            Ok(())
        })
    }
}

unsafe extern "C" fn last_error(stream: *mut FFI_ArrowArrayStream) -> *const c_char {
    // SAFETY: as in `with`; the text lives until the next call on the stream, as the interface asks.
    let exported = unsafe { &*(*stream).private_data().cast::<Exported>() };
    exported.last_error.as_ref().map_or(std::ptr::null(), |text| text.as_ptr())
}

unsafe extern "C" fn release(stream: *mut FFI_ArrowArrayStream) {
    // SAFETY: called once on a stream that `export` made: its `private_data` came from a box, and with no release
    // callback left the stream is marked released.
    unsafe {
        drop(Box::from_raw((*stream).private_data().cast::<Exported>()));
        (*stream).set_private_data(std::ptr::null_mut());
        (*stream).set_release(None);
    }
}

/// The chunks of any object with `__arrow_c_stream__`: a chunked array, or a table of one column.
pub fn import(object: &Bound<'_, PyAny>) -> PyResult<Vec<ArrayRef>> {
    let capsule = object.call_method0("__arrow_c_stream__").map_err(|error| {
        if object.hasattr("__arrow_c_stream__").unwrap_or(false) { error } else { not_arrow(object) }
    })?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let stream = capsule.pointer_checked(Some(NAME))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name holds a valid stream, by the PyCapsule interface; taking it out leaves a released
    // one behind, as the interface asks of consumers. What the producer promises of its buffers is taken on trust.
    let reader = unsafe { ArrayStreamReader::from_raw(stream.as_ptr()) };
    reader.and_then(Iterator::collect).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn not_arrow(object: &Bound<'_, PyAny>) -> PyErr {
    let name = object.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("an object with __arrow_c_stream__ is wanted, not {name}"))
}
