//! Streams.

use std::ops::Bound;

use jobsleuth_formats::StreamId;

use crate::call::Call;
use crate::resp::number;
use crate::space::{Outcome, Refused};
use crate::value::{Bytes, Consumer, Group, Pending, Stream};

fn id(text: &[u8], seq: u64) -> Result<StreamId, Refused> {
    let mut parts = text.splitn(2, |&b| b == b'-');
    let ms = number(parts.next().unwrap_or_default()).ok_or(Refused::Arguments)?;
    let seq = match parts.next() {
        Some(digits) => number(digits).ok_or(Refused::Arguments)?,
        None => seq,
    };
    Ok(StreamId { ms, seq })
}

/// How a stream is cut.
#[derive(Clone, Copy)]
enum Cut {
    Length(u64),
    Before(StreamId),
}

/// What becomes of an entry that groups still refer to, from Redis 8.2 on.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Rule {
    /// It goes, and they refer to nothing.
    #[default]
    Keep,
    /// It goes, and so do the references.
    Delete,
    /// It stays until all groups have read and acknowledged it.
    Acknowledged,
}

impl Rule {
    fn of(word: &[u8]) -> Option<Rule> {
        match word {
            b"KEEPREF" => Some(Rule::Keep),
            b"DELREF" => Some(Rule::Delete),
            b"ACKED" => Some(Rule::Acknowledged),
            _ => None,
        }
    }

    /// Whether the entry goes; its references are gone then, if that is the rule.
    fn lets_go(self, stream: &mut Stream, id: StreamId) -> bool {
        match self {
            Rule::Keep => {}
            Rule::Delete => {
                for group in stream.groups.values_mut() {
                    group.pending.remove(&id);
                }
            }
            Rule::Acknowledged => {
                let wanted = |group: &Group| group.pending.contains_key(&id) || group.last_id < id;
                return !stream.groups.values().any(wanted);
            }
        }
        true
    }
}

/// Options of XADD and XTRIM from an argument on.
#[derive(Default)]
struct Wish {
    cut: Option<Cut>,
    rule: Rule,
    /// No new stream is wanted.
    only_known: bool,
    /// Where what follows begins.
    end: usize,
}

fn wish(c: &Call<'_>, mut i: usize) -> Result<Wish, Refused> {
    let mut wish = Wish::default();
    while let Some(word) = c.word(i) {
        match word.as_slice() {
            b"NOMKSTREAM" => wish.only_known = true,
            b"MAXLEN" | b"MINID" => {
                i += 1;
                // Where the length is about right only, the file says what came of it.
                if matches!(c.arg(i)?, b"=" | b"~") {
                    i += 1;
                }
                let bound = c.arg(i)?;
                wish.cut = Some(if word == b"MAXLEN" {
                    Cut::Length(number(bound).ok_or(Refused::Number)?)
                } else {
                    Cut::Before(id(bound, 0)?)
                });
            }
            // Redis 8.6: by whom, and as what, so that nothing is added twice. What was not added is not in the file.
            b"LIMIT" | b"IDMPAUTO" => i += 1,
            b"IDMP" => i += 2,
            _ => match Rule::of(&word) {
                Some(rule) => wish.rule = rule,
                None => break,
            },
        }
        i += 1;
    }
    wish.end = i;
    Ok(wish)
}

fn trim(stream: &mut Stream, cut: Cut, rule: Rule) {
    let mut from = Bound::Unbounded;
    // From the oldest on, past those that stay.
    while let Some((&id, _)) = stream.entries.range((from, Bound::Unbounded)).next() {
        let enough = match cut {
            Cut::Length(most) => stream.entries.len() as u64 <= most,
            Cut::Before(first) => id >= first,
        };
        if enough {
            break;
        }
        if rule.lets_go(stream, id) {
            stream.entries.remove(&id);
        }
        from = Bound::Excluded(id);
    }
}

pub fn xadd(c: &mut Call<'_>) -> Outcome {
    let key = c.arg(1)?;
    let wish = wish(c, 2)?;
    let new = id(c.arg(wish.end)?, 0)?;
    let fields: Vec<&[u8]> = c.args.from(wish.end + 1).collect();
    if fields.is_empty() || !fields.len().is_multiple_of(2) {
        return Err(Refused::Arguments);
    }
    if wish.only_known && c.space.stream(c.db, key)?.is_none() {
        return Ok(());
    }
    if new <= c.space.stream(c.db, key)?.map_or(StreamId::default(), |stream| stream.last_id) {
        return Err(Refused::Arguments);
    }
    let stream = c.space.stream_or_new(c.db, key)?;
    let pairs = fields.chunks(2).map(|pair| {
        let at = |i: usize| Bytes::from(pair.get(i).copied().unwrap_or_default());
        (at(0), at(1))
    });
    stream.entries.insert(new, pairs.collect());
    stream.last_id = new;
    stream.entries_added = stream.entries_added.saturating_add(1);
    if let Some(cut) = wish.cut {
        trim(stream, cut, wish.rule);
    }
    Ok(())
}

