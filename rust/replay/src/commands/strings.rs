//! Strings.

use crate::call::{Call, float};
use crate::resp::number;
use crate::space::{Entry, Outcome, Refused};
use crate::value::Value;

/// Servers refuse longer strings.
pub(super) const LONGEST: usize = 512 << 20;

fn put(c: &mut Call<'_>, key: &[u8], value: &[u8], expire_at_ms: Option<i64>) {
    c.space.put(c.db, key, Entry::new(Value::String(value.to_vec()), expire_at_ms));
}

pub fn set(c: &mut Call<'_>) -> Outcome {
    let (key, value) = (c.arg(1)?, c.arg(2)?);
    let known = c.space.get(c.db, key).map(|entry| entry.expire_at_ms);
    let mut expiry = None;
    let mut i = 3;
    let mut wanted = true;
    while let Some(word) = c.word(i) {
        match word.as_slice() {
            b"NX" => wanted &= known.is_none(),
            b"XX" => wanted &= known.is_some(),
            b"IFEQ" => {
                i += 1;
                let other = c.arg(i)?.to_vec();
                wanted &= c.space.string(c.db, key)?.is_some_and(|value| *value == other);
            }
            b"IFNE" => {
                i += 1;
                let other = c.arg(i)?.to_vec();
                wanted &= c.space.string(c.db, key)?.is_none_or(|value| *value != other);
            }
            b"GET" => {
                c.space.string(c.db, key)?;
            }
            b"KEEPTTL" => expiry = known.flatten(),
            b"EX" | b"PX" | b"EXAT" | b"PXAT" => {
                i += 1;
                expiry = c.expiry(&word, i)?;
            }
            _ => return Err(Refused::Arguments),
        }
        i += 1;
    }
    if wanted {
        put(c, key, value, expiry);
    }
    Ok(())
}

pub fn setnx(c: &mut Call<'_>) -> Outcome {
    let (key, value) = (c.arg(1)?, c.arg(2)?);
    if !c.space.contains(c.db, key) {
        put(c, key, value, None);
    }
    Ok(())
}

pub fn setex(c: &mut Call<'_>) -> Outcome {
    let expiry = c.expiry(b"EX", 2)?;
    let (key, value) = (c.arg(1)?, c.arg(3)?);
    put(c, key, value, expiry);
    Ok(())
}

pub fn psetex(c: &mut Call<'_>) -> Outcome {
    let expiry = c.expiry(b"PX", 2)?;
    let (key, value) = (c.arg(1)?, c.arg(3)?);
    put(c, key, value, expiry);
    Ok(())
}

pub fn getset(c: &mut Call<'_>) -> Outcome {
    let (key, value) = (c.arg(1)?, c.arg(2)?);
    c.space.string(c.db, key)?;
    put(c, key, value, None);
    Ok(())
}

pub fn getdel(c: &mut Call<'_>) -> Outcome {
    let key = c.arg(1)?;
    c.space.string(c.db, key)?;
    c.space.delete(c.db, key);
    Ok(())
}

pub fn getex(c: &mut Call<'_>) -> Outcome {
    let key = c.arg(1)?;
    c.space.string(c.db, key)?;
    let expiry = match c.word(2).as_deref() {
        None => return Ok(()),
        Some(b"PERSIST") => None,
        Some(word) => c.expiry(word, 3)?,
    };
    if let Some(entry) = c.space.get_mut(c.db, key) {
        entry.expire_at_ms = expiry;
    }
    Ok(())
}

type Pairs<'a> = Vec<(&'a [u8], &'a [u8])>;

fn pairs<'a>(c: &Call<'a>, from: usize, count: usize) -> Result<Pairs<'a>, Refused> {
    (0..count).map(|n| Ok((c.arg(from + 2 * n)?, c.arg(from + 2 * n + 1)?))).collect()
}

pub fn mset(c: &mut Call<'_>) -> Outcome {
    if c.args.len() < 3 || c.args.len().is_multiple_of(2) {
        return Err(Refused::Arguments);
    }
    for (key, value) in pairs(c, 1, c.args.len() / 2)? {
        put(c, key, value, None);
    }
    Ok(())
}

pub fn msetnx(c: &mut Call<'_>) -> Outcome {
    if c.args.len() < 3 || c.args.len().is_multiple_of(2) {
        return Err(Refused::Arguments);
    }
    let pairs = pairs(c, 1, c.args.len() / 2)?;
    if pairs.iter().any(|(key, _)| c.space.contains(c.db, key)) {
        return Ok(());
    }
    for (key, value) in pairs {
        put(c, key, value, None);
    }
    Ok(())
}

