//! A value in memory on its way into a snapshot.

use std::collections::BTreeMap;
use std::io::{Seek, Write};

use jobsleuth_formats::{
    ArrayMeta, ModuleValue, Result, StreamConsumer, StreamGroup, StreamMeta, StreamMeta7, StreamPending, VectorsetMeta,
    Visitor,
};
use jobsleuth_spool::{Form, Writer};

use crate::build::Builder;
use crate::space::Space;
use crate::value::{Group, Stream, Value};

/// Writes every key, database by database, in the order of their names.
///
/// # Errors
/// Those of writing.
pub fn save_space<W: Write + Seek>(space: &Space, writer: &mut Writer<W>) -> Result<()> {
    for db in space.databases() {
        for key in space.keys(db) {
            if let Some(entry) = space.get(db, &key) {
                save(writer, db, &key, &entry.value, entry.expire_at_ms)?;
            }
        }
    }
    Ok(())
}

/// Writes every key that ever was: those that are there as they are, those that are gone with their last value where it
/// was kept, else with an empty one.
///
/// # Errors
/// Those of writing.
pub fn save_history<W: Write + Seek>(space: &Space, writer: &mut Writer<W>) -> Result<()> {
    save_space(space, writer)?;
    let mut gone: Vec<_> = space.graves().iter().filter(|(db, key, ..)| !space.contains(*db, key)).collect();
    gone.sort_by_key(|&(db, key, ..)| (db, key));
    for (db, key, kind, value) in gone {
        match value {
            Some(value) => save(writer, db, key, value, None)?,
            None => save(writer, db, key, &Builder::new(kind).finish(), None)?,
        }
    }
    Ok(())
}

/// Writes a key.
fn save<W: Write + Seek>(
    writer: &mut Writer<W>,
    db: u64,
    key: &[u8],
    value: &Value,
    expire_at_ms: Option<i64>,
) -> Result<()> {
    let timed = matches!(value, Value::Hash(fields) if fields.values().any(|field| field.expire_at_ms.is_some()));
    let form = if timed { Form::TimedHash } else { Form::Plain(value.kind()) };
    writer.open(db, key, expire_at_ms, form)?;
    tell(value, writer)?;
    writer.close().map(drop)
}

fn tell<V: Visitor>(value: &Value, v: &mut V) -> Result<()> {
    match value {
        Value::String(bytes) => v.string(bytes),
        Value::List(items) => items.iter().try_for_each(|item| v.list_item(item)),
        Value::Set(members) => members.iter().try_for_each(|member| v.set_member(member)),
        Value::Zset(zset) => zset.iter().try_for_each(|(member, score)| v.zset_member(member, score)),
        Value::Hash(fields) => {
            fields.iter().try_for_each(|(name, field)| v.hash_field(name, &field.value, field.expire_at_ms))
        }
        Value::Stream(stream) => tell_stream(stream, v),
        Value::Array(items) => {
            v.array_meta(&ArrayMeta { count: items.len() as u64, insert_index: None })?;
            items.iter().try_for_each(|(&index, item)| v.array_item(index, item))
        }
        Value::Vectorset(dim, elements) => {
            let count = elements.len() as u64;
            let (dim, quantisation, original_dim) = (*dim, 0, None);
            v.vectorset_meta(&VectorsetMeta { dim, count, quantisation, original_dim, has_attributes: true })?;
            elements.iter().try_for_each(|(name, attributes)| v.vectorset_element(name, attributes.as_deref(), b""))
        }
        Value::Module(id) => v.module(&ModuleValue { id: *id, items: 0, bytes: 0 }),
        Value::Opaque(rdb_type) => v.opaque(*rdb_type, 0),
    }
}

fn tell_stream<V: Visitor>(stream: &Stream, v: &mut V) -> Result<()> {
    for (&id, fields) in &stream.entries {
        v.stream_entry(id)?;
        fields.iter().try_for_each(|(field, value)| v.stream_field(field, value))?;
        v.stream_entry_end()?;
    }
    let found = stream.entries.len() as u64;
    v.stream_meta(&StreamMeta {
        length: found,
        found,
        last_id: stream.last_id,
        since_7: Some(StreamMeta7 {
            first_id: stream.entries.keys().next().copied().unwrap_or_default(),
            max_deleted_id: stream.max_deleted_id,
            entries_added: stream.entries_added,
        }),
    })?;
    stream.groups.iter().try_for_each(|(name, group)| tell_group(name, group, v))?;
    for (producer, item, id) in &stream.produced {
        v.stream_produced(producer, item, *id)?;
    }
    match &stream.idempotence {
        Some(meta) => v.stream_idempotence(meta),
        None => Ok(()),
    }
}

fn tell_group<V: Visitor>(name: &[u8], group: &Group, v: &mut V) -> Result<()> {
    v.stream_group(&StreamGroup { name, last_id: group.last_id, entries_read: group.entries_read })?;
    for (&id, pending) in &group.pending {
        let consumer = pending.consumer.as_deref();
        let (delivery_time_ms, delivery_count) = (pending.delivery_time_ms, pending.delivery_count);
        v.stream_pending(&StreamPending { id, consumer, delivery_time_ms, delivery_count })?;
    }
    let mut owned: BTreeMap<&[u8], u64> = BTreeMap::new();
    for name in group.pending.values().filter_map(|pending| pending.consumer.as_deref()) {
        *owned.entry(name).or_default() += 1;
    }
    for (name, consumer) in &group.consumers {
        let owned = owned.get(&**name).copied().unwrap_or(0);
        let (seen_ms, active_ms) = (consumer.seen_ms, consumer.active_ms);
        v.stream_consumer(&StreamConsumer { name, seen_ms, active_ms, pending: owned })?;
    }
    v.stream_group_end()
}
