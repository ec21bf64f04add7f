//! Growing columns: one builder for each way of reading a stored field.

use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Int32Builder, Int64Builder, ListBuilder, StringBuilder, TimestampMillisecondBuilder,
};
use arrow_array::{Array, ArrayRef, MapArray, StructArray};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer};
use arrow_schema::{DataType, Fields};

use crate::error::{Error, Result};
use crate::json;
use crate::projection::{BytesSpec, MessageField, MessageSpec, Spec, list_item, map_type};
use crate::protobuf::{self, Value};
use crate::text::{escaped, utf8};

/// One projected column (or the few that come of one), with its rows so far.
pub(crate) enum Cells {
    Text(StringBuilder),
    Bytes(Box<BytesCells>),
    Int(Int64Builder),
    Ms(TimestampMillisecondBuilder),
    JsonText(usize, StringBuilder),
    JsonInt(usize, Int64Builder),
    Present(BooleanBuilder),
    Message(Box<MessageCells>),
}

/// Members of a JSON object, parsed once for all columns that read one field.
pub(crate) type JsonMembers<'a> = Option<Vec<Option<&'a str>>>;

impl Cells {
    pub fn new(spec: &Spec) -> Self {
        match spec {
            Spec::Text => Cells::Text(StringBuilder::new()),
            Spec::Bytes(spec) => Cells::Bytes(Box::new(BytesCells::new(spec.clone()))),
            Spec::Int => Cells::Int(Int64Builder::new()),
            Spec::Ms => Cells::Ms(TimestampMillisecondBuilder::new().with_timezone("UTC")),
            Spec::JsonText(member) => Cells::JsonText(*member, StringBuilder::new()),
            Spec::JsonInt(member) => Cells::JsonInt(*member, Int64Builder::new()),
            Spec::Present => Cells::Present(BooleanBuilder::new()),
            Spec::Message(spec) => Cells::Message(Box::new(MessageCells::new(Arc::clone(spec)))),
        }
    }

    /// Reads a stored field; says whether the columns now hold it whole.
    pub fn put(&mut self, value: &[u8], members: &JsonMembers<'_>) -> bool {
        let member = |at: usize| members.as_ref().and_then(|members| members.get(at).copied().flatten());
        match self {
            Cells::Text(cells) => match utf8(value) {
                Some(text) => {
                    cells.append_value(text);
                    true
                }
                None => {
                    cells.append_value(escaped(value));
                    false
                }
            },
            Cells::Bytes(cells) => {
                cells.put(value);
                true
            }
            Cells::Int(cells) => {
                let (n, whole) = decimal(value);
                cells.append_option(n);
                whole
            }
            Cells::Ms(cells) => {
                let (n, whole) = milliseconds(value);
                cells.append_option(n);
                whole
            }
            Cells::JsonText(at, cells) => {
                cells.append_option(member(*at).map(json::shown));
                false
            }
            Cells::JsonInt(at, cells) => {
                cells.append_option(member(*at).and_then(json::whole));
                false
            }
            Cells::Present(cells) => {
                cells.append_value(true);
                false
            }
            Cells::Message(cells) => {
                cells.put(value);
                true
            }
        }
    }

    /// As [`put`](Self::put), for a field whose JSON members, all numbers, are known already.
    pub fn put_known(&mut self, value: &[u8], numbers: &[Option<i64>]) -> bool {
        match self {
            Cells::JsonInt(at, cells) => {
                cells.append_option(numbers.get(*at).copied().flatten());
                false
            }
            _ => self.put(value, &None),
        }
    }

    /// The field is not there.
    pub fn put_absent(&mut self) {
        match self {
            Cells::Present(cells) => cells.append_value(false),
            _ => self.put_null(),
        }
    }

    /// There is nothing that could have fields.
    pub fn put_null(&mut self) {
        match self {
            Cells::Text(cells) | Cells::JsonText(_, cells) => cells.append_null(),
            Cells::Bytes(cells) => cells.put_null(),
            Cells::Int(cells) | Cells::JsonInt(_, cells) => cells.append_null(),
            Cells::Ms(cells) => cells.append_null(),
            Cells::Present(cells) => cells.append_null(),
            Cells::Message(cells) => cells.put_null(),
        }
    }

