//! The lines of keyspace NDJSON, written piece by piece.

use std::io::Write;

use crate::error::Result;
use crate::item::KeyEntry;
use crate::json;
use crate::kind::{Encoding, Kind};
use crate::number::g17;
use crate::visit::{
    ArrayMeta, ModuleValue, StreamConsumer, StreamGroup, StreamId, StreamIdempotence, StreamMeta, StreamPending,
    VectorsetMeta, Visitor,
};

/// What the first line says; learnt from the AUX fields.
#[derive(Default)]
pub(crate) struct Facts {
    ctime: Option<i64>,
    version: Option<Vec<u8>>,
}

impl Facts {
    pub fn learn(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b"ctime" => self.ctime = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()),
            b"redis-ver" | b"valkey-ver" => self.version = Some(value.to_vec()),
            _ => {}
        }
    }
}

/// Which list of a stream is open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Entries,
    Groups,
    Pending,
    Consumers,
    Produced,
    Closed,
}

/// Where lines go.
pub(crate) trait Outlet {
    /// Takes the bytes and leaves an empty buffer.
    fn send(&mut self, buffer: &mut Vec<u8>) -> Result<()>;
}

/// Counts what it writes.
pub(crate) struct Direct<'w, W> {
    pub out: &'w mut W,
    pub written: u64,
}

impl<W: Write> Outlet for Direct<'_, W> {
    fn send(&mut self, buffer: &mut Vec<u8>) -> Result<()> {
        self.out.write_all(buffer)?;
        self.written += buffer.len() as u64;
        buffer.clear();
        Ok(())
    }
}

pub(crate) struct Lines<O> {
    pub outlet: O,
    buffer: Vec<u8>,
    /// Where the line being written starts in the buffer; `None` once part of it has left.
    line: Option<usize>,
    /// The next element of the innermost list is its first.
    first: bool,
    part: Part,
    /// One past the highest index of the array.
    array_len: u64,
    /// The path that fields belong to, in hashes that have paths.
    path: Option<Vec<u8>>,
    /// Whether lines tell how values are stored.
    with_encoding: bool,
}

/// Written out when the buffer holds this much.
const FULL: usize = 256 << 10;

impl<O: Outlet> Lines<O> {
    pub fn new(outlet: O, with_encoding: bool) -> Self {
        Lines {
            outlet,
            buffer: Vec::new(),
            line: None,
            first: true,
            part: Part::Entries,
            array_len: 0,
            path: None,
            with_encoding,
        }
    }

    pub fn flush(&mut self) -> Result<()> {
        self.line = None;
        self.outlet.send(&mut self.buffer)
    }

    #[inline]
    pub fn flush_if_full(&mut self) -> Result<()> {
        if self.buffer.len() >= FULL { self.flush() } else { Ok(()) }
    }

    fn raw(&mut self, text: &str) {
        self.buffer.extend_from_slice(text.as_bytes());
    }

    /// A byte string; a large one leaves in pieces, since escapes may make six times as much of it.
    #[inline]
    fn bytes_value(&mut self, value: &[u8]) -> Result<()> {
        if value.len() <= json::PIECE {
            json::bytes(&mut self.buffer, value);
            return Ok(());
        }
        let (line, outlet) = (&mut self.line, &mut self.outlet);
        json::large(&mut self.buffer, value, |piece| {
            *line = None;
            outlet.send(piece)
        })
    }

    /// The comma between elements.
    #[inline]
    fn next(&mut self) {
        if self.first {
            self.first = false;
        } else {
            self.buffer.push(b',');
        }
    }

    fn id(&mut self, id: StreamId) {
        self.buffer.push(b'"');
        json::int(&mut self.buffer, id.ms);
        self.buffer.push(b'-');
        json::int(&mut self.buffer, id.seq);
        self.buffer.push(b'"');
    }

    fn field(&mut self, name: &str, value: Option<impl itoa::Integer>) {
        self.raw(name);
        json::int_or_null(&mut self.buffer, value);
    }

    /// The first line, where it is given.
    pub fn given_head(&mut self, line: &str) {
        self.raw(line);
        self.raw("\n");
    }

    pub fn head(&mut self, facts: &Facts) {
        let ms = facts.ctime.and_then(|s| s.checked_mul(1000));
        self.raw("{\"format\":\"jobsleuth-keyspace\",\"version\":1");
        self.field(",\"started_at_ms\":", ms);
        self.field(",\"finished_at_ms\":", ms);
        self.raw(",\"redis_version\":");
        match &facts.version {
            Some(version) => json::bytes(&mut self.buffer, version),
            None => self.raw("null"),
        }
        self.raw(",\"atomic\":true");
        self.field(",\"as_of_ms\":", ms);
        self.raw("}\n");
    }

    pub fn end(&mut self, keys: u64) {
        self.field("{\"end\":true,\"keys\":", Some(keys));
        self.raw("}\n");
    }

