//! Lists.

use jobsleuth_formats::Kind;

use super::{end_of, position, range};
use crate::call::Call;
use crate::space::{Outcome, Refused};
use crate::value::Bytes;

fn push(c: &mut Call<'_>, front: bool, only_if_there: bool) -> Outcome {
    c.at_least(2)?;
    let key = c.arg(1)?;
    if only_if_there && c.space.list(c.db, key)?.is_none() {
        return Ok(());
    }
    let list = c.space.list_or_new(c.db, key)?;
    for item in c.args.from(2) {
        if front { list.push_front(item.into()) } else { list.push_back(item.into()) }
    }
    for item in c.args.from(2) {
        c.added(key, Kind::List, item);
    }
    Ok(())
}

pub fn lpush(c: &mut Call<'_>) -> Outcome {
    push(c, true, false)
}

pub fn rpush(c: &mut Call<'_>) -> Outcome {
    push(c, false, false)
}

pub fn lpushx(c: &mut Call<'_>) -> Outcome {
    push(c, true, true)
}

pub fn rpushx(c: &mut Call<'_>) -> Outcome {
    push(c, false, true)
}

/// Takes up to `count` items off one end.
fn pop(c: &mut Call<'_>, key: &[u8], front: bool, count: usize) -> Result<Vec<Bytes>, Refused> {
    let Some(list) = c.space.list(c.db, key)? else { return Ok(Vec::new()) };
    let mut taken = Vec::new();
    while taken.len() < count {
        match if front { list.pop_front() } else { list.pop_back() } {
            Some(item) => taken.push(item),
            None => break,
        }
    }
    for item in &taken {
        c.removed(key, Kind::List, item);
    }
    c.tidy(key);
    Ok(taken)
}

fn pop_some(c: &mut Call<'_>, front: bool) -> Outcome {
    let key = c.arg(1)?;
    let count = if c.args.len() > 2 { c.count(2)? } else { 1 };
    pop(c, key, front, count).map(drop)
}

pub fn lpop(c: &mut Call<'_>) -> Outcome {
    pop_some(c, true)
}

pub fn rpop(c: &mut Call<'_>) -> Outcome {
    pop_some(c, false)
}

/// The first of the keys that has something; the last argument is how long to wait.
fn pop_first(c: &mut Call<'_>, front: bool) -> Outcome {
    c.at_least(2)?;
    let keys: Vec<&[u8]> = c.args.from(1).take(c.args.len() - 2).collect();
    for key in keys {
        if !pop(c, key, front, 1)?.is_empty() {
            break;
        }
    }
    Ok(())
}

pub fn blpop(c: &mut Call<'_>) -> Outcome {
    pop_first(c, true)
}

pub fn brpop(c: &mut Call<'_>) -> Outcome {
    pop_first(c, false)
}

pub fn lset(c: &mut Call<'_>) -> Outcome {
    let (key, index, item) = (c.arg(1)?, c.int(2)?, c.arg(3)?);
    let list = c.space.list(c.db, key)?.ok_or(Refused::Missing)?;
    let place = position(index, list.len()).and_then(|at| list.get_mut(at)).ok_or(Refused::Missing)?;
    let old = std::mem::replace(place, item.into());
    if *old != *item {
        c.removed(key, Kind::List, &old);
        c.added(key, Kind::List, item);
    }
    Ok(())
}

pub fn linsert(c: &mut Call<'_>) -> Outcome {
    let (key, pivot, item) = (c.arg(1)?, c.arg(3)?, c.arg(4)?);
    let before = end_of(&c.word(2).unwrap_or_default(), b"BEFORE", b"AFTER")?;
    let Some(list) = c.space.list(c.db, key)? else { return Ok(()) };
    let Some(at) = list.iter().position(|known| **known == *pivot) else { return Ok(()) };
    list.insert(if before { at } else { at + 1 }, item.into());
    c.added(key, Kind::List, item);
    Ok(())
}

pub fn lrem(c: &mut Call<'_>) -> Outcome {
    let (key, count, item) = (c.arg(1)?, c.int(2)?, c.arg(3)?);
    let Some(list) = c.space.list(c.db, key)? else { return Ok(()) };
    let most = if count == 0 { usize::MAX } else { usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX) };
    let mut removed = 0;
    let mut keep = |known: &Bytes| {
        let goes = removed < most && **known == *item;
        removed += usize::from(goes);
        !goes
    };
    if count < 0 {
        let mut kept: std::collections::VecDeque<Bytes> = Default::default();
        while let Some(known) = list.pop_back() {
            if keep(&known) {
                kept.push_front(known);
            }
        }
        *list = kept;
    } else {
        list.retain(keep);
    }
    for _ in 0..removed {
        c.removed(key, Kind::List, item);
    }
    c.tidy(key);
    Ok(())
}

pub fn ltrim(c: &mut Call<'_>) -> Outcome {
    let (key, start, stop) = (c.arg(1)?, c.int(2)?, c.int(3)?);
    let Some(list) = c.space.list(c.db, key)? else { return Ok(()) };
    let kept = range(start, stop, list.len());
    let mut gone: Vec<Bytes> = list.drain(kept.end..).collect();
    gone.extend(list.drain(..kept.start));
    for item in &gone {
        c.removed(key, Kind::List, item);
    }
    c.tidy(key);
    Ok(())
}

fn shift(c: &mut Call<'_>, from: &[u8], to: &[u8], from_front: bool, to_front: bool) -> Outcome {
    // The target is looked at first: a wrong type must not cost an item.
    c.space.list(c.db, to)?;
    if from == to {
        let Some(list) = c.space.list(c.db, from)? else { return Ok(()) };
        let item = if from_front { list.pop_front() } else { list.pop_back() };
        if let Some(item) = item {
            if to_front { list.push_front(item) } else { list.push_back(item) }
        }
        return Ok(());
    }
    let Some(item) = pop(c, from, from_front, 1)?.pop() else { return Ok(()) };
    let list = c.space.list_or_new(c.db, to)?;
    if to_front {
        list.push_front(item.clone())
    } else {
        list.push_back(item.clone())
    }
    c.added(to, Kind::List, &item);
    Ok(())
}

pub fn rpoplpush(c: &mut Call<'_>) -> Outcome {
    let (from, to) = (c.arg(1)?, c.arg(2)?);
    shift(c, from, to, false, true)
}

pub fn lmove(c: &mut Call<'_>) -> Outcome {
    let (from, to) = (c.arg(1)?, c.arg(2)?);
    let from_front = end_of(&c.word(3).unwrap_or_default(), b"LEFT", b"RIGHT")?;
    let to_front = end_of(&c.word(4).unwrap_or_default(), b"LEFT", b"RIGHT")?;
    shift(c, from, to, from_front, to_front)
}

fn pop_many(c: &mut Call<'_>, at: usize) -> Outcome {
    let (keys, next) = c.keys(at)?;
    let front = end_of(&c.word(next).unwrap_or_default(), b"LEFT", b"RIGHT")?;
    let count = if c.args.len() > next + 1 { c.count(next + 2)? } else { 1 };
    for key in keys {
        if !pop(c, key, front, count)?.is_empty() {
            break;
        }
    }
    Ok(())
}

pub fn lmpop(c: &mut Call<'_>) -> Outcome {
    pop_many(c, 1)
}

pub fn blmpop(c: &mut Call<'_>) -> Outcome {
    pop_many(c, 2)
}