    pub fn finish(&mut self, out: &mut Vec<ArrayRef>) -> Result<()> {
        match self {
            Cells::Text(cells) | Cells::JsonText(_, cells) => out.push(Arc::new(cells.finish())),
            Cells::Bytes(cells) => cells.finish(out),
            Cells::Int(cells) | Cells::JsonInt(_, cells) => out.push(Arc::new(cells.finish())),
            Cells::Ms(cells) => out.push(Arc::new(cells.finish())),
            Cells::Present(cells) => out.push(Arc::new(cells.finish())),
            Cells::Message(cells) => cells.finish(out)?,
        }
        Ok(())
    }
}

/// A whole number, and whether it is spelled the one way that it would be written again.
fn decimal(text: &[u8]) -> (Option<i64>, bool) {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return (None, false);
    }
    let n: Option<i64> = utf8(text).and_then(|text| text.parse().ok());
    let canonical = !digits.starts_with(b"0") || text == b"0";
    (n, n.is_some() && canonical)
}

/// Years 1 to 9999, what other programs can show as a date.
const MS_RANGE: std::ops::RangeInclusive<i64> = -62_135_596_800_000..=253_402_300_799_999;

/// As [`decimal`]; also takes a number with a fraction or an exponent, which it cuts to whole milliseconds.
fn milliseconds(text: &[u8]) -> (Option<i64>, bool) {
    let (n, whole) = match decimal(text) {
        (None, _) => {
            let plain = text.iter().all(|b| b.is_ascii_digit() || b"+-.eE".contains(b));
            let x: Option<f64> = utf8(text).filter(|_| plain).and_then(|text| text.parse().ok());
            (x.filter(|x| x.abs() < 1e15).map(|x| x as i64), false)
        }
        known => known,
    };
    match n.filter(|n| MS_RANGE.contains(n)) {
        Some(n) => (Some(n), whole),
        None => (None, false),
    }
}

pub(crate) struct BytesCells {
    spec: BytesSpec,
    value: BinaryBuilder,
    size: Int64Builder,
    format: StringBuilder,
}

impl BytesCells {
    fn new(spec: BytesSpec) -> Self {
        BytesCells { spec, value: BinaryBuilder::new(), size: Int64Builder::new(), format: StringBuilder::new() }
    }

    fn put(&mut self, value: &[u8]) {
        self.value.append_value(value.get(..self.spec.limit).unwrap_or(value));
        if self.spec.size {
            self.size.append_value(value.len() as i64);
        }
        if self.spec.format {
            self.format.append_value(match value {
                [] => "empty",
                json if json::is_json(json) => "json",
                _ => "opaque",
            });
        }
    }

    fn put_null(&mut self) {
        self.value.append_null();
        if self.spec.size {
            self.size.append_null();
        }
        if self.spec.format {
            self.format.append_null();
        }
    }

    fn finish(&mut self, out: &mut Vec<ArrayRef>) {
        out.push(Arc::new(self.value.finish()));
        if self.spec.size {
            out.push(Arc::new(self.size.finish()));
        }
        if self.spec.format {
            out.push(Arc::new(self.format.finish()));
        }
    }
}

enum FieldCells {
    Text(StringBuilder),
    Bytes(Box<BytesCells>),
    Int32(Int32Builder),
    Int64(Int64Builder),
    Map(MapCells<StringBuilder>),
}

impl FieldCells {
    fn new(field: &MessageField) -> Self {
        match field.kind {
            protobuf::Kind::String => FieldCells::Text(StringBuilder::new()),
            protobuf::Kind::Bytes => FieldCells::Bytes(Box::new(BytesCells::new(field.bytes.clone()))),
            protobuf::Kind::Int32 => FieldCells::Int32(Int32Builder::new()),
            protobuf::Kind::Int64 => FieldCells::Int64(Int64Builder::new()),
            protobuf::Kind::StringMap => FieldCells::Map(MapCells::default()),
        }
    }

