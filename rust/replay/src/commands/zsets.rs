//! Sorted sets.

use std::collections::HashMap;
use std::ops::Bound;

use jobsleuth_formats::Kind;

use super::{end_of, range};
use crate::call::{Call, float};
use crate::space::{Entry, Outcome, Refused};
use crate::value::{Bytes, Value, Zset};

pub fn zadd(c: &mut Call<'_>) -> Outcome {
    let key = c.arg(1)?;
    let (mut nx, mut xx, mut gt, mut lt, mut incr) = (false, false, false, false, false);
    let mut i = 2;
    while let Some(word) = c.word(i) {
        match word.as_slice() {
            b"NX" => nx = true,
            b"XX" => xx = true,
            b"GT" => gt = true,
            b"LT" => lt = true,
            b"CH" => {}
            b"INCR" => incr = true,
            _ => break,
        }
        i += 1;
    }
    let rest = c.args.len().saturating_sub(i);
    if rest == 0 || !rest.is_multiple_of(2) || (nx && (xx || gt || lt)) || (gt && lt) {
        return Err(Refused::Arguments);
    }
    let mut pairs = Vec::new();
    for n in (i..c.args.len()).step_by(2) {
        pairs.push((c.float(n)?, c.arg(n + 1)?));
    }
    if xx && c.space.zset(c.db, key)?.is_none() {
        return Ok(());
    }
    let zset = c.space.zset_or_new(c.db, key)?;
    let mut new = Vec::new();
    for (score, member) in pairs {
        let old = zset.score(member);
        let score = if incr { old.unwrap_or(0.0) + score } else { score };
        if score.is_nan() {
            c.tidy(key);
            return Err(Refused::Number);
        }
        let wanted = match old {
            None => !xx,
            Some(old) => !(nx || (gt && score <= old) || (lt && score >= old)),
        };
        if wanted && zset.set(member, score) {
            new.push(member);
        }
    }
    for member in new {
        c.added(key, Kind::Zset, member);
    }
    c.tidy(key);
    Ok(())
}

pub fn zincrby(c: &mut Call<'_>) -> Outcome {
    let (key, by, member) = (c.arg(1)?, c.float(2)?, c.arg(3)?);
    let zset = c.space.zset_or_new(c.db, key)?;
    let score = zset.score(member).unwrap_or(0.0) + by;
    if score.is_nan() {
        c.tidy(key);
        return Err(Refused::Number);
    }
    if zset.set(member, score) {
        c.added(key, Kind::Zset, member);
    }
    Ok(())
}

/// Removes members.
fn remove(c: &mut Call<'_>, key: &[u8], members: &[Bytes]) -> Outcome {
    let Some(zset) = c.space.zset(c.db, key)? else { return Ok(()) };
    let gone: Vec<&Bytes> = members.iter().filter(|member| zset.remove(member).is_some()).collect();
    for member in gone {
        c.removed(key, Kind::Zset, member);
    }
    c.tidy(key);
    Ok(())
}

pub fn zrem(c: &mut Call<'_>) -> Outcome {
    c.at_least(2)?;
    let members: Vec<Bytes> = c.args.from(2).map(Bytes::from).collect();
    remove(c, c.arg(1)?, &members)
}

/// A bound of scores: `(` leaves the number itself out.
fn bound(word: &[u8]) -> Result<Bound<f64>, Refused> {
    match word.strip_prefix(b"(") {
        Some(rest) => Ok(Bound::Excluded(float(rest).ok_or(Refused::Number)?)),
        None => Ok(Bound::Included(float(word).ok_or(Refused::Number)?)),
    }
}

fn within(score: f64, low: Bound<f64>, high: Bound<f64>) -> bool {
    let above = match low {
        Bound::Included(n) => score >= n,
        Bound::Excluded(n) => score > n,
        Bound::Unbounded => true,
    };
    above
        && match high {
            Bound::Included(n) => score <= n,
            Bound::Excluded(n) => score < n,
            Bound::Unbounded => true,
        }
}

