//! The keys of a file, one row each, in chunks that other programs share without copying.

use std::mem;
use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, BinaryArray, DictionaryArray, Int8Array, Int64Array, RecordBatch, StringArray, UInt64Array,
};
use arrow_buffer::{ArrowNativeType, Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use jobsleuth_formats::{Encoding, Kind};

use crate::error::Result;

/// Rows of a chunk, unless its keys are very long.
const CHUNK_ROWS: usize = 1 << 16;
/// Bytes of keys that close a chunk early: Arrow's offsets are 32 bits, and keys may grow fourfold as text.
const CHUNK_KEY_BYTES: usize = 256 << 20;

/// One key as the index pass finds it.
#[derive(Clone, Copy, Debug)]
pub struct NewKey<'a> {
    pub db: u64,
    pub key: &'a [u8],
    pub kind: Kind,
    pub encoding: Encoding,
    pub expire_at: Option<i64>,
    /// Where the entry starts, with what modifies it.
    pub offset: u64,
    /// Where the value starts, behind the key.
    pub value_offset: u64,
    /// Where the next entry starts.
    pub end: u64,
    pub elements: Option<u64>,
    pub rdb_type: u8,
}

/// Where the value of a row is, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub value_offset: u64,
    pub end: u64,
    pub kind: Kind,
    pub rdb_type: u8,
}

/// The columns that are not for everybody.
#[derive(Debug)]
struct Chunk {
    first_row: u64,
    batch: RecordBatch,
    db: ScalarBuffer<i64>,
    key: BinaryArray,
    kinds: ScalarBuffer<i8>,
    offset: ScalarBuffer<u64>,
    nbytes: ScalarBuffer<u64>,
    value_offsets: Vec<u64>,
    rdb_types: Vec<u8>,
}

/// All keys of a file.
#[derive(Debug)]
pub struct KeyTable {
    schema: SchemaRef,
    chunks: Vec<Chunk>,
    rows: u64,
}

/// Columns of the keys table.
pub fn schema() -> SchemaRef {
    let names = || DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    Arc::new(Schema::new(vec![
        Field::new("db", DataType::Int64, false),
        Field::new("key", DataType::Binary, false),
        Field::new("type", names(), false),
        Field::new("encoding", names(), false),
        Field::new("expire_at", DataType::Int64, true),
        Field::new("offset", DataType::UInt64, false),
        Field::new("nbytes", DataType::UInt64, false),
        Field::new("elements", DataType::UInt64, true),
    ]))
}

impl KeyTable {
    pub fn len(&self) -> u64 {
        self.rows
    }

    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The chunks; cheap to clone.
    pub fn batches(&self) -> Vec<RecordBatch> {
        self.chunks.iter().map(|chunk| chunk.batch.clone()).collect()
    }

    #[inline]
    fn locate(&self, row: u64) -> Option<(&Chunk, usize)> {
        let within = |chunk: &Chunk| {
            let at = usize::try_from(row.checked_sub(chunk.first_row)?).ok()?;
            (at < chunk.value_offsets.len()).then_some(at)
        };
        // Chunks are full but for the last, unless keys are very long.
        let likely = usize::try_from(row).ok().and_then(|row| self.chunks.get(row / CHUNK_ROWS));
        if let Some(found) = likely.and_then(|chunk| Some((chunk, within(chunk)?))) {
            return Some(found);
        }
        let at = self.chunks.partition_point(|chunk| chunk.first_row <= row).checked_sub(1)?;
        let chunk = self.chunks.get(at)?;
        Some((chunk, within(chunk)?))
    }

    pub fn place(&self, row: u64) -> Option<Place> {
        let (chunk, at) = self.locate(row)?;
        let kind = *Kind::ALL.get(usize::try_from(*chunk.kinds.get(at)?).ok()?)?;
        Some(Place {
            value_offset: *chunk.value_offsets.get(at)?,
            end: chunk.offset.get(at)?.saturating_add(*chunk.nbytes.get(at)?),
            kind,
            rdb_type: *chunk.rdb_types.get(at)?,
        })
    }

    /// Database and bytes of a key.
    pub fn key(&self, row: u64) -> Option<(i64, &[u8])> {
        let (chunk, at) = self.locate(row)?;
        Some((*chunk.db.get(at)?, chunk.key.value(at)))
    }

    /// Database and bytes of every key, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (i64, &[u8])> {
        self.chunks.iter().flat_map(|chunk| chunk.db.iter().copied().zip(chunk.key.iter().flatten()))
    }
}

/// A keys table in the making.
pub struct KeyTableBuilder {
    table: KeyTable,
    kind_names: ArrayRef,
    encoding_names: ArrayRef,
    open: Columns,
    repeated: Repeated,
}

/// Columns that say the same in every row, shared by all chunks: a database, an expiry or a count that no key has.
#[derive(Default)]
struct Repeated {
    db: Option<(i64, ScalarBuffer<i64>)>,
    nothing: Option<Buffer>,
}

