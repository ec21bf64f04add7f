//! Streams: nodes of entries, then consumer groups with what is pending, then idempotent producers.

use crate::context::Context;
use crate::decode::Budget;
use crate::encoding::listpack::Listpack;
use crate::encoding::{Entries, Entry};
use crate::error::{Error, Result};
use crate::input::Input;
use crate::kind::StreamVersion;
use crate::parse::{Blob, Reader, Scratch, Spot};
use crate::visit::{
    StreamConsumer, StreamGroup, StreamId, StreamIdempotence, StreamMeta, StreamMeta7, StreamPending, Visitor,
};

/// Which parts a layout version has.
pub(crate) const SINCE_COUNTERS: StreamVersion = 2;
pub(crate) const SINCE_ACTIVE_TIME: StreamVersion = 3;
pub(crate) const SINCE_PRODUCERS: StreamVersion = 4;
pub(crate) const SINCE_UNOWNED: StreamVersion = 5;

/// Fewest bytes that things in a stream take.
pub(crate) const MIN_NODE: u64 = 18;
pub(crate) const MIN_PENDING: u64 = 25;
pub(crate) const MIN_OWNED: u64 = 16;

pub(crate) fn min_consumer(version: StreamVersion) -> u64 {
    if version >= SINCE_ACTIVE_TIME { 18 } else { 10 }
}

pub(crate) fn decode<I: Input, V: Visitor>(
    ctx: &Context,
    r: &mut Reader<'_, I>,
    scratch: &mut Scratch,
    version: StreamVersion,
    v: &mut V,
) -> Result<()> {
    let mut budget = Budget::new(ctx, r.input.offset());
    let mut found = 0;
    for _ in 0..r.count(MIN_NODE)? {
        let at = r.input.offset();
        let key = r.string(scratch, |key| match key.first_chunk::<16>() {
            Some(&id) if key.len() == 16 => Ok(StreamId::from_be_bytes(id)),
            _ => Err(Error::corrupt(at, "a stream node whose key is not 16 bytes long")),
        })?;
        found += r.blob(scratch, |blob| node(key, blob, &mut budget, v))?;
    }
    let length = r.length()?;
    let last_id = id(r)?;
    let since_7 = if version >= SINCE_COUNTERS {
        Some(StreamMeta7 { first_id: id(r)?, max_deleted_id: id(r)?, entries_added: r.length()? })
    } else {
        None
    };
    v.stream_meta(&StreamMeta { length, found, last_id, since_7 })?;
    for _ in 0..r.count(5)? {
        group(r, scratch, version, &mut budget, v)?;
    }
    if version >= SINCE_PRODUCERS {
        producers(r, scratch, &mut budget, v)?;
    }
    Ok(())
}

fn id<I: Input>(r: &mut Reader<'_, I>) -> Result<StreamId> {
    Ok(StreamId { ms: r.length()?, seq: r.length()? })
}

fn raw_id<I: Input>(r: &mut Reader<'_, I>) -> Result<StreamId> {
    Ok(StreamId::from_be_bytes(r.input.array()?))
}

/// A listpack read by what must come next.
struct Cursor<'a> {
    blob: Blob<'a>,
    entries: Listpack<'a>,
}

impl<'a> Cursor<'a> {
    fn entry(&mut self) -> Result<Option<Entry<'a>>> {
        self.entries.next().map_err(|spot| self.blob.fault(spot))
    }

    fn must(&mut self) -> Result<Entry<'a>> {
        match self.entry()? {
            Some(entry) => Ok(entry),
            None => Err(self.fault("a stream node that ends in the middle of an entry")),
        }
    }

    fn number(&mut self) -> Result<i64> {
        match self.must()?.int() {
            Some(n) => Ok(n),
            None => Err(self.fault("text in a stream node where a number must stand")),
        }
    }

    fn count(&mut self) -> Result<u64> {
        match u64::try_from(self.number()?) {
            Ok(n) => Ok(n),
            Err(_) => Err(self.fault("a negative count in a stream node")),
        }
    }

    #[cold]
    fn fault(&self, what: &'static str) -> Error {
        self.blob.fault(Spot { at: self.entries.position(), what })
    }
}

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

/// The entries of one node; the number of live ones.
fn node<V: Visitor>(key: StreamId, blob: Blob<'_>, budget: &mut Budget, v: &mut V) -> Result<u64> {
    let entries = Listpack::new(blob.bytes).map_err(|spot| blob.fault(spot))?;
    let mut at = Cursor { blob, entries };
    let (_live, _deleted) = (at.count()?, at.count()?);
    let shared = at.count()?;
    let names = at.entries.clone();
    for _ in 0..shared {
        at.must()?;
    }
    if at.number()? != 0 {
        return Err(at.fault("a stream node whose head has no end"));
    }
    let mut digits = (itoa::Buffer::new(), itoa::Buffer::new());
    let mut found = 0;
    while let Some(flags) = at.entry()? {
        let flags = match flags.int() {
            Some(flags @ 0..=3) => flags,
            _ => return Err(at.fault("a stream entry with unknown flags")),
        };
        let id =
            StreamId { ms: key.ms.wrapping_add_signed(at.number()?), seq: key.seq.wrapping_add_signed(at.number()?) };
        let same = flags & SAME_FIELDS != 0;
        let deleted = flags & DELETED != 0;
        let fields = if same { shared } else { at.count()? };
        if deleted {
            v.stream_deleted_entry(id)?;
        } else {
            found += 1;
            v.stream_entry(id)?;
        }
        let mut names = Cursor { blob, entries: names.clone() };
        for _ in 0..fields {
            let name = if same { names.must()? } else { at.must()? };
            let value = at.must()?;
            if !deleted {
                let (name, value) = (name.bytes(&mut digits.0), value.bytes(&mut digits.1));
                budget.spend(name.len() + value.len(), blob.end)?;
                v.stream_field(name, value)?;
            }
        }
        let elements = if same { fields.checked_add(3) } else { fields.checked_mul(2).and_then(|n| n.checked_add(4)) };
        if Some(at.count()?) != elements {
            return Err(at.fault("a stream entry whose size is wrong on the way back"));
        }
        if !deleted {
            v.stream_entry_end()?;
        }
    }
    Ok(found)
}

