//! Lists, sets, sorted sets and hashes as one row an element.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, Float64Builder, Int64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use jobsleuth_formats::{self as formats, Kind, Visitor};

use crate::error::Result;
use crate::records::room;
use crate::sink::{Flow, Oddity, Sink};

/// Elements in the making.
pub(crate) struct Elements {
    flow: Flow,
    schema: SchemaRef,
    current: i64,
    position: i64,
    path: Vec<u8>,
    ranked: Ranked,
    row: Int64Builder,
    at: Int64Builder,
    member: BinaryBuilder,
    score: Float64Builder,
    value: BinaryBuilder,
    expiry: Int64Builder,
    rows: usize,
    bytes: usize,
}

/// Members of one sorted set: files hold them in either order, or in none, so ranks are known only at the end.
#[derive(Default)]
struct Ranked {
    bytes: Vec<u8>,
    members: Vec<Member>,
}

struct Member {
    score: f64,
    /// Where its bytes are; 32 bits are enough for what [`room`] lets in.
    place: Range<u32>,
}

impl Ranked {
    fn bytes_of(&self, member: &Member) -> &[u8] {
        self.bytes.get(member.place.start as usize..member.place.end as usize).unwrap_or_default()
    }

    fn order(&self, a: &Member, b: &Member) -> Ordering {
        // What is no number stands behind all numbers.
        let by_score = a.score.partial_cmp(&b.score).unwrap_or_else(|| a.score.is_nan().cmp(&b.score.is_nan()));
        by_score.then_with(|| self.bytes_of(a).cmp(self.bytes_of(b)))
    }
}

/// What an element takes beside its bytes.
const ROW_COST: usize = 48;

pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("row", DataType::Int64, false),
        Field::new("position", DataType::Int64, false),
        Field::new("member", DataType::Binary, false),
        Field::new("score", DataType::Float64, true),
        Field::new("value", DataType::Binary, true),
        Field::new("field_expire_at", DataType::Int64, true),
    ]))
}

impl Elements {
    pub fn new(batch_bytes: usize) -> Self {
        Elements {
            flow: Flow::new(batch_bytes),
            schema: schema(),
            current: 0,
            position: 0,
            path: Vec::new(),
            ranked: Ranked::default(),
            row: Int64Builder::new(),
            at: Int64Builder::new(),
            member: BinaryBuilder::new(),
            score: Float64Builder::new(),
            value: BinaryBuilder::new(),
            expiry: Int64Builder::new(),
            rows: 0,
            bytes: 0,
        }
    }

    fn push(
        &mut self,
        member: &[u8],
        score: Option<f64>,
        value: Option<&[u8]>,
        expiry: Option<i64>,
    ) -> formats::Result<()> {
        let more = ROW_COST.saturating_add(member.len()).saturating_add(value.map_or(0, <[u8]>::len));
        self.bytes = room(self.bytes, more)?;
        self.row.append_value(self.current);
        self.at.append_value(self.position);
        self.member.append_value(member);
        self.score.append_option(score);
        self.value.append_option(value);
        self.expiry.append_option(expiry);
        self.position += 1;
        self.rows += 1;
        self.flush_if(self.bytes, self.rows)
    }

    fn push_ranked(&mut self, mut ranked: Ranked) -> formats::Result<Ranked> {
        let mut members = std::mem::take(&mut ranked.members);
        if members.is_sorted_by(|a, b| ranked.order(a, b).is_ge()) {
            members.reverse();
        } else if !members.is_sorted_by(|a, b| ranked.order(a, b).is_le()) {
            members.sort_by(|a, b| ranked.order(a, b));
        }
        for member in &members {
            self.push(ranked.bytes_of(member), Some(member.score), None, None)?;
        }
        members.clear();
        ranked.bytes.clear();
        Ok(Ranked { bytes: ranked.bytes, members })
    }
}

impl Visitor for Elements {
    fn list_item(&mut self, value: &[u8]) -> formats::Result<()> {
        self.push(value, None, None, None)
    }

    fn set_member(&mut self, member: &[u8]) -> formats::Result<()> {
        self.push(member, None, None, None)
    }

    fn zset_member(&mut self, member: &[u8], score: f64) -> formats::Result<()> {
        if score.is_nan() {
            self.flow.note(Oddity::ScoreNoNumber);
        }
        let start = self.ranked.bytes.len();
        let end = room(start, member.len())?;
        self.ranked.bytes.extend_from_slice(member);
        self.ranked.members.push(Member { score, place: start as u32..end as u32 });
        Ok(())
    }

    fn hash_field(&mut self, field: &[u8], value: &[u8], expire_at_ms: Option<i64>) -> formats::Result<()> {
        if self.path.is_empty() {
            return self.push(field, None, Some(value), expire_at_ms);
        }
        let name = [self.path.as_slice(), b".", field].concat();
        self.push(&name, None, Some(value), expire_at_ms)
    }

    fn hash_path(&mut self, path: &[u8]) -> formats::Result<()> {
        self.path.clear();
        self.path.extend_from_slice(path);
        Ok(())
    }
}

impl Sink for Elements {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn wants(kind: Kind) -> bool {
        matches!(kind, Kind::List | Kind::Set | Kind::Zset | Kind::Hash)
    }

    fn begin(&mut self, row: i64) {
        self.current = row;
        self.position = 0;
        self.path.clear();
        self.ranked.bytes.clear();
        self.ranked.members.clear();
    }

    fn end(&mut self) -> formats::Result<()> {
        if !self.ranked.members.is_empty() {
            let ranked = std::mem::take(&mut self.ranked);
            self.ranked = self.push_ranked(ranked)?;
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Option<RecordBatch>> {
        if self.rows == 0 {
            return Ok(None);
        }
        (self.rows, self.bytes) = (0, 0);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.row.finish()),
            Arc::new(self.at.finish()),
            Arc::new(self.member.finish()),
            Arc::new(self.score.finish()),
            Arc::new(self.value.finish()),
            Arc::new(self.expiry.finish()),
        ];
        Ok(Some(RecordBatch::try_new(self.schema(), columns)?))
    }

    fn flow(&mut self) -> &mut Flow {
        &mut self.flow
    }
}