pub fn xtrim(c: &mut Call<'_>) -> Outcome {
    let key = c.arg(1)?;
    let wish = wish(c, 2)?;
    if let (Some(stream), Some(cut)) = (c.space.stream(c.db, key)?, wish.cut) {
        trim(stream, cut, wish.rule);
    }
    Ok(())
}

fn delete(stream: &mut Stream, id: StreamId) {
    if stream.entries.remove(&id).is_some() {
        stream.max_deleted_id = stream.max_deleted_id.max(id);
    }
}

pub fn xdel(c: &mut Call<'_>) -> Outcome {
    let key = c.arg(1)?;
    let ids: Vec<StreamId> = c.args.from(2).map(|text| id(text, 0)).collect::<Result<_, _>>()?;
    if let Some(stream) = c.space.stream(c.db, key)? {
        for id in ids {
            delete(stream, id);
        }
    }
    Ok(())
}

/// What becomes of references in groups when an entry goes, and what stands behind IDS.
fn delete_wish(c: &Call<'_>, mut i: usize) -> Result<(Rule, Vec<StreamId>), Refused> {
    let mut rule = Rule::default();
    while let Some(word) = c.word(i) {
        if word == b"IDS" {
            let (ids, _) = c.keys(i + 1)?;
            return Ok((rule, ids.into_iter().map(|text| id(text, 0)).collect::<Result<_, _>>()?));
        }
        rule = Rule::of(&word).ok_or(Refused::Arguments)?;
        i += 1;
    }
    Err(Refused::Arguments)
}

fn delete_by(stream: &mut Stream, rule: Rule, id: StreamId) {
    if rule.lets_go(stream, id) {
        delete(stream, id);
    }
}

/// Redis 8.2.
pub fn xdelex(c: &mut Call<'_>) -> Outcome {
    let key = c.arg(1)?;
    let (rule, ids) = delete_wish(c, 2)?;
    if let Some(stream) = c.space.stream(c.db, key)? {
        for id in ids {
            delete_by(stream, rule, id);
        }
    }
    Ok(())
}

/// Redis 8.2.
pub fn xackdel(c: &mut Call<'_>) -> Outcome {
    let (key, group) = (c.arg(1)?, c.arg(2)?);
    let (rule, ids) = delete_wish(c, 3)?;
    if let Some(stream) = c.space.stream(c.db, key)? {
        for id in ids {
            let acknowledged = stream.groups.get_mut(group).and_then(|group| group.pending.remove(&id)).is_some();
            if acknowledged {
                delete_by(stream, rule, id);
            }
        }
    }
    Ok(())
}

pub fn xsetid(c: &mut Call<'_>) -> Outcome {
    let (key, last) = (c.arg(1)?, id(c.arg(2)?, 0)?);
    let (mut added, mut deleted) = (None, None);
    let mut i = 3;
    while let Some(word) = c.word(i) {
        match word.as_slice() {
            b"ENTRIESADDED" => added = Some(number(c.arg(i + 1)?).ok_or(Refused::Number)?),
            b"MAXDELETEDID" => deleted = Some(id(c.arg(i + 1)?, 0)?),
            _ => return Err(Refused::Arguments),
        }
        i += 2;
    }
    let stream = c.space.stream(c.db, key)?.ok_or(Refused::Missing)?;
    stream.last_id = last;
    stream.entries_added = added.unwrap_or(stream.entries_added);
    stream.max_deleted_id = deleted.unwrap_or(stream.max_deleted_id);
    Ok(())
}

