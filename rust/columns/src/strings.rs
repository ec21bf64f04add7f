//! String values.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::builder::{BinaryBuilder, Int64Builder};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use jobsleuth_formats::{self as formats, Kind, Visitor};

use crate::error::Result;
use crate::records::room;
use crate::sink::{Flow, Sink};

/// Strings in the making.
pub(crate) struct Strings {
    flow: Flow,
    schema: SchemaRef,
    limit: usize,
    current: i64,
    row: Int64Builder,
    value: BinaryBuilder,
    size: Int64Builder,
    rows: usize,
    bytes: usize,
}

impl Strings {
    pub fn new(limit: Option<usize>, batch_bytes: usize) -> Self {
        let schema = Schema::new(vec![
            Field::new("row", DataType::Int64, false),
            Field::new("value", DataType::Binary, false),
            Field::new("size", DataType::Int64, false),
        ]);
        Strings {
            flow: Flow::new(batch_bytes),
            schema: Arc::new(schema),
            limit: limit.unwrap_or(usize::MAX),
            current: 0,
            row: Int64Builder::new(),
            value: BinaryBuilder::new(),
            size: Int64Builder::new(),
            rows: 0,
            bytes: 0,
        }
    }
}

impl Visitor for Strings {
    fn string(&mut self, value: &[u8]) -> formats::Result<()> {
        let kept = value.get(..self.limit).unwrap_or(value);
        self.bytes = room(self.bytes, kept.len().saturating_add(24))?;
        self.row.append_value(self.current);
        self.value.append_value(kept);
        self.size.append_value(value.len() as i64);
        self.rows += 1;
        self.flush_if(self.bytes, self.rows)
    }
}

impl Sink for Strings {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn wants(kind: Kind) -> bool {
        kind == Kind::String
    }

    fn begin(&mut self, row: i64) {
        self.current = row;
    }

    fn take(&mut self) -> Result<Option<RecordBatch>> {
        if self.rows == 0 {
            return Ok(None);
        }
        (self.rows, self.bytes) = (0, 0);
        let (row, value, size) = (self.row.finish(), self.value.finish(), self.size.finish());
        Ok(Some(RecordBatch::try_new(self.schema(), vec![Arc::new(row), Arc::new(value), Arc::new(size)])?))
    }

    fn flow(&mut self) -> &mut Flow {
        &mut self.flow
    }
}