impl Repeated {
    /// The databases of a chunk.
    fn databases(&mut self, db: Vec<i64>) -> ScalarBuffer<i64> {
        let Some(&first) = db.first().filter(|first| db.iter().all(|db| db == *first)) else {
            return taken(db).into();
        };
        let rows = db.len();
        match &self.db {
            Some((known, shared)) if *known == first && shared.len() >= rows => shared.slice(0, rows),
            _ => {
                let own = ScalarBuffer::from(taken(db));
                self.db = Some((first, own.clone()));
                own
            }
        }
    }

    /// The values of a chunk and which are there. Where none is, they are zeros.
    fn values<T: ArrowNativeType>(&mut self, column: Nullable<T>) -> (ScalarBuffer<T>, Option<NullBuffer>) {
        let (values, valid) = column.finish();
        let rows = values.len();
        if rows > CHUNK_ROWS || valid.as_ref().is_none_or(|valid| valid.null_count() < rows) {
            return (taken(values).into(), valid);
        }
        drop(values);
        let zeros = || Buffer::from_vec(vec![0_u64; CHUNK_ROWS]);
        (ScalarBuffer::new(self.nothing.get_or_insert_with(zeros).clone(), 0, rows), valid)
    }
}

struct Columns {
    db: Vec<i64>,
    key_bytes: Vec<u8>,
    key_ends: Vec<i32>,
    kinds: Vec<i8>,
    encodings: Vec<i8>,
    expire_at: Nullable<i64>,
    offset: Vec<u64>,
    nbytes: Vec<u64>,
    elements: Nullable<u64>,
    value_offsets: Vec<u64>,
    rdb_types: Vec<u8>,
}

impl Columns {
    /// Room for as much as the chunk before had: grown step by step, the columns would be copied several times.
    fn like(rows: usize, key_bytes: usize) -> Self {
        Columns {
            db: Vec::with_capacity(rows),
            key_bytes: Vec::with_capacity(key_bytes),
            key_ends: ends(rows),
            kinds: Vec::with_capacity(rows),
            encodings: Vec::with_capacity(rows),
            expire_at: Nullable::with_capacity(rows),
            offset: Vec::with_capacity(rows),
            nbytes: Vec::with_capacity(rows),
            elements: Nullable::with_capacity(rows),
            value_offsets: Vec::with_capacity(rows),
            rdb_types: Vec::with_capacity(rows),
        }
    }
}

/// Where no key ends yet.
fn ends(rows: usize) -> Vec<i32> {
    let mut ends = Vec::with_capacity(rows + 1);
    ends.push(0);
    ends
}

struct Nullable<T> {
    values: Vec<T>,
    valid: NullBufferBuilder,
}

impl<T: Default> Nullable<T> {
    fn with_capacity(rows: usize) -> Self {
        Nullable { values: Vec::with_capacity(rows), valid: NullBufferBuilder::new(rows) }
    }

    fn push(&mut self, value: Option<T>) {
        self.valid.append(value.is_some());
        self.values.push(value.unwrap_or_default());
    }

    fn finish(mut self) -> (Vec<T>, Option<NullBuffer>) {
        (self.values, self.valid.finish())
    }
}

fn taken<T>(mut column: Vec<T>) -> Vec<T> {
    column.shrink_to_fit();
    column
}

impl Default for KeyTableBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl KeyTableBuilder {
    pub fn new() -> Self {
        let names = |names: Vec<&str>| -> ArrayRef { Arc::new(StringArray::from(names)) };
        KeyTableBuilder {
            table: KeyTable { schema: schema(), chunks: Vec::new(), rows: 0 },
            kind_names: names(Kind::ALL.iter().map(|kind| kind.as_str()).collect()),
            encoding_names: names(Encoding::ALL.iter().map(|encoding| encoding.as_str()).collect()),
            open: Columns::like(0, 0),
            repeated: Repeated::default(),
        }
    }

    pub fn push(&mut self, new: &NewKey<'_>) -> Result<()> {
        let full = self.open.key_bytes.len().saturating_add(new.key.len()) > CHUNK_KEY_BYTES;
        if self.open.db.len() >= CHUNK_ROWS || (full && !self.open.db.is_empty()) {
            self.close()?;
        }
        let open = &mut self.open;
        open.db.push(i64::try_from(new.db).unwrap_or(i64::MAX));
        open.key_bytes.extend_from_slice(new.key);
        open.key_ends.push(i32::try_from(open.key_bytes.len()).unwrap_or(i32::MAX));
        open.kinds.push(new.kind.code() as i8);
        open.encodings.push(new.encoding.code() as i8);
        open.expire_at.push(new.expire_at);
        open.offset.push(new.offset);
        open.nbytes.push(new.end.saturating_sub(new.offset));
        open.elements.push(new.elements);
        open.value_offsets.push(new.value_offset);
        open.rdb_types.push(new.rdb_type);
        Ok(())
    }