/// A bound of names: `[a`, `(a`, `-`, `+`.
#[derive(Clone, Copy)]
enum Name<'a> {
    First,
    Last,
    At(&'a [u8]),
    Beyond(&'a [u8]),
}

fn name(word: &[u8]) -> Result<Name<'_>, Refused> {
    match word.split_first() {
        Some((b'-', [])) => Ok(Name::First),
        Some((b'+', [])) => Ok(Name::Last),
        Some((b'[', name)) => Ok(Name::At(name)),
        Some((b'(', name)) => Ok(Name::Beyond(name)),
        _ => Err(Refused::Arguments),
    }
}

fn above(member: &[u8], low: Name<'_>) -> bool {
    match low {
        Name::First => true,
        Name::Last => false,
        Name::At(name) => member >= name,
        Name::Beyond(name) => member > name,
    }
}

fn below(member: &[u8], high: Name<'_>) -> bool {
    match high {
        Name::First => false,
        Name::Last => true,
        Name::At(name) => member <= name,
        Name::Beyond(name) => member < name,
    }
}

/// The members of a range of names, which makes sense where all scores are the same. Where they are not, this is what a
/// server finds in a small sorted set: a run that begins with the first member in the range.
fn run(all: Vec<(Bytes, f64)>, low: Name<'_>, high: Name<'_>, rev: bool) -> Vec<(Bytes, f64)> {
    let enters = |member: &[u8]| if rev { below(member, high) } else { above(member, low) };
    let stays = |member: &[u8]| if rev { above(member, low) } else { below(member, high) };
    let ends = if rev { (all.last(), all.first()) } else { (all.first(), all.last()) };
    let (Some((lowest, _)), Some((highest, _))) = ends else { return all };
    if !above(highest, low) || !below(lowest, high) {
        return Vec::new();
    }
    all.into_iter().skip_while(|(member, _)| !enters(member)).take_while(|(member, _)| stays(member)).collect()
}

/// The members that a test picks, in order.
fn picked(c: &mut Call<'_>, key: &[u8], test: impl Fn(f64) -> bool) -> Result<Vec<Bytes>, Refused> {
    let Some(zset) = c.space.zset(c.db, key)? else { return Ok(Vec::new()) };
    Ok(zset.iter().filter(|&(_, score)| test(score)).map(|(member, _)| member.into()).collect())
}

pub fn zremrangebyscore(c: &mut Call<'_>) -> Outcome {
    let (key, low, high) = (c.arg(1)?, bound(c.arg(2)?)?, bound(c.arg(3)?)?);
    let members = picked(c, key, |score| within(score, low, high))?;
    remove(c, key, &members)
}

pub fn zremrangebylex(c: &mut Call<'_>) -> Outcome {
    let (key, low, high) = (c.arg(1)?, name(c.arg(2)?)?, name(c.arg(3)?)?);
    c.space.zset(c.db, key)?;
    let all = scores(c, key)?;
    let members: Vec<Bytes> = run(all, low, high, false).into_iter().map(|(member, _)| member).collect();
    remove(c, key, &members)
}

pub fn zremrangebyrank(c: &mut Call<'_>) -> Outcome {
    let (key, start, stop) = (c.arg(1)?, c.int(2)?, c.int(3)?);
    let all = picked(c, key, |_| true)?;
    let range = range(start, stop, all.len());
    remove(c, key, all.get(range).unwrap_or_default())
}

/// Removes up to `count` of the lowest or highest; whether there was any.
fn pop(c: &mut Call<'_>, key: &[u8], lowest: bool, count: usize) -> Result<bool, Refused> {
    let Some(zset) = c.space.zset(c.db, key)? else { return Ok(false) };
    let some: Vec<Bytes> = if lowest {
        zset.iter().take(count).map(|(member, _)| member.into()).collect()
    } else {
        zset.iter().rev().take(count).map(|(member, _)| member.into()).collect()
    };
    remove(c, key, &some)?;
    Ok(!some.is_empty())
}

