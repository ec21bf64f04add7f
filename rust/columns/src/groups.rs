//! What a stream says of itself and of its consumer groups, as one row a fact.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, Int8Builder, Int64Builder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use jobsleuth_formats::{
    self as formats, Kind, StreamConsumer, StreamGroup, StreamId, StreamMeta, StreamPending, Visitor,
};

use crate::error::Result;
use crate::records::room;
use crate::sink::{Flow, Sink};

/// What a row speaks of: the column `part`.
#[derive(Clone, Copy)]
#[repr(i8)]
enum Part {
    Stream = 0,
    Group = 1,
    Pending = 2,
    Consumer = 3,
}

/// One row, before it is in columns; what a part does not have stays null.
#[derive(Default)]
struct Fact<'a> {
    group: Option<i64>,
    name: Option<&'a [u8]>,
    id: Option<StreamId>,
    time: Option<i64>,
    active: Option<i64>,
    count: Option<i64>,
    first: Option<StreamId>,
    deleted: Option<StreamId>,
    added: Option<u64>,
}

/// An id as two columns.
#[derive(Default)]
struct Ids {
    ms: UInt64Builder,
    seq: UInt64Builder,
}

impl Ids {
    fn push(&mut self, id: Option<StreamId>) {
        self.ms.append_option(id.map(|id| id.ms));
        self.seq.append_option(id.map(|id| id.seq));
    }
}

/// Facts in the making.
pub(crate) struct StreamGroups {
    flow: Flow,
    schema: SchemaRef,
    current: i64,
    groups: i64,
    row: Int64Builder,
    part: Int8Builder,
    group: Int64Builder,
    name: BinaryBuilder,
    id: Ids,
    time: Int64Builder,
    active: Int64Builder,
    count: Int64Builder,
    first: Ids,
    deleted: Ids,
    added: UInt64Builder,
    rows: usize,
    bytes: usize,
}

/// What a row takes beside its name.
const ROW_COST: usize = 112;

fn schema() -> SchemaRef {
    let number = |name: &str| Field::new(name, DataType::Int64, true);
    let id = |name: &str| Field::new(name, DataType::UInt64, true);
    Arc::new(Schema::new(vec![
        Field::new("row", DataType::Int64, false),
        Field::new("part", DataType::Int8, false),
        number("group"),
        Field::new("name", DataType::Binary, true),
        id("ms"),
        id("seq"),
        number("time"),
        number("active"),
        number("count"),
        id("first_ms"),
        id("first_seq"),
        id("deleted_ms"),
        id("deleted_seq"),
        id("added"),
    ]))
}

impl StreamGroups {
    pub fn new(batch_bytes: usize) -> Self {
        StreamGroups {
            flow: Flow::new(batch_bytes),
            schema: schema(),
            current: 0,
            groups: 0,
            row: Int64Builder::new(),
            part: Int8Builder::new(),
            group: Int64Builder::new(),
            name: BinaryBuilder::new(),
            id: Ids::default(),
            time: Int64Builder::new(),
            active: Int64Builder::new(),
            count: Int64Builder::new(),
            first: Ids::default(),
            deleted: Ids::default(),
            added: UInt64Builder::new(),
            rows: 0,
            bytes: 0,
        }
    }

    fn push(&mut self, part: Part, fact: &Fact<'_>) -> formats::Result<()> {
        self.bytes = room(self.bytes, ROW_COST.saturating_add(fact.name.map_or(0, <[u8]>::len)))?;
        self.row.append_value(self.current);
        self.part.append_value(part as i8);
        self.group.append_option(fact.group);
        self.name.append_option(fact.name);
        self.id.push(fact.id);
        self.time.append_option(fact.time);
        self.active.append_option(fact.active);
        self.count.append_option(fact.count);
        self.first.push(fact.first);
        self.deleted.push(fact.deleted);
        self.added.append_option(fact.added);
        self.rows += 1;
        self.flush_if(self.bytes, self.rows)
    }

    /// Number of the group that is being read.
    fn here(&self) -> Option<i64> {
        self.groups.checked_sub(1)
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Visitor for StreamGroups {
    fn stream_meta(&mut self, meta: &StreamMeta) -> formats::Result<()> {
        let since_7 = meta.since_7.as_ref();
        self.push(
            Part::Stream,
            &Fact {
                id: Some(meta.last_id),
                count: Some(signed(meta.found)),
                first: since_7.map(|s| s.first_id),
                deleted: since_7.map(|s| s.max_deleted_id),
                added: since_7.map(|s| s.entries_added),
                ..Fact::default()
            },
        )
    }

    fn stream_group(&mut self, group: &StreamGroup<'_>) -> formats::Result<()> {
        self.groups += 1;
        let fact = Fact {
            group: self.here(),
            name: Some(group.name),
            id: Some(group.last_id),
            count: group.entries_read,
            ..Fact::default()
        };
        self.push(Part::Group, &fact)
    }

    fn stream_pending(&mut self, pending: &StreamPending<'_>) -> formats::Result<()> {
        let fact = Fact {
            group: self.here(),
            name: pending.consumer,
            id: Some(pending.id),
            time: Some(pending.delivery_time_ms),
            count: Some(signed(pending.delivery_count)),
            ..Fact::default()
        };
        self.push(Part::Pending, &fact)
    }

    fn stream_consumer(&mut self, consumer: &StreamConsumer<'_>) -> formats::Result<()> {
        let fact = Fact {
            group: self.here(),
            name: Some(consumer.name),
            time: Some(consumer.seen_ms),
            active: consumer.active_ms,
            count: Some(signed(consumer.pending)),
            ..Fact::default()
        };
        self.push(Part::Consumer, &fact)
    }
}

impl Sink for StreamGroups {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn wants(kind: Kind) -> bool {
        kind == Kind::Stream
    }

    fn begin(&mut self, row: i64) {
        self.current = row;
        self.groups = 0;
    }

    fn take(&mut self) -> Result<Option<RecordBatch>> {
        if self.rows == 0 {
            return Ok(None);
        }
        (self.rows, self.bytes) = (0, 0);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.row.finish()),
            Arc::new(self.part.finish()),
            Arc::new(self.group.finish()),
            Arc::new(self.name.finish()),
            Arc::new(self.id.ms.finish()),
            Arc::new(self.id.seq.finish()),
            Arc::new(self.time.finish()),
            Arc::new(self.active.finish()),
            Arc::new(self.count.finish()),
            Arc::new(self.first.ms.finish()),
            Arc::new(self.first.seq.finish()),
            Arc::new(self.deleted.ms.finish()),
            Arc::new(self.deleted.seq.finish()),
            Arc::new(self.added.finish()),
        ];
        Ok(Some(RecordBatch::try_new(self.schema(), columns)?))
    }

    fn flow(&mut self) -> &mut Flow {
        &mut self.flow
    }
}
