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
use crate::sink::{Flow, Oddity, Sink};
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
    /// Slots in the order of the row before: most rows have the same fields in the same order.
    order: Vec<usize>,
    /// Fields of this row so far.
    nth: usize,
    /// Per slot the numbers in the latest JSON text: options of jobs are mostly the same.
    latest: Vec<Latest>,
    /// A field that has a column came a second time in this row.
    twice: bool,
    bytes: usize,
    rows: usize,
}

/// What a row takes beside its bytes, roughly.
const ROW_COST: usize = 64;

/// A JSON text and the numbers in it that columns ask for.
#[derive(Default)]
struct Latest {
    json: Vec<u8>,
    numbers: Vec<Option<i64>>,
}

/// Longer JSON texts are not worth keeping.
const LATEST_MAX: usize = 4 << 10;
/// Fields of a row whose order is remembered.
const ORDER_MAX: usize = 64;

impl Rows {
    pub fn new(projection: Arc<Projection>) -> Self {
        Rows {
            cells: projection.columns.iter().map(Cells::new).collect(),
            rest: MapCells::default(),
            seen: vec![false; projection.slots.len()],
            order: Vec::new(),
            nth: 0,
            latest: projection.slots.iter().map(|_| Latest::default()).collect(),
            projection,
            twice: false,
            bytes: 0,
            rows: 0,
        }
    }

    pub fn fields(projection: &Projection) -> Vec<Field> {
        let mut fields = projection.fields().to_vec();
        if projection.rest {
            fields.push(Field::new("rest", map_type(DataType::Binary), true));
        }
        fields
    }

    /// Whether the row that ends now has a field twice: one that a column took already, or one that none takes.
    pub fn field_twice(&mut self) -> bool {
        std::mem::take(&mut self.twice) || self.rest.key_twice()
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
        let at = self.slot_of(name);
        let Rows { projection, cells, seen, latest, twice, .. } = self;
        let slot = at.and_then(|at| Some((projection.slots.get(at)?, seen.get_mut(at)?, latest.get_mut(at)?)));
        let whole = match slot {
            // A name that comes twice: columns have room for one.
            Some((slot, seen, latest)) if !*seen => {
                // First: a row that ends here has nothing of the field, and must not claim that it has.
                self.bytes = room(self.bytes, slot.kept(value.len()))?;
                *seen = true;
                put(slot, cells, latest, value)
            }
            found => {
                *twice |= found.is_some();
                false
            }
        };
        if !whole && self.projection.rest {
            self.bytes = room(self.bytes, name.len().saturating_mul(4).saturating_add(value.len()))?;
            match utf8(name) {
                Some(name) => self.rest.keys.append_value(name),
                None => self.rest.keys.append_value(escaped(name)),
            }
            self.rest.values.append_value(value);
        }
        Ok(())
    }

    #[inline]
    fn slot_of(&mut self, name: &[u8]) -> Option<usize> {
        let nth = self.nth;
        self.nth += 1;
        if let Some(&at) = self.order.get(nth)
            && self.projection.slots.get(at).is_some_and(|slot| *slot.name == *name)
        {
            return Some(at);
        }
        let found = self.projection.slot_of(name);
        match self.order.get_mut(nth) {
            Some(at) => *at = found.unwrap_or(usize::MAX),
            None if nth < ORDER_MAX => {
                self.order.resize(nth, usize::MAX);
                self.order.push(found.unwrap_or(usize::MAX));
            }
            None => {}
        }
        found
    }

    /// Ends the row.
    pub fn end(&mut self) {
        self.nth = 0;
        self.twice = false;
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
        let rest = self.rest.finish(values)?;
        if self.projection.rest {
            out.push(rest);
        }
        (self.bytes, self.rows) = (0, 0);
        Ok(())
    }
}

fn put(slot: &Slot, cells: &mut [Cells], latest: &mut Latest, value: &[u8]) -> bool {
    let mut whole = false;
    if !slot.members.is_empty() && slot.numbers_only && value.len() <= LATEST_MAX {
        if latest.numbers.is_empty() || latest.json != value {
            let found = json::members(value, &slot.members);
            let number = |at| found.as_ref().and_then(|found| found.get(at).copied().flatten()).and_then(json::whole);
            latest.numbers = (0..slot.members.len()).map(number).collect();
            latest.json.clear();
            latest.json.extend_from_slice(value);
        }
        for &column in &slot.columns {
            if let Some(cells) = cells.get_mut(column) {
                whole |= cells.put_known(value, &latest.numbers);
            }
        }
        return whole;
    }
    let members: JsonMembers<'_> = if slot.members.is_empty() { None } else { json::members(value, &slot.members) };
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
        if self.rows.field_twice() {
            self.flow.note(Oddity::FieldTwice);
        }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use arrow_array::{Array as _, ArrayRef};

    use super::{BATCH_CAP, Rows};
    use crate::projection::Projection;

    /// A field that no batch has room for ends its row, and a salvage goes on from there: all columns are even, and
    /// neither the column nor `rest` has anything of the field.
    #[test]
    fn no_room_for_a_field() {
        let asked = r#"[{"name":"a","field":"a","kind":"text"},{"name":"d","field":"d","kind":"bytes","size":true}]"#;
        for name in [&b"d"[..], b"other"] {
            let mut rows = Rows::new(Arc::new(Projection::parse(asked, true).unwrap()));
            rows.field(b"a", b"1").unwrap();
            rows.bytes = BATCH_CAP - 10;
            assert!(rows.field(name, &[b'x'; 20]).is_err());
            rows.end();
            let mut columns: Vec<ArrayRef> = Vec::new();
            rows.finish(&mut columns).unwrap();
            assert_eq!(columns.iter().map(|column| column.len()).collect::<Vec<_>>(), [1, 1, 1, 1]);
            assert_eq!(columns.iter().map(|column| column.null_count()).collect::<Vec<_>>(), [0, 1, 1, 0]);
        }
    }
}