pub fn xgroup(c: &mut Call<'_>) -> Outcome {
    let word = c.word(1).unwrap_or_default();
    let (key, name) = (c.arg(2)?, c.arg(3)?);
    match word.as_slice() {
        b"CREATE" => {
            let make = c.args.from(5).any(|word| word.eq_ignore_ascii_case(b"MKSTREAM"));
            if c.space.stream(c.db, key)?.is_none() && !make {
                return Err(Refused::Missing);
            }
            let read = entries_read(c, 5)?;
            let at = c.arg(4)?;
            let stream = c.space.stream_or_new(c.db, key)?;
            let last_id = if at == b"$" { stream.last_id } else { id(at, 0)? };
            if stream.groups.contains_key(name) {
                return Err(Refused::Missing);
            }
            stream.groups.insert(name.into(), Group { last_id, entries_read: read, ..Group::default() });
            Ok(())
        }
        b"SETID" => {
            let read = entries_read(c, 5)?;
            let at = c.arg(4)?;
            let stream = c.space.stream(c.db, key)?.ok_or(Refused::Missing)?;
            let last_id = if at == b"$" { stream.last_id } else { id(at, 0)? };
            let group = stream.groups.get_mut(name).ok_or(Refused::Missing)?;
            (group.last_id, group.entries_read) = (last_id, read);
            Ok(())
        }
        b"DESTROY" => {
            if let Some(stream) = c.space.stream(c.db, key)? {
                stream.groups.remove(name);
            }
            Ok(())
        }
        b"CREATECONSUMER" => {
            let consumer = c.arg(4)?;
            let seen_ms = c.now_ms.unwrap_or(0);
            let group = group(c, key, name)?.ok_or(Refused::Missing)?;
            group.consumers.entry(consumer.into()).or_insert(Consumer { seen_ms, active_ms: None });
            Ok(())
        }
        b"DELCONSUMER" => {
            let consumer = c.arg(4)?;
            let group = group(c, key, name)?.ok_or(Refused::Missing)?;
            group.consumers.remove(consumer);
            group.pending.retain(|_, pending| pending.consumer.as_deref() != Some(consumer));
            Ok(())
        }
        _ => Err(Refused::Arguments),
    }
}

fn entries_read(c: &Call<'_>, from: usize) -> Result<Option<i64>, Refused> {
    let at = c.args.from(from).position(|word| word.eq_ignore_ascii_case(b"ENTRIESREAD"));
    match at {
        None => Ok(None),
        Some(at) => Ok(Some(c.int(from + at + 1)?).filter(|&n| n != -1)),
    }
}

fn group<'s>(c: &'s mut Call<'_>, key: &[u8], name: &[u8]) -> Result<Option<&'s mut Group>, Refused> {
    Ok(c.space.stream(c.db, key)?.and_then(|stream| stream.groups.get_mut(name)))
}

pub fn xack(c: &mut Call<'_>) -> Outcome {
    let (key, name) = (c.arg(1)?, c.arg(2)?);
    let ids: Vec<StreamId> = c.args.from(3).map(|text| id(text, 0)).collect::<Result<_, _>>()?;
    if let Some(group) = group(c, key, name)? {
        for id in ids {
            group.pending.remove(&id);
        }
    }
    Ok(())
}

/// In this form servers write down every delivery.
pub fn xclaim(c: &mut Call<'_>) -> Outcome {
    let (key, name, consumer) = (c.arg(1)?, c.arg(2)?, c.arg(3)?);
    c.int(4)?;
    let mut ids = Vec::new();
    let mut i = 5;
    while let Some(Ok(id)) = c.args.get(i).map(|text| id(text, 0)) {
        ids.push(id);
        i += 1;
    }
    let (mut time, mut count, mut force, mut just_id, mut last_id) = (None, None, false, false, None);
    while let Some(word) = c.word(i) {
        match word.as_slice() {
            b"FORCE" => force = true,
            b"JUSTID" => just_id = true,
            b"TIME" => {
                i += 1;
                time = Some(c.int(i)?);
            }
            b"IDLE" => {
                i += 1;
                let idle = c.int(i)?;
                time = c.now_ms.map(|now| now.saturating_sub(idle));
            }
            b"RETRYCOUNT" => {
                i += 1;
                count = Some(number(c.arg(i)?).ok_or(Refused::Number)?);
            }
            b"LASTID" => {
                i += 1;
                last_id = Some(id(c.arg(i)?, 0)?);
            }
            _ => return Err(Refused::Arguments),
        }
        i += 1;
    }
    let (now_ms, before_7) = (c.now_ms.unwrap_or(0), c.before_7);
    let stream = c.space.stream(c.db, key)?.ok_or(Refused::Missing)?;
    let Stream { entries, groups, .. } = &mut **stream;
    let group = groups.get_mut(name).ok_or(Refused::Missing)?;
    if let Some(last_id) = last_id {
        group.last_id = group.last_id.max(last_id);
    }
    for id in ids {
        let known = group.pending.get(&id).cloned();
        if !before_7 && !entries.contains_key(&id) {
            // From 7.0 on, what is no longer in the stream cannot be claimed.
            group.pending.remove(&id);
            continue;
        }
        if known.is_none() && !force {
            continue;
        }
        // Servers count from 1, also for what was never delivered.
        let before = known.unwrap_or(Pending { delivery_count: 1, ..Pending::default() });
        let delivery_count = match count {
            Some(count) => count,
            None if just_id => before.delivery_count,
            None => before.delivery_count.saturating_add(1),
        };
        let delivery_time_ms = time.unwrap_or(now_ms);
        group.consumers.entry(consumer.into()).or_insert(Consumer { seen_ms: now_ms, active_ms: None });
        group.pending.insert(id, Pending { consumer: Some(consumer.into()), delivery_time_ms, delivery_count });
    }
    Ok(())
}