    /// Rows so far.
    pub fn len(&self) -> u64 {
        self.table.rows + self.open.db.len() as u64
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn finish(mut self) -> Result<KeyTable> {
        self.close()?;
        Ok(self.table)
    }

    fn close(&mut self) -> Result<()> {
        let rows = self.open.db.len();
        if rows == 0 {
            return Ok(());
        }
        let next = Columns::like(rows, self.open.key_bytes.len().min(CHUNK_ROWS << 8));
        let open = mem::replace(&mut self.open, next);
        let db = self.repeated.databases(open.db);
        let keys = Buffer::from_vec(taken(open.key_bytes));
        let key = BinaryArray::try_new(OffsetBuffer::new(taken(open.key_ends).into()), keys, None)?;
        let kinds = ScalarBuffer::from(taken(open.kinds));
        let named = |codes: ScalarBuffer<i8>, names: &ArrayRef| {
            DictionaryArray::<Int8Type>::try_new(Int8Array::new(codes, None), Arc::clone(names))
        };
        let (expire_at, has_expiry) = self.repeated.values(open.expire_at);
        let (elements, has_elements) = self.repeated.values(open.elements);
        let (offset, nbytes) = (ScalarBuffer::from(taken(open.offset)), ScalarBuffer::from(taken(open.nbytes)));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::new(db.clone(), None)),
            Arc::new(key.clone()),
            Arc::new(named(kinds.clone(), &self.kind_names)?),
            Arc::new(named(taken(open.encodings).into(), &self.encoding_names)?),
            Arc::new(Int64Array::try_new(expire_at, has_expiry)?),
            Arc::new(UInt64Array::new(offset.clone(), None)),
            Arc::new(UInt64Array::new(nbytes.clone(), None)),
            Arc::new(UInt64Array::try_new(elements, has_elements)?),
        ];
        let batch = RecordBatch::try_new(self.table.schema(), columns)?;
        let (value_offsets, rdb_types) = (taken(open.value_offsets), taken(open.rdb_types));
        let first_row = self.table.rows;
        self.table.chunks.push(Chunk { first_row, batch, db, key, kinds, offset, nbytes, value_offsets, rdb_types });
        self.table.rows += rows as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Int64Type, UInt64Type};

    use super::*;

    /// Chunks that share columns still say of each key what was said of it, also where a later, shorter chunk is of
    /// another database or has the one expiry or count there is.
    #[test]
    fn rows_are_what_was_pushed() {
        let rows = 3 * CHUNK_ROWS as u64 + 10;
        let db = |row: u64| if row < 2 * CHUNK_ROWS as u64 + 5 { 0 } else { 7 };
        let expire_at = |row: u64| (row == CHUNK_ROWS as u64 + 3).then_some(-5_i64);
        let elements = |row: u64| (row >= 3 * CHUNK_ROWS as u64 && row.is_multiple_of(2)).then_some(row);
        let mut builder = KeyTableBuilder::new();
        for row in 0..rows {
            builder
                .push(&NewKey {
                    db: db(row),
                    key: row.to_string().as_bytes(),
                    kind: Kind::ALL[row as usize % Kind::ALL.len()],
                    encoding: Encoding::ALL[row as usize % Encoding::ALL.len()],
                    expire_at: expire_at(row),
                    offset: row * 100,
                    value_offset: row * 100 + 9,
                    end: row * 100 + 100,
                    elements: elements(row),
                    rdb_type: row as u8,
                })
                .unwrap();
        }
        let table = builder.finish().unwrap();
        assert_eq!(table.len(), rows);
        let mut row = 0;
        for batch in table.batches() {
            let databases = batch.column(0).as_primitive::<Int64Type>();
            let types = batch.column(2).as_dictionary::<Int8Type>().downcast_dict::<StringArray>().unwrap();
            let encodings = batch.column(3).as_dictionary::<Int8Type>().downcast_dict::<StringArray>().unwrap();
            let expiry = batch.column(4).as_primitive::<Int64Type>();
            let counts = batch.column(7).as_primitive::<UInt64Type>();
            for at in 0..batch.num_rows() {
                assert_eq!(databases.value(at), db(row) as i64);
                assert_eq!(expiry.is_valid(at).then(|| expiry.value(at)), expire_at(row));
                assert_eq!(counts.is_valid(at).then(|| counts.value(at)), elements(row));
                assert_eq!(types.values().value(types.keys().value(at) as usize), Kind::ALL[row as usize % 9].as_str());
                let encoding = encodings.values().value(encodings.keys().value(at) as usize);
                assert_eq!(encoding, Encoding::ALL[row as usize % 19].as_str());
                assert_eq!(table.key(row), Some((db(row) as i64, row.to_string().as_bytes())));
                let place = Place {
                    value_offset: row * 100 + 9,
                    end: row * 100 + 100,
                    kind: Kind::ALL[row as usize % 9],
                    rdb_type: row as u8,
                };
                assert_eq!(table.place(row), Some(place));
                row += 1;
            }
        }
        assert_eq!(row, rows);
        assert_eq!((table.place(rows), table.key(rows)), (None, None));
    }
}