    fn put(&mut self, value: Option<&Value<'_>>) {
        match (self, value) {
            (FieldCells::Text(cells), Some(Value::Text(text))) => cells.append_value(text),
            (FieldCells::Text(cells), _) => cells.append_null(),
            (FieldCells::Bytes(cells), Some(Value::Bytes(bytes))) => cells.put(bytes),
            (FieldCells::Bytes(cells), _) => cells.put_null(),
            (FieldCells::Int32(cells), Some(Value::Int(n))) => cells.append_option(i32::try_from(*n).ok()),
            (FieldCells::Int32(cells), _) => cells.append_null(),
            (FieldCells::Int64(cells), Some(Value::Int(n))) => cells.append_value(*n),
            (FieldCells::Int64(cells), _) => cells.append_null(),
            (FieldCells::Map(cells), Some(Value::Map(entries))) => {
                for (key, value) in entries {
                    cells.keys.append_value(key);
                    cells.values.append_value(value);
                }
                cells.end(true);
            }
            (FieldCells::Map(cells), _) => cells.end(false),
        }
    }

    fn finish(&mut self, out: &mut Vec<ArrayRef>) -> Result<()> {
        match self {
            FieldCells::Text(cells) => out.push(Arc::new(cells.finish())),
            FieldCells::Bytes(cells) => cells.finish(out),
            FieldCells::Int32(cells) => out.push(Arc::new(cells.finish())),
            FieldCells::Int64(cells) => out.push(Arc::new(cells.finish())),
            FieldCells::Map(cells) => {
                let values = Arc::new(cells.values.finish());
                out.push(cells.finish(values)?);
            }
        }
        Ok(())
    }
}

pub(crate) struct MessageCells {
    spec: Arc<MessageSpec>,
    fields: Vec<FieldCells>,
    error: StringBuilder,
    unknown: BinaryBuilder,
    unknown_fields: ListBuilder<StringBuilder>,
    raw: BinaryBuilder,
    size: Int64Builder,
}

impl MessageCells {
    fn new(spec: Arc<MessageSpec>) -> Self {
        MessageCells {
            fields: spec.fields.iter().map(FieldCells::new).collect(),
            spec,
            error: StringBuilder::new(),
            unknown: BinaryBuilder::new(),
            unknown_fields: ListBuilder::new(StringBuilder::new()).with_field(list_item()),
            raw: BinaryBuilder::new(),
            size: Int64Builder::new(),
        }
    }

    fn put(&mut self, message: &[u8]) {
        self.size.append_value(message.len() as i64);
        match protobuf::decode(message, &self.spec.wire) {
            Ok((values, unknown)) => {
                for (cells, value) in self.fields.iter_mut().zip(&values) {
                    cells.put(Some(value));
                }
                self.error.append_null();
                self.unknown_fields.append_value(unknown.names().map(Some));
                self.unknown.append_option((!unknown.raw.is_empty()).then_some(unknown.raw));
                self.raw.append_null();
            }
            Err(fault) => {
                self.put_no_fields();
                self.error.append_value(fault.to_string());
                self.raw.append_value(message);
            }
        }
    }

    fn put_null(&mut self) {
        self.put_no_fields();
        self.error.append_null();
        self.raw.append_null();
        self.size.append_null();
    }

    fn put_no_fields(&mut self) {
        for cells in &mut self.fields {
            cells.put(None);
        }
        self.unknown.append_null();
        self.unknown_fields.append_null();
    }

    fn finish(&mut self, out: &mut Vec<ArrayRef>) -> Result<()> {
        for cells in &mut self.fields {
            cells.finish(out)?;
        }
        out.push(Arc::new(self.error.finish()));
        out.push(Arc::new(self.unknown.finish()));
        out.push(Arc::new(self.unknown_fields.finish()));
        out.push(Arc::new(self.raw.finish()));
        out.push(Arc::new(self.size.finish()));
        Ok(())
    }
}

