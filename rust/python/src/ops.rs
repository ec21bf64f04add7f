//! Operations on columns of byte strings. Results have the chunks of their first argument.

use std::sync::Arc;

use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, LargeBinaryArray, LargeStringArray, PrimitiveArray, StringArray, StructArray,
};
use arrow_schema::DataType;
use jobsleuth_columns::{self as columns, Prefixes, Suffixes, text_schema};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::capsule::{ArrowStream, import};
use crate::error::raise;

/// Per value the position of the longest of `prefixes` that it begins with, -1 for none: int32.
#[pyfunction]
pub fn find_prefix(py: Python<'_>, values: &Bound<'_, PyAny>, prefixes: Vec<Vec<u8>>) -> PyResult<ArrowStream> {
    let chunks = byte_strings(values)?;
    py.detach(|| {
        let prefixes = Prefixes::new(prefixes.iter().map(Vec::as_slice));
        Ok(each(&chunks, DataType::Int32, |chunk| Arc::new(columns::find_prefix(chunk, &prefixes))))
    })
}

/// Per value the position of the longest of `suffixes` that it ends with, -1 for none: int32.
#[pyfunction]
pub fn find_suffix(py: Python<'_>, values: &Bound<'_, PyAny>, suffixes: Vec<Vec<u8>>) -> PyResult<ArrowStream> {
    let chunks = byte_strings(values)?;
    py.detach(|| {
        let suffixes = Suffixes::new(suffixes.iter().map(Vec::as_slice));
        Ok(each(&chunks, DataType::Int32, |chunk| Arc::new(columns::find_suffix(chunk, &suffixes))))
    })
}

/// Values without their first `head` and last `tail` bytes: binary.
#[pyfunction]
pub fn cut(
    py: Python<'_>,
    values: &Bound<'_, PyAny>,
    head: &Bound<'_, PyAny>,
    tail: &Bound<'_, PyAny>,
) -> PyResult<ArrowStream> {
    let chunks = byte_strings(values)?;
    let (head, tail) = (integers(head)?, integers(tail)?);
    let rows: usize = chunks.iter().map(Array::len).sum();
    if head.len() != rows || tail.len() != rows {
        let (head, tail) = (head.len(), tail.len());
        return Err(PyValueError::new_err(format!("{rows} values, but {head} heads and {tail} tails")));
    }
    py.detach(|| {
        let (mut head, mut tail) = (head.as_slice(), tail.as_slice());
        Ok(each(&chunks, DataType::Binary, |chunk| {
            let (these_heads, heads_left) = head.split_at_checked(chunk.len()).unwrap_or_default();
            let (these_tails, tails_left) = tail.split_at_checked(chunk.len()).unwrap_or_default();
            (head, tail) = (heads_left, tails_left);
            Arc::new(columns::cut(chunk, these_heads, these_tails))
        }))
    })
}

/// Two columns: `text` string, `exact` binary (null where the text is exact).
#[pyfunction]
pub fn to_text(py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<ArrowStream> {
    let chunks = byte_strings(values)?;
    py.detach(|| {
        let batches: Result<Vec<_>, _> = chunks.iter().map(columns::to_text).collect();
        Ok(ArrowStream::of_batches(&text_schema(), batches.map_err(|error| raise(&error))?))
    })
}

fn each(chunks: &[BinaryArray], data_type: DataType, f: impl FnMut(&BinaryArray) -> ArrayRef) -> ArrowStream {
    ArrowStream::of_arrays(data_type, chunks.iter().map(f).collect())
}

/// Chunks of byte strings, also of text, also as the only column of a table.
pub fn byte_strings(object: &Bound<'_, PyAny>) -> PyResult<Vec<BinaryArray>> {
    import(object)?.iter().map(|chunk| bytes_of(only_column(chunk)?)).collect()
}

fn only_column(chunk: &ArrayRef) -> PyResult<&ArrayRef> {
    match chunk.as_any().downcast_ref::<StructArray>().map(StructArray::columns) {
        None => Ok(chunk),
        Some([column]) => Ok(column),
        Some(columns) => Err(PyTypeError::new_err(format!("one column is wanted, not {}", columns.len()))),
    }
}

fn bytes_of(chunk: &ArrayRef) -> PyResult<BinaryArray> {
    let any = chunk.as_any();
    if let Some(values) = any.downcast_ref::<BinaryArray>() {
        return Ok(values.clone());
    }
    if let Some(values) = any.downcast_ref::<StringArray>() {
        return Ok(BinaryArray::from(values.clone()));
    }
    let size: usize = match chunk.data_type() {
        DataType::LargeBinary | DataType::LargeUtf8 => chunk.get_array_memory_size(),
        DataType::Null => 0,
        other => return Err(PyTypeError::new_err(format!("byte strings are wanted, not {other}"))),
    };
    if size > i32::MAX as usize {
        return Err(PyValueError::new_err("a chunk of more than 2 GiB"));
    }
    if let Some(values) = any.downcast_ref::<LargeBinaryArray>() {
        return Ok(values.iter().collect());
    }
    if let Some(values) = any.downcast_ref::<LargeStringArray>() {
        return Ok(values.iter().map(|value| value.map(str::as_bytes)).collect());
    }
    Ok(BinaryArray::new_null(chunk.len()))
}

/// Whole numbers of any width, all chunks together.
pub fn integers(object: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    let chunks = import(object)?;
    let mut all = Vec::with_capacity(chunks.iter().map(Array::len).sum());
    for chunk in &chunks {
        let chunk = only_column(chunk)?;
        if chunk.null_count() > 0 {
            return Err(PyValueError::new_err("numbers are wanted, not nulls"));
        }
        match chunk.data_type() {
            DataType::Int64 => widen::<Int64Type>(chunk, &mut all)?,
            DataType::Int32 => widen::<Int32Type>(chunk, &mut all)?,
            DataType::Int16 => widen::<Int16Type>(chunk, &mut all)?,
            DataType::Int8 => widen::<Int8Type>(chunk, &mut all)?,
            DataType::UInt64 => widen::<UInt64Type>(chunk, &mut all)?,
            DataType::UInt32 => widen::<UInt32Type>(chunk, &mut all)?,
            DataType::UInt16 => widen::<UInt16Type>(chunk, &mut all)?,
            DataType::UInt8 => widen::<UInt8Type>(chunk, &mut all)?,
            DataType::Null => {}
            other => return Err(PyTypeError::new_err(format!("whole numbers are wanted, not {other}"))),
        }
    }
    Ok(all)
}

fn widen<T: arrow_array::ArrowPrimitiveType>(chunk: &ArrayRef, all: &mut Vec<i64>) -> PyResult<()>
where
    T::Native: TryInto<i64>,
{
    if let Some(numbers) = chunk.as_any().downcast_ref::<PrimitiveArray<T>>() {
        for &n in numbers.values() {
            all.push(n.try_into().map_err(|_| PyValueError::new_err("a number beyond 64 bits with a sign"))?);
        }
    }
    Ok(())
}