    /// A line without a key up to its value.
    pub fn open_bare(&mut self, kind: Kind, encoding: Encoding) {
        self.line = Some(self.buffer.len());
        self.raw("{\"type\":\"");
        self.raw(kind.as_str());
        self.raw("\",\"encoding\":\"");
        self.raw(encoding.as_str());
        self.raw("\"");
        self.open_value(kind);
    }

    /// A line up to its value.
    pub fn open(&mut self, entry: &KeyEntry<'_>) -> Result<()> {
        self.line = Some(self.buffer.len());
        self.field("{\"db\":", Some(entry.db));
        self.raw(",\"key\":");
        self.bytes_value(entry.key)?;
        self.raw(",\"type\":\"");
        self.raw(entry.kind.as_str());
        self.field("\",\"expire_at_ms\":", entry.expire_at_ms);
        if self.with_encoding {
            self.raw(",\"encoding\":\"");
            self.raw(entry.encoding.as_str());
            self.raw("\"");
        }
        if let Some(idle) = entry.lru_idle_s {
            self.field(",\"lru_idle_s\":", Some(idle));
        }
        if let Some(freq) = entry.lfu_freq {
            self.field(",\"lfu_freq\":", Some(freq));
        }
        if let Some(slot) = entry.slot {
            self.field(",\"slot\":", Some(slot));
        }
        if !entry.key_meta.is_empty() {
            self.raw(",\"key_meta\":[");
            for (i, class) in entry.key_meta.iter().enumerate() {
                self.raw(if i == 0 { "\"" } else { ",\"" });
                self.raw(&class.name());
                self.raw("\"");
            }
            self.raw("]");
        }
        self.open_value(entry.kind);
        Ok(())
    }

    fn open_value(&mut self, kind: Kind) {
        self.raw(",\"value\":");
        self.raw(match kind {
            Kind::List | Kind::Set | Kind::Zset | Kind::Hash => "[",
            Kind::Stream => "{\"entries\":[",
            Kind::Array => "{\"items\":[",
            Kind::String | Kind::Vectorset | Kind::Module => "",
        });
        self.first = true;
        self.part = Part::Entries;
        self.array_len = 0;
        self.path = None;
    }

    /// The rest of a line after its value.
    pub fn close(&mut self, kind: Kind) {
        match kind {
            Kind::List | Kind::Set | Kind::Zset | Kind::Hash => self.raw("]"),
            Kind::Array => {
                self.raw("],\"len\":");
                // A server's replies hold no larger number; it gives such a length as text.
                let quote = if self.array_len > i64::MAX as u64 { "\"" } else { "" };
                self.field(quote, Some(self.array_len));
                self.raw(quote);
                self.raw("}");
            }
            Kind::Vectorset => self.raw("]}"),
            Kind::Stream => self.raw(if self.part == Part::Closed { "}" } else { "]}" }),
            Kind::String | Kind::Module => {}
        }
        self.raw("}\n");
        self.line = None;
    }

    /// Takes an unfinished line back; ends it as it is where part of it has left already.
    pub fn abandon(&mut self) {
        match self.line.take() {
            Some(start) => self.buffer.truncate(start),
            None => self.buffer.push(b'\n'),
        }
    }

    /// Leaves the list of groups for that of produced items.
    fn enter_produced(&mut self) {
        if self.part != Part::Produced {
            self.raw("],\"idempotence\":{\"items\":[");
            self.part = Part::Produced;
            self.first = true;
        }
    }
}

impl<O: Outlet> Visitor for Lines<O> {
    fn string(&mut self, value: &[u8]) -> Result<()> {
        self.bytes_value(value)
    }

    fn list_item(&mut self, value: &[u8]) -> Result<()> {
        self.next();
        self.bytes_value(value)?;
        self.flush_if_full()
    }

    fn set_member(&mut self, member: &[u8]) -> Result<()> {
        self.list_item(member)
    }

    fn zset_member(&mut self, member: &[u8], score: f64) -> Result<()> {
        self.next();
        self.raw("[");
        self.bytes_value(member)?;
        self.raw(",\"");
        self.raw(&g17(score));
        self.raw("\"]");
        self.flush_if_full()
    }

    fn hash_field(&mut self, field: &[u8], value: &[u8], expire_at_ms: Option<i64>) -> Result<()> {
        self.next();
        self.raw("[");
        self.bytes_value(field)?;
        self.raw(",");
        self.bytes_value(value)?;
        if expire_at_ms.is_some() || self.path.is_some() {
            self.field(",", expire_at_ms);
        }
        if let Some(path) = &self.path {
            self.buffer.push(b',');
            json::bytes(&mut self.buffer, path);
        }
        self.raw("]");
        self.flush_if_full()
    }

    fn hash_path(&mut self, path: &[u8]) -> Result<()> {
        self.path = Some(path.to_vec());
        Ok(())
    }

