//! A value in memory from the pieces of a stored one.

use jobsleuth_formats::{
    ArrayMeta, Kind, ModuleValue, Result, StreamConsumer, StreamGroup, StreamId, StreamIdempotence, StreamMeta,
    StreamPending, VectorsetMeta, Visitor,
};

use crate::value::{Bytes, Consumer, Field, Group, Pending, Stream, Value, Zset};

/// Gathers the pieces of one value.
pub struct Builder {
    value: Value,
    path: Vec<u8>,
    entry: (StreamId, Vec<(Bytes, Bytes)>),
    group: (Bytes, Group),
}

impl Builder {
    pub fn new(kind: Kind) -> Self {
        let value = match kind {
            Kind::String => Value::String(Vec::new()),
            Kind::List => Value::List(Default::default()),
            Kind::Set => Value::Set(Default::default()),
            Kind::Zset => Value::Zset(Zset::default()),
            Kind::Hash => Value::Hash(Default::default()),
            Kind::Stream => Value::Stream(Box::default()),
            Kind::Array => Value::Array(Default::default()),
            Kind::Vectorset => Value::Vectorset(0, Default::default()),
            Kind::Module => Value::Opaque(0),
        };
        Builder { value, path: Vec::new(), entry: Default::default(), group: Default::default() }
    }

    pub fn finish(self) -> Value {
        self.value
    }

    fn stream(&mut self, f: impl FnOnce(&mut Stream)) {
        if let Value::Stream(stream) = &mut self.value {
            f(stream);
        }
    }
}

impl Visitor for Builder {
    fn string(&mut self, value: &[u8]) -> Result<()> {
        self.value = Value::String(value.to_vec());
        Ok(())
    }

    fn list_item(&mut self, value: &[u8]) -> Result<()> {
        if let Value::List(items) = &mut self.value {
            items.push_back(value.into());
        }
        Ok(())
    }

    fn set_member(&mut self, member: &[u8]) -> Result<()> {
        if let Value::Set(members) = &mut self.value {
            members.insert(member.into());
        }
        Ok(())
    }

    fn zset_member(&mut self, member: &[u8], score: f64) -> Result<()> {
        if let Value::Zset(zset) = &mut self.value {
            zset.set(member, score);
        }
        Ok(())
    }

    fn hash_field(&mut self, field: &[u8], value: &[u8], expire_at_ms: Option<i64>) -> Result<()> {
        if let Value::Hash(fields) = &mut self.value {
            let name = if self.path.is_empty() { field.into() } else { [&self.path, &b"."[..], field].concat().into() };
            fields.insert(name, Field { value: value.into(), expire_at_ms });
        }
        Ok(())
    }

    fn hash_path(&mut self, path: &[u8]) -> Result<()> {
        self.path = path.to_vec();
        Ok(())
    }

    fn stream_entry(&mut self, id: StreamId) -> Result<()> {
        self.entry = (id, Vec::new());
        Ok(())
    }

    fn stream_field(&mut self, field: &[u8], value: &[u8]) -> Result<()> {
        self.entry.1.push((field.into(), value.into()));
        Ok(())
    }

    fn stream_entry_end(&mut self) -> Result<()> {
        let (id, fields) = std::mem::take(&mut self.entry);
        self.stream(|stream| {
            stream.entries.insert(id, fields);
        });
        Ok(())
    }

    fn stream_meta(&mut self, meta: &StreamMeta) -> Result<()> {
        let added = meta.since_7.as_ref().map_or(meta.found, |m| m.entries_added);
        let max_deleted = meta.since_7.as_ref().map_or(StreamId::default(), |m| m.max_deleted_id);
        let last_id = meta.last_id;
        self.stream(|stream| {
            stream.last_id = last_id;
            stream.entries_added = added;
            stream.max_deleted_id = max_deleted;
        });
        Ok(())
    }

    fn stream_group(&mut self, group: &StreamGroup<'_>) -> Result<()> {
        let StreamGroup { last_id, entries_read, .. } = *group;
        self.group = (group.name.into(), Group { last_id, entries_read, ..Group::default() });
        Ok(())
    }

    fn stream_pending(&mut self, pending: &StreamPending<'_>) -> Result<()> {
        let StreamPending { id, delivery_time_ms, delivery_count, .. } = *pending;
        let consumer = pending.consumer.map(Bytes::from);
        self.group.1.pending.insert(id, Pending { consumer, delivery_time_ms, delivery_count });
        Ok(())
    }

    fn stream_consumer(&mut self, consumer: &StreamConsumer<'_>) -> Result<()> {
        let StreamConsumer { seen_ms, active_ms, .. } = *consumer;
        self.group.1.consumers.insert(consumer.name.into(), Consumer { seen_ms, active_ms });
        Ok(())
    }

    fn stream_group_end(&mut self) -> Result<()> {
        let (name, group) = std::mem::take(&mut self.group);
        self.stream(|stream| {
            stream.groups.insert(name, group);
        });
        Ok(())
    }

    fn stream_produced(&mut self, producer: &[u8], item: &[u8], id: StreamId) -> Result<()> {
        self.stream(|stream| stream.produced.push((producer.into(), item.into(), id)));
        Ok(())
    }

    fn stream_idempotence(&mut self, meta: &StreamIdempotence) -> Result<()> {
        self.stream(|stream| stream.idempotence = Some(meta.clone()));
        Ok(())
    }

    fn array_meta(&mut self, _meta: &ArrayMeta) -> Result<()> {
        Ok(())
    }

    fn array_item(&mut self, index: u64, value: &[u8]) -> Result<()> {
        if let Value::Array(items) = &mut self.value {
            items.insert(index, value.into());
        }
        Ok(())
    }

    fn vectorset_meta(&mut self, meta: &VectorsetMeta) -> Result<()> {
        if let Value::Vectorset(dim, _) = &mut self.value {
            *dim = meta.dim;
        }
        Ok(())
    }

    fn vectorset_element(&mut self, name: &[u8], attributes: Option<&[u8]>, _vector: &[u8]) -> Result<()> {
        if let Value::Vectorset(_, elements) = &mut self.value {
            elements.insert(name.into(), attributes.map(Bytes::from));
        }
        Ok(())
    }

    fn module(&mut self, module: &ModuleValue) -> Result<()> {
        self.value = Value::Module(module.id);
        Ok(())
    }

    fn opaque(&mut self, rdb_type: u8, _bytes: u64) -> Result<()> {
        self.value = Value::Opaque(rdb_type);
        Ok(())
    }
}