struct Pending {
    id: StreamId,
    delivery_time_ms: i64,
    delivery_count: u64,
    owner: Option<usize>,
}

struct Consumer {
    name_end: usize,
    seen_ms: i64,
    active_ms: Option<i64>,
    pending: u64,
}

/// One consumer group. The file lists what is pending first and its owners later, so the list is held meanwhile;
/// it takes about twice its size in the file.
fn group<I: Input, V: Visitor>(
    r: &mut Reader<'_, I>,
    scratch: &mut Scratch,
    version: StreamVersion,
    budget: &mut Budget,
    v: &mut V,
) -> Result<()> {
    let mut name = Vec::new();
    r.string_into(scratch, &mut name)?;
    let last_id = id(r)?;
    let entries_read = if version >= SINCE_COUNTERS { Some(r.length()? as i64).filter(|&n| n != -1) } else { None };

    let mut pending = Vec::new();
    for _ in 0..r.count(MIN_PENDING)? {
        let id = raw_id(r)?;
        pending.push(Pending { id, delivery_time_ms: r.i64()?, delivery_count: r.length()?, owner: None });
    }
    pending.sort_by_key(|p| p.id);
    if pending.iter().zip(pending.iter().skip(1)).any(|(a, b)| a.id == b.id) {
        return Err(Error::corrupt(r.input.offset(), "a stream entry that is pending twice in a group"));
    }

    let mut names = Vec::new();
    let mut consumers = Vec::new();
    for _ in 0..r.count(min_consumer(version))? {
        let at = r.input.offset();
        let before = names.len();
        r.string_into(scratch, &mut names)?;
        budget.spend(names.len() - before, r.input.offset())?;
        let seen_ms = r.i64()?;
        let active_ms = if version >= SINCE_ACTIVE_TIME { Some(r.i64()?).filter(|&ms| ms != -1) } else { None };
        let owned = r.count(MIN_OWNED)?;
        for _ in 0..owned {
            own(&mut pending, raw_id(r)?, Some(consumers.len()), at)?;
        }
        consumers.push(Consumer { name_end: names.len(), seen_ms, active_ms, pending: owned });
    }
    if version >= SINCE_UNOWNED {
        let at = r.input.offset();
        for _ in 0..r.count(MIN_OWNED)? {
            own(&mut pending, raw_id(r)?, None, at)?;
        }
    }

    let name_of = |i: usize| {
        let start = i.checked_sub(1).and_then(|before| consumers.get(before)).map_or(0, |c| c.name_end);
        consumers.get(i).and_then(|c| names.get(start..c.name_end)).unwrap_or_default()
    };
    v.stream_group(&StreamGroup { name: &name, last_id, entries_read })?;
    for p in &pending {
        let consumer = p.owner.map(name_of);
        budget.spend(consumer.map_or(0, <[u8]>::len), r.input.offset())?;
        let Pending { id, delivery_time_ms, delivery_count, .. } = *p;
        v.stream_pending(&StreamPending { id, consumer, delivery_time_ms, delivery_count })?;
    }
    for (i, c) in consumers.iter().enumerate() {
        let Consumer { seen_ms, active_ms, pending, .. } = *c;
        v.stream_consumer(&StreamConsumer { name: name_of(i), seen_ms, active_ms, pending })?;
    }
    v.stream_group_end()
}

fn own(pending: &mut [Pending], id: StreamId, owner: Option<usize>, at: u64) -> Result<()> {
    let found = pending.binary_search_by_key(&id, |p| p.id).ok().and_then(|i| pending.get_mut(i));
    match found {
        None => Err(Error::corrupt(at, "a pending entry of a consumer that is not pending in its group")),
        Some(p) if p.owner.is_some() => Err(Error::corrupt(at, "a pending entry that two consumers own")),
        Some(p) => {
            p.owner = owner;
            Ok(())
        }
    }
}

fn producers<I: Input, V: Visitor>(
    r: &mut Reader<'_, I>,
    scratch: &mut Scratch,
    budget: &mut Budget,
    v: &mut V,
) -> Result<()> {
    let (duration_s, max_entries) = (r.length()?, r.length()?);
    let producers = r.count(2)?;
    let mut producer = Vec::new();
    for _ in 0..producers {
        producer.clear();
        r.string_into(scratch, &mut producer)?;
        for _ in 0..r.count(3)? {
            let mut item = Vec::new();
            r.string_into(scratch, &mut item)?;
            budget.spend(producer.len() + item.len(), r.input.offset())?;
            v.stream_produced(&producer, &item, id(r)?)?;
        }
    }
    let (items_added, items_duplicate) = (r.length()?, r.length()?);
    v.stream_idempotence(&StreamIdempotence { duration_s, max_entries, producers, items_added, items_duplicate })
}
