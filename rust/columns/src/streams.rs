//! Streams as one row an entry.

use std::sync::Arc;

use arrow_array::builder::{Int64Builder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use jobsleuth_formats::{self as formats, Kind, StreamId, Visitor};

use crate::error::Result;
use crate::projection::Projection;
use crate::records::Rows;
use crate::sink::{Flow, Sink};

/// Entries in the making.
pub(crate) struct StreamEntries {
    flow: Flow,
    schema: SchemaRef,
    row: Int64Builder,
    ms: UInt64Builder,
    seq: UInt64Builder,
    rows: Rows,
    current: i64,
    /// The entry whose fields are being read.
    open: Option<StreamId>,
}

impl StreamEntries {
    pub fn new(projection: Arc<Projection>, batch_bytes: usize) -> Self {
        let mut fields = vec![
            Field::new("row", DataType::Int64, false),
            Field::new("ms", DataType::UInt64, false),
            Field::new("seq", DataType::UInt64, false),
        ];
        fields.extend(Rows::fields(&projection));
        StreamEntries {
            flow: Flow::new(batch_bytes),
            schema: Arc::new(Schema::new(fields)),
            row: Int64Builder::new(),
            ms: UInt64Builder::new(),
            seq: UInt64Builder::new(),
            rows: Rows::new(projection),
            current: 0,
            open: None,
        }
    }

    fn close(&mut self) {
        if let Some(id) = self.open.take() {
            self.row.append_value(self.current);
            self.ms.append_value(id.ms);
            self.seq.append_value(id.seq);
            self.rows.end();
        }
    }
}

impl Visitor for StreamEntries {
    fn stream_entry(&mut self, id: StreamId) -> formats::Result<()> {
        self.open = Some(id);
        Ok(())
    }

    fn stream_field(&mut self, field: &[u8], value: &[u8]) -> formats::Result<()> {
        self.rows.field(field, value)
    }

    fn stream_entry_end(&mut self) -> formats::Result<()> {
        self.close();
        self.flush_if(self.rows.bytes(), self.rows.len())
    }
}

impl Sink for StreamEntries {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn wants(kind: Kind) -> bool {
        kind == Kind::Stream
    }

    fn begin(&mut self, row: i64) {
        self.current = row;
        self.open = None;
    }

    /// Damage may have cut an entry short; its fields so far are not to leak into the next one.
    fn end(&mut self) -> formats::Result<()> {
        self.close();
        Ok(())
    }

    fn take(&mut self) -> Result<Option<RecordBatch>> {
        let whole = self.rows.len();
        // A fault has ended the reading within an entry: columns are made even, and that entry is left out.
        self.close();
        if self.rows.len() == 0 {
            return Ok(None);
        }
        let mut columns: Vec<ArrayRef> =
            vec![Arc::new(self.row.finish()), Arc::new(self.ms.finish()), Arc::new(self.seq.finish())];
        self.rows.finish(&mut columns)?;
        Ok(Some(RecordBatch::try_new(self.schema(), columns)?.slice(0, whole)))
    }

    fn flow(&mut self) -> &mut Flow {
        &mut self.flow
    }
}
