//! Values of keyspace NDJSON, handed over piece by piece.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jobsleuth_formats::{
    ArrayMeta, Error, Input, Kind, ModuleValue, Result, StreamConsumer, StreamGroup, StreamId, StreamIdempotence,
    StreamMeta, StreamMeta7, StreamPending, VectorsetMeta, Visitor,
};

use crate::json::{Json, Token};
use crate::names::module_named;

/// Buffers that are used again.
#[derive(Default)]
pub(crate) struct Values {
    first: Vec<u8>,
    second: Vec<u8>,
    third: Vec<u8>,
    name: Vec<u8>,
}

/// A byte string: text, or base64 in an object.
pub(crate) fn bytes<I: Input>(json: &mut Json<I>, out: &mut Vec<u8>) -> Result<()> {
    if json.token()? == Token::String {
        return json.string(out);
    }
    let mut text = Vec::new();
    json.expect(b'{', "a string is wanted here")?;
    json.name(&mut text)?;
    if text != b"b64" {
        return Err(json.fault("an object where a string or its b64 is wanted"));
    }
    base64(json, &mut text, out)?;
    json.expect(b'}', "an object that should have ended")
}

/// A string of base64, decoded.
pub(crate) fn base64<I: Input>(json: &mut Json<I>, text: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<()> {
    let at = json.input.offset();
    json.string(text)?;
    out.clear();
    STANDARD.decode_vec(&*text, out).map_err(|_| Error::corrupt(at, "text that is not base64"))
}

/// Id of a stream entry as text.
pub(crate) fn id<I: Input>(json: &mut Json<I>, text: &mut Vec<u8>) -> Result<StreamId> {
    let at = json.input.offset();
    json.string(text)?;
    parse_id(text).ok_or_else(|| Error::corrupt(at, "no id of a stream entry"))
}

pub(crate) fn parse_id(text: &[u8]) -> Option<StreamId> {
    let (ms, seq) = std::str::from_utf8(text).ok()?.split_once('-')?;
    Some(StreamId { ms: ms.parse().ok()?, seq: seq.parse().ok()? })
}

pub(crate) fn parse_score(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

impl Values {
    /// Reads a value of the kind.
    pub fn read<I: Input, V: Visitor>(&mut self, json: &mut Json<I>, kind: Kind, v: &mut V) -> Result<()> {
        match kind {
            Kind::String => {
                bytes(json, &mut self.first)?;
                v.string(&self.first)
            }
            Kind::List => self.each(json, |this, json| {
                bytes(json, &mut this.first)?;
                v.list_item(&this.first)
            }),
            Kind::Set => self.each(json, |this, json| {
                bytes(json, &mut this.first)?;
                v.set_member(&this.first)
            }),
            Kind::Zset => self.each(json, |this, json| this.scored(json, v)),
            Kind::Hash => self.each(json, |this, json| this.field(json, v)),
            Kind::Stream => self.stream(json, v),
            Kind::Array => self.array(json, v),
            Kind::Vectorset => self.vectorset(json, v),
            Kind::Module => self.module(json, v),
        }
    }

    fn each<I: Input>(
        &mut self,
        json: &mut Json<I>,
        mut f: impl FnMut(&mut Self, &mut Json<I>) -> Result<()>,
    ) -> Result<()> {
        json.expect(b'[', "an array is wanted here")?;
        let mut first = true;
        while json.more(&mut first, b']')? {
            f(self, json)?;
        }
        Ok(())
    }

    /// The members of an object; `f` gets their names and reads their values.
    fn members<I: Input>(
        &mut self,
        json: &mut Json<I>,
        mut f: impl FnMut(&mut Self, &mut Json<I>, &[u8]) -> Result<()>,
    ) -> Result<()> {
        json.expect(b'{', "an object is wanted here")?;
        let mut first = true;
        while json.more(&mut first, b'}')? {
            let mut name = std::mem::take(&mut self.name);
            json.name(&mut name)?;
            let outcome = f(self, json, &name);
            self.name = name;
            outcome?;
        }
        Ok(())
    }

    fn scored<I: Input, V: Visitor>(&mut self, json: &mut Json<I>, v: &mut V) -> Result<()> {
        json.expect(b'[', "a member and its score are wanted here")?;
        bytes(json, &mut self.first)?;
        json.expect(b',', "a score is missing")?;
        json.peek()?;
        let at = json.input.offset();
        if json.token()? == Token::String {
            json.string(&mut self.second)?
        } else {
            json.number(&mut self.second)?
        };
        let Some(score) = parse_score(&self.second) else {
            return Err(Error::corrupt(at, "a score that is no number"));
        };
        json.expect(b']', "a member and its score that should have ended")?;
        v.zset_member(&self.first, score)
    }

    fn field<I: Input, V: Visitor>(&mut self, json: &mut Json<I>, v: &mut V) -> Result<()> {
        json.expect(b'[', "a field and its value are wanted here")?;
        bytes(json, &mut self.first)?;
        json.expect(b',', "a value is missing")?;
        bytes(json, &mut self.second)?;
        let mut expire_at_ms = None;
        if json.accept(b',')? {
            expire_at_ms = json.int_or_null()?;
            if json.accept(b',')? {
                bytes(json, &mut self.third)?;
                v.hash_path(&self.third)?;
            }
        }
        json.expect(b']', "a field that should have ended")?;
        v.hash_field(&self.first, &self.second, expire_at_ms)
    }

    fn stream<I: Input, V: Visitor>(&mut self, json: &mut Json<I>, v: &mut V) -> Result<()> {
        let mut found = 0;
        let mut last_id = StreamId::default();
        let mut first_id = None;
        let mut entries_added = None;
        let mut max_deleted_id = None;
        self.members(json, |this, json, name| match name {
            b"entries" => this.each(json, |this, json| {
                found += 1;
                let id = this.entry(json, &mut last_id, v)?;
                first_id.get_or_insert(id);
                Ok(())
            }),
            b"last_id" => {
                last_id = id(json, &mut this.first)?;
                Ok(())
            }
            b"entries_added" => {
                entries_added = json.int_or_null()?;
                Ok(())
            }
            b"max_deleted_id" => {
                max_deleted_id = if json.token()? == Token::Null {
                    json.literal(b"null")?;
                    None
                } else {
                    Some(id(json, &mut this.first)?)
                };
                Ok(())
            }
            b"groups" => this.each(json, |this, json| this.group(json, v)),
            b"idempotence" => this.idempotence(json, v),
            _ => json.skip(),
        })?;
        let since_7 = entries_added.map(|entries_added| StreamMeta7 {
            first_id: first_id.unwrap_or_default(),
            max_deleted_id: max_deleted_id.unwrap_or_default(),
            entries_added,
        });
        v.stream_meta(&StreamMeta { length: found, found, last_id, since_7 })
    }

    /// Reads an entry; its id.
    fn entry<I: Input, V: Visitor>(
        &mut self,
        json: &mut Json<I>,
        last_id: &mut StreamId,
        v: &mut V,
    ) -> Result<StreamId> {
        json.expect(b'[', "an entry is wanted here")?;
        let id = id(json, &mut self.first)?;
        *last_id = id.max(*last_id);
        v.stream_entry(id)?;
        json.expect(b',', "the fields of an entry are missing")?;
        self.each(json, |this, json| {
            json.expect(b'[', "a field and its value are wanted here")?;
            bytes(json, &mut this.first)?;
            json.expect(b',', "a value is missing")?;
            bytes(json, &mut this.second)?;
            json.expect(b']', "a field that should have ended")?;
            v.stream_field(&this.first, &this.second)
        })?;
        json.expect(b']', "an entry that should have ended")?;
        v.stream_entry_end()?;
        Ok(id)
    }

    fn group<I: Input, V: Visitor>(&mut self, json: &mut Json<I>, v: &mut V) -> Result<()> {
        let mut group_name = Vec::new();
        let mut last_id = StreamId::default();
        let mut entries_read = None;
        let mut pending = Vec::new();
        let mut consumers = Vec::new();
        self.members(json, |this, json, name| match name {
            b"name" => bytes(json, &mut group_name),
            b"last_id" => {
                last_id = id(json, &mut this.first)?;
                Ok(())
            }
            b"entries_read" => {
                entries_read = json.int_or_null()?;
                Ok(())
            }
            b"pending" => this.each(json, |this, json| {
                pending.push(this.pending(json)?);
                Ok(())
            }),
            b"consumers" => this.each(json, |_, json| {
                json.expect(b'[', "a consumer is wanted here")?;
                let mut name = Vec::new();
                bytes(json, &mut name)?;
                json.expect(b',', "the time of a consumer is missing")?;
                let seen_ms = json.int_or_null()?.unwrap_or(0);
                let active_ms = if json.accept(b',')? { json.int_or_null()? } else { None };
                json.expect(b']', "a consumer that should have ended")?;
                consumers.push((name, seen_ms, active_ms));
                Ok(())
            }),
            _ => json.skip(),
        })?;
        v.stream_group(&StreamGroup { name: &group_name, last_id, entries_read })?;
        let mut owned = std::collections::HashMap::<&[u8], u64>::new();
        for (id, consumer, delivery_time_ms, delivery_count) in &pending {
            let (delivery_time_ms, delivery_count) = (*delivery_time_ms, *delivery_count);
            if let Some(name) = consumer {
                *owned.entry(name).or_default() += 1;
            }
            v.stream_pending(&StreamPending {
                id: *id,
                consumer: consumer.as_deref(),
                delivery_time_ms,
                delivery_count,
            })?;
        }
        for (name, seen_ms, active_ms) in &consumers {
            let pending = owned.get(name.as_slice()).copied().unwrap_or(0);
            v.stream_consumer(&StreamConsumer { name, seen_ms: *seen_ms, active_ms: *active_ms, pending })?;
        }
        v.stream_group_end()
    }

    fn pending<I: Input>(&mut self, json: &mut Json<I>) -> Result<(StreamId, Option<Vec<u8>>, i64, u64)> {
        json.expect(b'[', "a pending entry is wanted here")?;
        let id = id(json, &mut self.first)?;
        json.expect(b',', "the consumer of a pending entry is missing")?;
        let consumer = if json.token()? == Token::Null {
            json.literal(b"null")?;
            None
        } else {
            let mut name = Vec::new();
            bytes(json, &mut name)?;
            Some(name)
        };
        json.expect(b',', "the time of a pending entry is missing")?;
        let delivery_time_ms = json.int()?;
        json.expect(b',', "the count of a pending entry is missing")?;
        let delivery_count = json.int()?;
        json.expect(b']', "a pending entry that should have ended")?;
        Ok((id, consumer, delivery_time_ms, delivery_count))
    }

    fn idempotence<I: Input, V: Visitor>(&mut self, json: &mut Json<I>, v: &mut V) -> Result<()> {
        let mut meta =
            StreamIdempotence { duration_s: 0, max_entries: 0, producers: 0, items_added: 0, items_duplicate: 0 };
        self.members(json, |this, json, name| {
            match name {
                b"items" => {
                    return this.each(json, |this, json| {
                        json.expect(b'[', "a produced item is wanted here")?;
                        bytes(json, &mut this.first)?;
                        json.expect(b',', "the item of a producer is missing")?;
                        bytes(json, &mut this.second)?;
                        json.expect(b',', "the entry of an item is missing")?;
                        let id = id(json, &mut this.third)?;
                        json.expect(b']', "a produced item that should have ended")?;
                        v.stream_produced(&this.first, &this.second, id)
                    });
                }
                b"duration_s" => meta.duration_s = json.int()?,
                b"max_entries" => meta.max_entries = json.int()?,
                b"items_added" => meta.items_added = json.int()?,
                b"items_duplicate" => meta.items_duplicate = json.int()?,
                _ => json.skip()?,
            }
            Ok(())
        })?;
        v.stream_idempotence(&meta)
    }

    fn array<I: Input, V: Visitor>(&mut self, json: &mut Json<I>, v: &mut V) -> Result<()> {
        v.array_meta(&ArrayMeta { count: 0, insert_index: None })?;
        self.members(json, |this, json, name| match name {
            b"items" => this.each(json, |this, json| {
                json.expect(b'[', "an index and its item are wanted here")?;
                let index = json.int()?;
                json.expect(b',', "an item is missing")?;
                bytes(json, &mut this.first)?;
                json.expect(b']', "an item that should have ended")?;
                v.array_item(index, &this.first)
            }),
            _ => json.skip(),
        })
    }

    fn vectorset<I: Input, V: Visitor>(&mut self, json: &mut Json<I>, v: &mut V) -> Result<()> {
        let mut begun = false;
        let meta = |dim| VectorsetMeta { dim, count: 0, quantisation: 0, original_dim: None, has_attributes: true };
        self.members(json, |this, json, name| match name {
            b"dim" if !begun => {
                begun = true;
                v.vectorset_meta(&meta(json.int()?))
            }
            b"elements" => {
                if !begun {
                    begun = true;
                    v.vectorset_meta(&meta(0))?;
                }
                this.each(json, |this, json| {
                    json.expect(b'[', "an element is wanted here")?;
                    bytes(json, &mut this.first)?;
                    json.expect(b',', "the attributes of an element are missing")?;
                    let some = json.token()? != Token::Null;
                    if some {
                        bytes(json, &mut this.second)?
                    } else {
                        json.literal(b"null")?
                    };
                    json.expect(b']', "an element that should have ended")?;
                    v.vectorset_element(&this.first, some.then_some(&this.second), b"")
                })
            }
            _ => json.skip(),
        })
    }

    fn module<I: Input, V: Visitor>(&mut self, json: &mut Json<I>, v: &mut V) -> Result<()> {
        let mut told = false;
        self.members(json, |this, json, name| match name {
            b"module" if !told => {
                told = true;
                bytes(json, &mut this.first)?;
                match (module_named(&this.first), this.first.as_slice()) {
                    (Some(id), _) => v.module(&ModuleValue { id, items: 0, bytes: 0 }),
                    (None, b"rdb-type-64") => v.opaque(64, 0),
                    (None, _) => v.opaque(33, 0),
                }
            }
            _ => json.skip(),
        })
    }
}