/// A growing column of maps from strings.
pub(crate) struct MapCells<V> {
    pub keys: StringBuilder,
    pub values: V,
    ends: Vec<i32>,
    nulls: NullBufferBuilder,
}

impl<V: Default> Default for MapCells<V> {
    fn default() -> Self {
        MapCells { keys: StringBuilder::new(), values: V::default(), ends: vec![0], nulls: NullBufferBuilder::new(0) }
    }
}

/// So many keys of a row are compared each with each.
const FEW_KEYS: usize = 16;

impl<V> MapCells<V> {
    /// Whether the row that is open has a key twice.
    pub fn key_twice(&self) -> bool {
        let from = self.ends.last().and_then(|&end| usize::try_from(end).ok()).unwrap_or_default();
        let bytes = self.keys.values_slice();
        let ends = self.keys.offsets_slice().get(from..).unwrap_or_default();
        let key = |pair: &[i32]| match *pair {
            [start, end] => bytes.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?),
            _ => None,
        };
        match ends.len() {
            0..=2 => false,
            3..=FEW_KEYS => {
                let mut later = ends.windows(2);
                while let Some(one) = later.next() {
                    if later.clone().any(|other| key(one) == key(other)) {
                        return true;
                    }
                }
                false
            }
            _ => {
                let mut keys: Vec<&[u8]> = ends.windows(2).filter_map(key).collect();
                keys.sort_unstable();
                keys.windows(2).any(|two| two.first() == two.last())
            }
        }
    }

    /// Ends a row.
    pub fn end(&mut self, valid: bool) {
        // One entry takes five bytes of buffers at least, which are capped well below this.
        let entries = arrow_array::builder::ArrayBuilder::len(&self.keys);
        self.ends.push(i32::try_from(entries).unwrap_or(i32::MAX));
        self.nulls.append(valid);
    }

    /// The maps so far; `values` is what the caller's builder has given.
    pub fn finish(&mut self, values: ArrayRef) -> Result<ArrayRef> {
        let DataType::Map(entries, _) = map_type(values.data_type().clone()) else {
            return Err(Error::Internal("a map that is none".into()));
        };
        let DataType::Struct(fields) = entries.data_type().clone() else {
            return Err(Error::Internal("a map without entries".into()));
        };
        let fields: Fields = fields;
        let keys: ArrayRef = Arc::new(self.keys.finish());
        let ends = std::mem::replace(&mut self.ends, vec![0]);
        let nulls = self.nulls.finish();
        let structs = StructArray::try_new(fields, vec![keys, values], None)?;
        let offsets = OffsetBuffer::new(ends.into());
        Ok(Arc::new(MapArray::try_new(entries, offsets, structs, nulls, false)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whole numbers are taken as they are; a spelling that would not come back is kept besides (the flag is false).
    #[test]
    fn numbers() {
        assert_eq!(decimal(b"0"), (Some(0), true));
        assert_eq!(decimal(b"-12"), (Some(-12), true));
        assert_eq!(decimal(b"9223372036854775807"), (Some(i64::MAX), true));
        for odd in [(b"007".as_slice(), 7), (b"-0", 0), (b"00", 0)] {
            assert_eq!(decimal(odd.0), (Some(odd.1), false));
        }
        for none in [b"".as_slice(), b"-", b"+5", b" 5", b"5 ", b"1.5", b"9223372036854775808", b"NaN", b"\xff"] {
            assert_eq!(decimal(none), (None, false));
        }
    }

    /// Times may carry a fraction; what no calendar holds is no time.
    #[test]
    fn times() {
        assert_eq!(milliseconds(b"1700000000000"), (Some(1_700_000_000_000), true));
        assert_eq!(milliseconds(b"1700000000000.75"), (Some(1_700_000_000_000), false));
        assert_eq!(milliseconds(b"1.7e+12"), (Some(1_700_000_000_000), false));
        assert_eq!(milliseconds(b"-1.5"), (Some(-1), false));
        for none in [b"253402300800000".as_slice(), b"inf", b"nan", b"1e400", b"", b"soon", b"9223372036854775807"] {
            assert_eq!(milliseconds(none), (None, false));
        }
    }
}