/// Redis 8.4.
pub fn msetex(c: &mut Call<'_>) -> Outcome {
    let count = c.count(1)?;
    if count == 0 || count > c.args.len() {
        return Err(Refused::Arguments);
    }
    let pairs = pairs(c, 2, count)?;
    let mut i = 2 + 2 * count;
    let (mut expiry, mut keep, mut wanted) = (None, false, true);
    while let Some(word) = c.word(i) {
        match word.as_slice() {
            b"NX" => wanted = !pairs.iter().any(|(key, _)| c.space.contains(c.db, key)),
            b"XX" => wanted = pairs.iter().all(|(key, _)| c.space.contains(c.db, key)),
            b"KEEPTTL" => keep = true,
            _ => {
                i += 1;
                expiry = c.expiry(&word, i)?;
            }
        }
        i += 1;
    }
    for (key, value) in if wanted { pairs } else { Vec::new() } {
        let known = c.space.get(c.db, key).and_then(|entry| entry.expire_at_ms);
        put(c, key, value, if keep { known } else { expiry });
    }
    Ok(())
}

/// Redis 8.4; with a condition it arrives as DEL.
pub fn delex(c: &mut Call<'_>) -> Outcome {
    let key = c.arg(1)?;
    let wanted = match c.word(2).as_deref() {
        None => true,
        Some(b"IFEQ") => {
            let other = c.arg(3)?;
            c.space.string(c.db, key)?.is_some_and(|value| *value == other)
        }
        Some(b"IFNE") => {
            let other = c.arg(3)?;
            c.space.string(c.db, key)?.is_some_and(|value| *value != other)
        }
        Some(_) => return Err(Refused::Arguments),
    };
    if wanted {
        c.space.delete(c.db, key);
    }
    Ok(())
}

/// Valkey 9.
pub fn delifeq(c: &mut Call<'_>) -> Outcome {
    let (key, other) = (c.arg(1)?, c.arg(2)?);
    if c.space.string(c.db, key)?.is_some_and(|value| *value == other) {
        c.space.delete(c.db, key);
    }
    Ok(())
}

pub fn append(c: &mut Call<'_>) -> Outcome {
    let (key, more) = (c.arg(1)?, c.arg(2)?);
    let value = c.space.string_or_new(c.db, key)?;
    if value.len().saturating_add(more.len()) > LONGEST {
        return Err(Refused::Arguments);
    }
    value.extend_from_slice(more);
    Ok(())
}

pub fn setrange(c: &mut Call<'_>) -> Outcome {
    let (key, offset, part) = (c.arg(1)?, c.count(2)?, c.arg(3)?);
    let end = offset.checked_add(part.len()).filter(|&end| end <= LONGEST).ok_or(Refused::Arguments)?;
    if part.is_empty() {
        c.space.string(c.db, key)?;
        return Ok(());
    }
    let len = c.space.string(c.db, key)?.map_or(0, |value| value.len());
    let made = end.saturating_sub(len).saturating_sub(part.len());
    c.space.has_room(made)?;
    let value = c.space.string_or_new(c.db, key)?;
    if value.len() < end {
        value.resize(end, 0);
    }
    if let Some(place) = value.get_mut(offset..end) {
        place.copy_from_slice(part);
    }
    c.space.grown(c.db, key, made);
    Ok(())
}

fn increase(c: &mut Call<'_>, by: i64) -> Outcome {
    let key = c.arg(1)?;
    let old = match c.space.string(c.db, key)? {
        None => 0,
        Some(value) => number::<i64>(value).ok_or(Refused::Number)?,
    };
    let new = old.checked_add(by).ok_or(Refused::Number)?;
    *c.space.string_or_new(c.db, key)? = new.to_string().into_bytes();
    Ok(())
}

pub fn incr(c: &mut Call<'_>) -> Outcome {
    increase(c, 1)
}

pub fn decr(c: &mut Call<'_>) -> Outcome {
    increase(c, -1)
}

pub fn incrby(c: &mut Call<'_>) -> Outcome {
    let by = c.int(2)?;
    increase(c, by)
}

pub fn decrby(c: &mut Call<'_>) -> Outcome {
    let by = c.int(2)?.checked_neg().ok_or(Refused::Number)?;
    increase(c, by)
}

/// Servers write its outcome as SET into the file, so that this sum is needed only for files made by hand.
pub fn incrbyfloat(c: &mut Call<'_>) -> Outcome {
    let (key, by) = (c.arg(1)?, c.float(2)?);
    let old = match c.space.string(c.db, key)? {
        None => 0.0,
        Some(value) => float(value).ok_or(Refused::Number)?,
    };
    let new = old + by;
    if !new.is_finite() {
        return Err(Refused::Number);
    }
    *c.space.string_or_new(c.db, key)? = new.to_string().into_bytes();
    Ok(())
}