fn pop_some(c: &mut Call<'_>, lowest: bool) -> Outcome {
    let key = c.arg(1)?;
    let count = if c.args.len() > 2 { c.count(2)? } else { 1 };
    pop(c, key, lowest, count).map(drop)
}

pub fn zpopmin(c: &mut Call<'_>) -> Outcome {
    pop_some(c, true)
}

pub fn zpopmax(c: &mut Call<'_>) -> Outcome {
    pop_some(c, false)
}

fn pop_first(c: &mut Call<'_>, lowest: bool) -> Outcome {
    c.at_least(2)?;
    let keys: Vec<&[u8]> = c.args.from(1).take(c.args.len() - 2).collect();
    for key in keys {
        if pop(c, key, lowest, 1)? {
            break;
        }
    }
    Ok(())
}

pub fn bzpopmin(c: &mut Call<'_>) -> Outcome {
    pop_first(c, true)
}

pub fn bzpopmax(c: &mut Call<'_>) -> Outcome {
    pop_first(c, false)
}

fn pop_many(c: &mut Call<'_>, at: usize) -> Outcome {
    let (keys, next) = c.keys(at)?;
    let lowest = end_of(&c.word(next).unwrap_or_default(), b"MIN", b"MAX")?;
    let count = if c.args.len() > next + 1 { c.count(next + 2)? } else { 1 };
    for key in keys {
        if pop(c, key, lowest, count)? {
            break;
        }
    }
    Ok(())
}

pub fn zmpop(c: &mut Call<'_>) -> Outcome {
    pop_many(c, 1)
}

pub fn bzmpop(c: &mut Call<'_>) -> Outcome {
    pop_many(c, 2)
}

/// Members and scores of a sorted set, or of a set, where each counts 1.
fn scores(c: &mut Call<'_>, key: &[u8]) -> Result<Vec<(Bytes, f64)>, Refused> {
    match c.space.get(c.db, key).map(|entry| &entry.value) {
        None => Ok(Vec::new()),
        Some(Value::Zset(zset)) => Ok(zset.iter().map(|(member, score)| (member.into(), score)).collect()),
        Some(Value::Set(members)) => Ok(members.iter().map(|member| (member.clone(), 1.0)).collect()),
        Some(_) => Err(Refused::WrongType),
    }
}

/// Number of members of a sorted set, or of a set.
fn count(c: &Call<'_>, key: &[u8]) -> Result<usize, Refused> {
    match c.space.get(c.db, key).map(|entry| &entry.value) {
        None => Ok(0),
        Some(Value::Zset(zset)) => Ok(zset.len()),
        Some(Value::Set(members)) => Ok(members.len()),
        Some(_) => Err(Refused::WrongType),
    }
}

fn put(c: &mut Call<'_>, key: &[u8], members: impl IntoIterator<Item = (Bytes, f64)>) -> Outcome {
    let mut zset = Zset::default();
    for (member, score) in members {
        zset.set(&member, score);
    }
    c.space.put_made(c.db, key, Entry::new(Value::Zset(zset), None))
}