    fn stream_entry(&mut self, id: StreamId) -> Result<()> {
        self.next();
        self.raw("[");
        self.id(id);
        self.raw(",[");
        self.first = true;
        Ok(())
    }

    fn stream_field(&mut self, field: &[u8], value: &[u8]) -> Result<()> {
        self.hash_field(field, value, None)
    }

    fn stream_entry_end(&mut self) -> Result<()> {
        self.raw("]]");
        self.first = false;
        self.flush_if_full()
    }

    fn stream_meta(&mut self, meta: &StreamMeta) -> Result<()> {
        self.raw("],\"last_id\":");
        self.id(meta.last_id);
        let since_7 = meta.since_7.as_ref();
        self.field(",\"entries_added\":", since_7.map(|m| m.entries_added));
        self.raw(",\"max_deleted_id\":");
        match since_7 {
            Some(m) => self.id(m.max_deleted_id),
            None => self.raw("null"),
        }
        self.raw(",\"groups\":[");
        self.part = Part::Groups;
        self.first = true;
        Ok(())
    }

    fn stream_group(&mut self, group: &StreamGroup<'_>) -> Result<()> {
        self.next();
        self.raw("{\"name\":");
        self.bytes_value(group.name)?;
        self.raw(",\"last_id\":");
        self.id(group.last_id);
        self.field(",\"entries_read\":", group.entries_read);
        self.raw(",\"pending\":[");
        self.part = Part::Pending;
        self.first = true;
        Ok(())
    }

    fn stream_pending(&mut self, pending: &StreamPending<'_>) -> Result<()> {
        self.next();
        self.raw("[");
        self.id(pending.id);
        self.raw(",");
        match pending.consumer {
            Some(name) => self.bytes_value(name)?,
            None => self.raw("null"),
        }
        self.field(",", Some(pending.delivery_time_ms));
        self.field(",", Some(pending.delivery_count));
        self.raw("]");
        self.flush_if_full()
    }

    fn stream_consumer(&mut self, consumer: &StreamConsumer<'_>) -> Result<()> {
        if self.part == Part::Pending {
            self.raw("],\"consumers\":[");
            self.part = Part::Consumers;
            self.first = true;
        }
        self.next();
        self.raw("[");
        self.bytes_value(consumer.name)?;
        self.field(",", Some(consumer.seen_ms));
        self.field(",", consumer.active_ms);
        self.raw("]");
        self.flush_if_full()
    }

    fn stream_group_end(&mut self) -> Result<()> {
        self.raw(if self.part == Part::Pending { "],\"consumers\":[]}" } else { "]}" });
        self.part = Part::Groups;
        self.first = false;
        Ok(())
    }

    fn stream_produced(&mut self, producer: &[u8], item: &[u8], id: StreamId) -> Result<()> {
        self.enter_produced();
        self.next();
        self.raw("[");
        self.bytes_value(producer)?;
        self.raw(",");
        self.bytes_value(item)?;
        self.raw(",");
        self.id(id);
        self.raw("]");
        self.flush_if_full()
    }

    fn stream_idempotence(&mut self, meta: &StreamIdempotence) -> Result<()> {
        self.enter_produced();
        self.field("],\"duration_s\":", Some(meta.duration_s));
        self.field(",\"max_entries\":", Some(meta.max_entries));
        self.field(",\"items_added\":", Some(meta.items_added));
        self.field(",\"items_duplicate\":", Some(meta.items_duplicate));
        self.raw("}");
        self.part = Part::Closed;
        Ok(())
    }

    fn array_meta(&mut self, _meta: &ArrayMeta) -> Result<()> {
        Ok(())
    }

    fn array_item(&mut self, index: u64, value: &[u8]) -> Result<()> {
        self.array_len = self.array_len.max(index.saturating_add(1));
        self.next();
        self.field("[", Some(index));
        self.raw(",");
        self.bytes_value(value)?;
        self.raw("]");
        self.flush_if_full()
    }

    fn vectorset_meta(&mut self, meta: &VectorsetMeta) -> Result<()> {
        self.field("{\"dim\":", Some(meta.dim));
        self.raw(",\"elements\":[");
        Ok(())
    }

    fn vectorset_element(&mut self, name: &[u8], attributes: Option<&[u8]>, _vector: &[u8]) -> Result<()> {
        self.next();
        self.raw("[");
        self.bytes_value(name)?;
        self.raw(",");
        match attributes {
            Some(attributes) => self.bytes_value(attributes)?,
            None => self.raw("null"),
        }
        self.raw("]");
        self.flush_if_full()
    }

    fn module(&mut self, module: &ModuleValue) -> Result<()> {
        self.raw("{\"module\":\"");
        self.raw(&module.id.name());
        self.raw("\"}");
        Ok(())
    }

    fn opaque(&mut self, rdb_type: u8, _bytes: u64) -> Result<()> {
        self.field("{\"module\":\"rdb-type-", Some(rdb_type));
        self.raw("\"}");
        Ok(())
    }
}
