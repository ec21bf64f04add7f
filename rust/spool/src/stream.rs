//! Streams on their way into a file: entries gather in nodes, groups until the layout is known.

use std::collections::{BTreeMap, BTreeSet};

use jobsleuth_formats::{
    StreamConsumer, StreamGroup, StreamId, StreamIdempotence, StreamMeta, StreamMeta7, StreamPending,
};

use crate::listpack::Listpack;
use crate::writer::length;

/// A node is closed when it holds this much, as servers do.
const NODE_BYTES: usize = 4096;
const NODE_ENTRIES: u32 = 100;

const SAME_FIELDS: i64 = 2;

/// The stream of the open entry.
#[derive(Default)]
pub(crate) struct Stream {
    node: Option<Node>,
    current: StreamId,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    entries: u64,
    first: Option<StreamId>,
    last: StreamId,
    pub nodes: u64,
    pub meta: Option<StreamMeta>,
    groups: Vec<Group>,
    produced: BTreeMap<Vec<u8>, Vec<(Vec<u8>, StreamId)>>,
    pub idempotence: Option<StreamIdempotence>,
}

struct Node {
    key: StreamId,
    names: Vec<Vec<u8>>,
    entries: Vec<Entry>,
    bytes: usize,
}

struct Entry {
    id: StreamId,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

struct Group {
    name: Vec<u8>,
    last_id: StreamId,
    entries_read: Option<i64>,
    pending: BTreeMap<StreamId, Pending>,
    consumers: Vec<Consumer>,
}

struct Pending {
    consumer: Option<Vec<u8>>,
    delivery_time_ms: i64,
    delivery_count: u64,
}

struct Consumer {
    name: Vec<u8>,
    seen_ms: i64,
    active_ms: Option<i64>,
}

/// What stands behind the nodes.
pub(crate) struct Tail {
    pub rdb_type: u8,
    pub bytes: Vec<u8>,
}

impl Stream {
    pub fn clear(&mut self) {
        *self = Stream::default();
    }

    pub fn begin(&mut self, id: StreamId) {
        self.current = id;
        self.fields.clear();
    }

    pub fn field(&mut self, field: &[u8], value: &[u8]) {
        self.fields.push((field.to_vec(), value.to_vec()));
    }

    /// Ends an entry; a node that is full.
    pub fn end(&mut self) -> Option<(StreamId, Vec<u8>)> {
        let id = self.current;
        self.entries += 1;
        self.first.get_or_insert(id);
        self.last = self.last.max(id);
        let fields = std::mem::take(&mut self.fields);
        let node = self.node.get_or_insert_with(|| Node {
            key: id,
            names: fields.iter().map(|(name, _)| name.clone()).collect(),
            entries: Vec::new(),
            bytes: 0,
        });
        node.bytes += 16 + fields.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        node.entries.push(Entry { id, fields });
        let full = node.bytes >= NODE_BYTES || node.entries.len() >= NODE_ENTRIES as usize;
        if full { self.take_node() } else { None }
    }

    /// The node in the making, as it is stored.
    pub fn take_node(&mut self) -> Option<(StreamId, Vec<u8>)> {
        let node = self.node.take()?;
        self.nodes += 1;
        Some((node.key, node.bytes()))
    }

    /// All that stands behind the nodes, in the oldest layout that holds it.
    pub fn tail(&mut self) -> Tail {
        let meta = self.meta.take();
        let unowned = self.groups.iter().any(|g| g.pending.values().any(|p| p.consumer.is_none()));
        let active = self.groups.iter().any(|g| g.consumers.iter().any(|c| c.active_ms.is_some()));
        let read = self.groups.iter().any(|g| g.entries_read.is_some());
        let version = if unowned || self.idempotence.is_some() || !self.produced.is_empty() {
            5
        } else if active {
            3
        } else if read || meta.as_ref().is_some_and(|m| m.since_7.is_some()) {
            2
        } else {
            1
        };
        let last_id = meta.as_ref().map_or(self.last, |m| m.last_id);
        let since_7 = meta.and_then(|m| m.since_7).unwrap_or(StreamMeta7 {
            first_id: self.first.unwrap_or_default(),
            max_deleted_id: StreamId::default(),
            entries_added: self.entries,
        });
        let mut out = Bytes::default();
        out.length(self.entries);
        out.id(last_id);
        if version >= 2 {
            out.id(since_7.first_id);
            out.id(since_7.max_deleted_id);
            out.length(since_7.entries_added);
        }
        out.length(self.groups.len() as u64);
        for group in self.groups.drain(..) {
            group.write(version, &mut out);
        }
        if version >= 5 {
            self.producers(&mut out);
        }
        let rdb_type = match version {
            1 => 15,
            2 => 19,
            3 => 21,
            _ => 27,
        };
        Tail { rdb_type, bytes: out.0 }
    }

