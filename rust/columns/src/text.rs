//! Bytes as text that loses nothing to the eye: what is not UTF-8 becomes `\xNN`.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, StringBuilder};
use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::error::Result;

/// Longest text that is made of bytes that are not UTF-8; the exact bytes stand beside it.
const LONGEST_ESCAPED: usize = 64 << 20;

/// The text if the bytes are UTF-8.
#[inline]
pub(crate) fn utf8(bytes: &[u8]) -> Option<&str> {
    simdutf8::basic::from_utf8(bytes).ok()
}

/// The bytes with every byte that is not part of UTF-8 text as `\xNN`; cut with `…` at 64 MiB.
pub fn escaped(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().saturating_mul(2).min(LONGEST_ESCAPED));
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
        if out.len() > LONGEST_ESCAPED {
            let end = (0..=LONGEST_ESCAPED).rev().find(|&at| out.is_char_boundary(at));
            out.truncate(end.unwrap_or(0));
            out.push('…');
            break;
        }
    }
    out
}

/// Schema of [`to_text`].
pub fn text_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("text", DataType::Utf8, true), Field::new("exact", DataType::Binary, true)]))
}

/// `text`: strings, escaped where they must be; `exact`: the bytes of just those values, null elsewhere.
pub fn to_text(values: &BinaryArray) -> Result<RecordBatch> {
    let (text, exact): (ArrayRef, ArrayRef) = match StringArray::try_from_binary(values.clone()) {
        Ok(text) => {
            let mut exact = BinaryBuilder::new();
            exact.append_nulls(values.len());
            (Arc::new(text), Arc::new(exact.finish()))
        }
        Err(_) => {
            let mut text = StringBuilder::with_capacity(values.len(), values.value_data().len());
            let mut exact = BinaryBuilder::new();
            for value in values {
                match value.map(|bytes| (bytes, utf8(bytes))) {
                    None => {
                        text.append_null();
                        exact.append_null();
                    }
                    Some((_, Some(valid))) => {
                        text.append_value(valid);
                        exact.append_null();
                    }
                    Some((bytes, None)) => {
                        text.append_value(escaped(bytes));
                        exact.append_value(bytes);
                    }
                }
            }
            (Arc::new(text.finish()), Arc::new(exact.finish()))
        }
    };
    Ok(RecordBatch::try_new(text_schema(), vec![text, exact])?)
}
