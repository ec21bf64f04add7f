//! Hashes and stream entries as rows of projected columns.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, Int64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use jobsleuth_formats::{self as formats, Kind, Visitor};

use crate::cells::{Cells, JsonMembers, MapCells};
use crate::error::Result;
use crate::json;
use crate::projection::{Projection, Slot, map_type};
use crate::sink::{Flow, Sink};
use crate::text::{escaped, utf8};

/// Bytes that the columns of one batch may hold. Arrow's offsets into one column are 32 bits; the batch before a row
/// is far smaller (see [`Options`](crate::Options)), so this is what one row may take.
pub(crate) const BATCH_CAP: usize = 1 << 30;

/// Rows in the making: the projected columns and `rest`.
pub(crate) struct Rows {
    projection: Arc<Projection>,
    cells: Vec<Cells>,
    rest: MapCells<BinaryBuilder>,
    /// Per slot whether this row has its field.
    seen: Vec<bool>,
    bytes: usize,
    rows: usize,
}

/// What a row takes beside its bytes, roughly.
const ROW_COST: usize = 64;

impl Rows {
    pub fn new(projection: Arc<Projection>) -> Self {
        Rows {
            cells: projection.columns.iter().map(Cells::new).collect(),
            rest: MapCells::default(),
            seen: vec![false; projection.slots.len()],
            projection,
            bytes: 0,
            rows: 0,
        }
    }

    pub fn fields(projection: &Projection) -> Vec<Field> {
        let mut fields = projection.fields().to_vec();
        fields.push(Field::new("rest", map_type(DataType::Binary), true));
        fields
    }

    /// Bytes that the rows so far take, roughly.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn len(&self) -> usize {
        self.rows
    }

    /// A stored field of the row.
    #[inline]
    pub fn field(&mut self, name: &[u8], value: &[u8]) -> formats::Result<()> {
        let Rows { projection, cells, seen, .. } = self;
        let slot = projection.slot_of(name).and_then(|at| Some((projection.slots.get(at)?, seen.get_mut(at)?)));
        let whole = match slot {
            // A name that comes twice: columns have room for one.
            Some((slot, seen)) if !*seen => {
                *seen = true;
                let copies = slot.columns.len() + 1;
                self.bytes = room(self.bytes, value.len().saturating_mul(copies))?;
                put(slot, cells, value)
            }
            _ => {
                self.bytes = room(self.bytes, value.len())?;
                false
            }
        };
        if !whole {
            self.bytes = room(self.bytes, name.len().saturating_mul(4))?;
            match utf8(name) {
                Some(name) => self.rest.keys.append_value(name),
                None => self.rest.keys.append_value(escaped(name)),
            }
            self.rest.values.append_value(value);
        }
        Ok(())
    }

    /// Ends the row.
    pub fn end(&mut self) {
        for (slot, seen) in self.projection.slots.iter().zip(&mut self.seen) {
            if !std::mem::take(seen) {
                for &column in &slot.columns {
                    if let Some(cells) = self.cells.get_mut(column) {
                        cells.put_absent();
                    }
                }
            }
        }
        self.rest.end(true);
        self.count();
    }

    /// A row for something that has no fields.
    pub fn null(&mut self) {
        self.cells.iter_mut().for_each(Cells::put_null);
        self.rest.end(false);
        self.count();
    }

    fn count(&mut self) {
        self.rows += 1;
        self.bytes += ROW_COST + 8 * self.cells.len();
    }

    /// Appends the finished columns and starts afresh.
    pub fn finish(&mut self, out: &mut Vec<ArrayRef>) -> Result<()> {
        for cells in &mut self.cells {
            cells.finish(out)?;
        }
        let values = Arc::new(self.rest.values.finish());
        out.push(self.rest.finish(values)?);
        (self.bytes, self.rows) = (0, 0);
        Ok(())
    }
}

fn put(slot: &Slot, cells: &mut [Cells], value: &[u8]) -> bool {
    let members: JsonMembers<'_> = if slot.members.is_empty() { None } else { json::members(value, &slot.members) };
    let mut whole = false;
    for &column in &slot.columns {
        if let Some(cells) = cells.get_mut(column) {
            whole |= cells.put(value, &members);
        }
    }
    whole
}

/// `used` and `more` together, if a batch may hold that.
#[inline]
pub(crate) fn room(used: usize, more: usize) -> formats::Result<usize> {
    match used.checked_add(more) {
        Some(sum) if sum <= BATCH_CAP => Ok(sum),
        _ => Err(formats::Error::new(
            0,
            formats::ErrorKind::Limit { what: "one row", asked: more as u64, cap: BATCH_CAP as u64 },
        )),
    }
}

/// Hashes, one row each.
pub(crate) struct Hashes {
    flow: Flow,
    schema: SchemaRef,
    row: Int64Builder,
    rows: Rows,
    current: i64,
    /// The row has begun and not ended.
    open: bool,
    path: Vec<u8>,
}

impl Hashes {
    pub fn new(projection: Arc<Projection>, batch_bytes: usize) -> Self {
        let mut fields = vec![Field::new("row", DataType::Int64, false)];
        fields.extend(Rows::fields(&projection));
        Hashes {
            flow: Flow::new(batch_bytes),
            schema: Arc::new(Schema::new(fields)),
            row: Int64Builder::new(),
            rows: Rows::new(projection),
            current: 0,
            open: false,
            path: Vec::new(),
        }
    }
}

impl Visitor for Hashes {
    #[inline]
    fn hash_field(&mut self, field: &[u8], value: &[u8], _expire_at_ms: Option<i64>) -> formats::Result<()> {
        if self.path.is_empty() {
            return self.rows.field(field, value);
        }
        let name = [self.path.as_slice(), b".", field].concat();
        self.rows.field(&name, value)
    }

    fn hash_path(&mut self, path: &[u8]) -> formats::Result<()> {
        self.path.clear();
        self.path.extend_from_slice(path);
        Ok(())
    }
}

impl Sink for Hashes {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn wants(kind: Kind) -> bool {
        kind == Kind::Hash
    }

    fn begin(&mut self, row: i64) {
        self.current = row;
        self.open = true;
        self.path.clear();
    }

    fn end(&mut self) -> formats::Result<()> {
        self.open = false;
        self.row.append_value(self.current);
        self.rows.end();
        self.flush_if(self.rows.bytes(), self.rows.len())
    }

    fn pass(&mut self, row: i64) -> formats::Result<()> {
        self.row.append_value(row);
        self.rows.null();
        self.flush_if(self.rows.bytes(), self.rows.len())
    }

    fn take(&mut self) -> Result<Option<RecordBatch>> {
        let whole = self.rows.len();
        if std::mem::take(&mut self.open) {
            // A fault has ended the reading within a row: columns are made even, and that row is left out.
            self.row.append_value(self.current);
            self.rows.end();
        }
        if self.rows.len() == 0 {
            return Ok(None);
        }
        let mut columns: Vec<ArrayRef> = vec![Arc::new(self.row.finish())];
        self.rows.finish(&mut columns)?;
        Ok(Some(RecordBatch::try_new(self.schema(), columns)?.slice(0, whole)))
    }

    fn flow(&mut self) -> &mut Flow {
        &mut self.flow
    }
}