    fn producers(&mut self, out: &mut Bytes) {
        let meta = self.idempotence.take();
        let number = |f: fn(&StreamIdempotence) -> u64| meta.as_ref().map_or(0, f);
        out.length(number(|m| m.duration_s));
        out.length(number(|m| m.max_entries));
        out.length(self.produced.len() as u64);
        for (producer, items) in std::mem::take(&mut self.produced) {
            out.string(&producer);
            out.length(items.len() as u64);
            for (item, id) in items {
                out.string(&item);
                out.id(id);
            }
        }
        out.length(number(|m| m.items_added));
        out.length(number(|m| m.items_duplicate));
    }

    pub fn group(&mut self, group: &StreamGroup<'_>) {
        self.groups.push(Group {
            name: group.name.to_vec(),
            last_id: group.last_id,
            entries_read: group.entries_read,
            pending: BTreeMap::new(),
            consumers: Vec::new(),
        });
    }

    pub fn pending(&mut self, pending: &StreamPending<'_>) {
        if let Some(group) = self.groups.last_mut() {
            let StreamPending { id, delivery_time_ms, delivery_count, .. } = *pending;
            let consumer = pending.consumer.map(<[u8]>::to_vec);
            group.pending.insert(id, Pending { consumer, delivery_time_ms, delivery_count });
        }
    }

    pub fn consumer(&mut self, consumer: &StreamConsumer<'_>) {
        if let Some(group) = self.groups.last_mut() {
            let StreamConsumer { seen_ms, active_ms, .. } = *consumer;
            group.consumers.push(Consumer { name: consumer.name.to_vec(), seen_ms, active_ms });
        }
    }

    pub fn produced(&mut self, producer: &[u8], item: &[u8], id: StreamId) {
        self.produced.entry(producer.to_vec()).or_default().push((item.to_vec(), id));
    }
}

impl Node {
    /// Entries in a listpack; those with the field names of the first don't repeat them.
    fn bytes(&self) -> Vec<u8> {
        let mut pack = Listpack::new();
        pack.int(self.entries.len() as i64);
        pack.int(0);
        pack.int(self.names.len() as i64);
        for name in &self.names {
            pack.text(name);
        }
        pack.int(0);
        for entry in &self.entries {
            let same = entry.fields.len() == self.names.len()
                && entry.fields.iter().zip(&self.names).all(|((name, _), known)| name == known);
            pack.int(if same { SAME_FIELDS } else { 0 });
            pack.int(entry.id.ms.wrapping_sub(self.key.ms).cast_signed());
            pack.int(entry.id.seq.wrapping_sub(self.key.seq).cast_signed());
            let n = entry.fields.len() as i64;
            if !same {
                pack.int(n);
            }
            for (name, value) in &entry.fields {
                if !same {
                    pack.text(name);
                }
                pack.text(value);
            }
            pack.int(if same { n + 3 } else { n * 2 + 4 });
        }
        pack.finish()
    }
}

impl Group {
    fn write(mut self, version: u8, out: &mut Bytes) {
        // Who owns something is a consumer, told or not.
        let mut known: BTreeMap<Vec<u8>, Vec<StreamId>> = BTreeMap::new();
        let mut unowned = Vec::new();
        for (&id, pending) in &self.pending {
            match &pending.consumer {
                Some(name) => known.entry(name.clone()).or_default().push(id),
                None => unowned.push(id),
            }
        }
        let mut names = BTreeSet::new();
        self.consumers.retain(|consumer| names.insert(consumer.name.clone()));
        let untold = known.keys().filter(|name| !names.contains(*name));
        self.consumers.extend(untold.map(|name| Consumer { name: name.clone(), seen_ms: 0, active_ms: None }));
        out.string(&self.name);
        out.id(self.last_id);
        if version >= 2 {
            out.length(self.entries_read.unwrap_or(-1).cast_unsigned());
        }
        out.length(self.pending.len() as u64);
        for (id, pending) in &self.pending {
            out.raw_id(*id);
            out.0.extend_from_slice(&pending.delivery_time_ms.to_le_bytes());
            out.length(pending.delivery_count);
        }
        out.length(self.consumers.len() as u64);
        for consumer in &self.consumers {
            out.string(&consumer.name);
            out.0.extend_from_slice(&consumer.seen_ms.to_le_bytes());
            if version >= 3 {
                out.0.extend_from_slice(&consumer.active_ms.unwrap_or(-1).to_le_bytes());
            }
            let owned = known.remove(&consumer.name).unwrap_or_default();
            out.length(owned.len() as u64);
            for id in owned {
                out.raw_id(id);
            }
        }
        if version >= 5 {
            out.length(unowned.len() as u64);
            for id in unowned {
                out.raw_id(id);
            }
        }
    }
}

#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn length(&mut self, n: u64) {
        let (bytes, used) = length(n);
        self.0.extend_from_slice(bytes.get(..used).unwrap_or_default());
    }

    fn string(&mut self, bytes: &[u8]) {
        self.length(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn id(&mut self, id: StreamId) {
        self.length(id.ms);
        self.length(id.seq);
    }

    fn raw_id(&mut self, id: StreamId) {
        self.0.extend_from_slice(&id.ms.to_be_bytes());
        self.0.extend_from_slice(&id.seq.to_be_bytes());
    }
}