/// No number is what infinities of both signs would make; servers take it for 0.
fn known(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

fn combine(c: &mut Call<'_>, everywhere: bool) -> Outcome {
    let target = c.arg(1)?;
    let (keys, mut i) = c.keys(2)?;
    let mut weights = vec![1.0; keys.len()];
    let mut aggregate: fn(f64, f64) -> f64 = |a, b| known(a + b);
    while let Some(word) = c.word(i) {
        match word.as_slice() {
            b"WEIGHTS" => {
                for (n, weight) in weights.iter_mut().enumerate() {
                    *weight = float(c.arg(i + 1 + n)?).ok_or(Refused::Number)?;
                }
                i += 1 + keys.len();
            }
            b"AGGREGATE" => {
                aggregate = match c.word(i + 1).as_deref() {
                    Some(b"SUM") => |a, b| known(a + b),
                    Some(b"MIN") => |a, b| if b < a { b } else { a },
                    Some(b"MAX") => |a, b| if b > a { b } else { a },
                    _ => return Err(Refused::Arguments),
                };
                i += 2;
            }
            _ => return Err(Refused::Arguments),
        }
    }
    let wanted = keys.len();
    let mut sources = Vec::new();
    for (key, weight) in keys.into_iter().zip(weights) {
        sources.push((count(c, key)?, key, weight));
    }
    // The smallest first, as a server does: with infinities the order matters.
    sources.sort_by_key(|&(len, ..)| len);
    let mut found: HashMap<Bytes, (f64, usize)> = HashMap::new();
    for (nth, (_, key, weight)) in sources.into_iter().enumerate() {
        for (member, score) in scores(c, key)? {
            let score = if everywhere && nth > 0 { score * weight } else { known(score * weight) };
            found
                .entry(member)
                .and_modify(|(old, n)| (*old, *n) = (aggregate(*old, score), *n + 1))
                .or_insert((score, 1));
        }
    }
    let kept = found.into_iter().filter(|(_, (_, n))| !everywhere || *n == wanted);
    put(c, target, kept.map(|(member, (score, _))| (member, score)).collect::<Vec<_>>())
}

pub fn zunionstore(c: &mut Call<'_>) -> Outcome {
    combine(c, false)
}

pub fn zinterstore(c: &mut Call<'_>) -> Outcome {
    combine(c, true)
}

pub fn zdiffstore(c: &mut Call<'_>) -> Outcome {
    let target = c.arg(1)?;
    let (keys, _) = c.keys(2)?;
    let mut keys = keys.into_iter();
    let mut left: HashMap<Bytes, f64> = match keys.next() {
        Some(key) => scores(c, key)?.into_iter().collect(),
        None => HashMap::new(),
    };
    for key in keys {
        for (member, _) in scores(c, key)? {
            left.remove(&member);
        }
    }
    put(c, target, left)
}

pub fn zrangestore(c: &mut Call<'_>) -> Outcome {
    let (target, source, start, stop) = (c.arg(1)?, c.arg(2)?, c.arg(3)?, c.arg(4)?);
    let (mut by, mut rev, mut offset, mut count) = (0_u8, false, 0, usize::MAX);
    let mut i = 5;
    while let Some(word) = c.word(i) {
        match word.as_slice() {
            b"BYSCORE" => by = 1,
            b"BYLEX" => by = 2,
            b"REV" => rev = true,
            b"LIMIT" => {
                offset = usize::try_from(c.int(i + 1)?).unwrap_or(usize::MAX);
                count = usize::try_from(c.int(i + 2)?).unwrap_or(usize::MAX);
                i += 2;
            }
            _ => return Err(Refused::Arguments),
        }
        i += 1;
    }
    c.space.zset(c.db, source)?;
    let mut all = scores(c, source)?;
    if rev {
        all.reverse();
    }
    let (low, high) = if rev { (stop, start) } else { (start, stop) };
    let chosen: Vec<(Bytes, f64)> = match by {
        0 => {
            let number = |word: &[u8]| crate::resp::number::<i64>(word).ok_or(Refused::Number);
            let range = range(number(start)?, number(stop)?, all.len());
            all.drain(range).collect()
        }
        1 => {
            let (low, high) = (bound(low)?, bound(high)?);
            all.into_iter().filter(|(_, score)| within(*score, low, high)).skip(offset).take(count).collect()
        }
        _ => {
            let (low, high) = (name(low)?, name(high)?);
            run(all, low, high, rev).into_iter().skip(offset).take(count).collect()
        }
    };
    put(c, target, chosen)
}
