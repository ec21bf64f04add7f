//! Hashes.

use crate::call::{Call, float};
use crate::resp::number;
use crate::space::{Outcome, Refused};
use crate::value::Field;

pub fn hset(c: &mut Call<'_>) -> Outcome {
    if c.args.len() < 4 || !c.args.len().is_multiple_of(2) {
        return Err(Refused::Arguments);
    }
    let key = c.arg(1)?;
    let hash = c.space.hash_or_new(c.db, key)?;
    for i in (2..c.args.len()).step_by(2) {
        let (field, value) = (c.args.get(i).unwrap_or_default(), c.args.get(i + 1).unwrap_or_default());
        hash.insert(field.into(), Field { value: value.into(), expire_at_ms: None });
    }
    Ok(())
}

pub fn hsetnx(c: &mut Call<'_>) -> Outcome {
    let (key, field, value) = (c.arg(1)?, c.arg(2)?, c.arg(3)?);
    let hash = c.space.hash_or_new(c.db, key)?;
    hash.entry(field.into()).or_insert_with(|| Field { value: value.into(), expire_at_ms: None });
    Ok(())
}

fn remove<'a>(c: &mut Call<'_>, key: &[u8], fields: impl Iterator<Item = &'a [u8]>) -> Outcome {
    let Some(hash) = c.space.hash(c.db, key)? else { return Ok(()) };
    for field in fields {
        hash.remove(field);
    }
    c.tidy(key);
    Ok(())
}

pub fn hdel(c: &mut Call<'_>) -> Outcome {
    c.at_least(2)?;
    let (key, args) = (c.arg(1)?, c.args);
    remove(c, key, args.from(2))
}

/// What stands behind FIELDS: a number, and as many fields.
fn fields<'a>(c: &Call<'a>, at: usize) -> Result<Vec<&'a [u8]>, Refused> {
    if c.word(at).as_deref() != Some(b"FIELDS") {
        return Err(Refused::Arguments);
    }
    c.keys(at + 1).map(|(fields, _)| fields)
}

/// Redis 8.0.
pub fn hgetdel(c: &mut Call<'_>) -> Outcome {
    let key = c.arg(1)?;
    let fields = fields(c, 2)?;
    remove(c, key, fields.into_iter())
}

fn set_times(
    c: &mut Call<'_>,
    key: &[u8],
    fields: &[&[u8]],
    time: Option<i64>,
    wanted: impl Fn(Option<i64>) -> bool,
) -> Outcome {
    let Some(hash) = c.space.hash(c.db, key)? else { return Ok(()) };
    for field in fields {
        if let Some(field) = hash.get_mut(*field).filter(|field| wanted(field.expire_at_ms)) {
            field.expire_at_ms = time;
        }
    }
    Ok(())
}

/// Redis 8.0.
pub fn hgetex(c: &mut Call<'_>) -> Outcome {
    let key = c.arg(1)?;
    match c.word(2).as_deref() {
        Some(b"FIELDS") => Ok(()),
        Some(b"PERSIST") => {
            let fields = fields(c, 3)?;
            set_times(c, key, &fields, None, |_| true)
        }
        Some(word) => {
            let time = c.expiry(word, 3)?;
            let fields = fields(c, 4)?;
            set_times(c, key, &fields, time, |_| true)
        }
        None => Err(Refused::Arguments),
    }
}

/// Redis 8.0, Valkey 9.
pub fn hsetex(c: &mut Call<'_>) -> Outcome {
    let key = c.arg(1)?;
    let (mut time, mut keep, mut only_new, mut only_known) = (None, false, false, false);
    let mut i = 2;
    loop {
        match c.word(i).as_deref() {
            Some(b"FIELDS") => break,
            Some(b"FNX") => only_new = true,
            Some(b"FXX") => only_known = true,
            Some(b"NX" | b"XX") => {}
            Some(b"KEEPTTL") => keep = true,
            Some(word) => {
                i += 1;
                time = c.expiry(word, i)?;
            }
            None => return Err(Refused::Arguments),
        }
        i += 1;
    }
    let count = c.count(i + 1)?;
    if count == 0 || count > c.args.len() {
        return Err(Refused::Arguments);
    }
    let mut pairs = Vec::new();
    for n in 0..count {
        pairs.push((c.arg(i + 2 + 2 * n)?, c.arg(i + 3 + 2 * n)?));
    }
    let known = c.space.hash(c.db, key)?;
    let there = |field: &[u8]| known.as_ref().is_some_and(|hash| hash.contains_key(field));
    if (only_new && pairs.iter().any(|(field, _)| there(field)))
        || (only_known && !pairs.iter().all(|(field, _)| there(field)))
    {
        return Ok(());
    }
    let hash = c.space.hash_or_new(c.db, key)?;
    for (field, value) in pairs {
        let old = hash.get(field).and_then(|field| field.expire_at_ms);
        let expire_at_ms = if keep { old } else { time };
        hash.insert(field.into(), Field { value: value.into(), expire_at_ms });
    }
    Ok(())
}

fn change(c: &mut Call<'_>, by: impl FnOnce(Option<&[u8]>) -> Result<String, Refused>) -> Outcome {
    let (key, field) = (c.arg(1)?, c.arg(2)?);
    let old = c.space.hash(c.db, key)?.and_then(|hash| hash.get(field).cloned());
    let value = by(old.as_ref().map(|field| &*field.value))?;
    let expire_at_ms = old.and_then(|field| field.expire_at_ms);
    let hash = c.space.hash_or_new(c.db, key)?;
    hash.insert(field.into(), Field { value: value.into_bytes().into(), expire_at_ms });
    Ok(())
}

pub fn hincrby(c: &mut Call<'_>) -> Outcome {
    let by = c.int(3)?;
    change(c, |old| {
        let old = old.map_or(Some(0), number::<i64>).ok_or(Refused::Number)?;
        old.checked_add(by).map(|n| n.to_string()).ok_or(Refused::Number)
    })
}

/// Servers write its outcome as HSET into the file, so that this sum is needed only for files made by hand.
pub fn hincrbyfloat(c: &mut Call<'_>) -> Outcome {
    let by = c.float(3)?;
    change(c, |old| {
        let new = old.map_or(Some(0.0), float).ok_or(Refused::Number)? + by;
        if new.is_finite() { Ok(new.to_string()) } else { Err(Refused::Number) }
    })
}

fn expire_fields(c: &mut Call<'_>, unit_ms: i64, relative: bool) -> Outcome {
    let (key, amount) = (c.arg(1)?, c.int(2)?);
    let time = c.moment(amount, unit_ms, relative)?;
    let (rule, at) = match c.word(3) {
        Some(word) if word != b"FIELDS" => (word, 4),
        _ => (Vec::new(), 3),
    };
    let fields = fields(c, at)?;
    let new = time.unwrap_or(i64::MAX);
    set_times(c, key, &fields, time, |old| match rule.as_slice() {
        b"NX" => old.is_none(),
        b"XX" => old.is_some(),
        // Who has none lives for ever.
        b"GT" => old.is_some_and(|old| new > old),
        b"LT" => old.is_none_or(|old| new < old),
        _ => true,
    })
}

pub fn hexpire(c: &mut Call<'_>) -> Outcome {
    expire_fields(c, 1000, true)
}

pub fn hpexpire(c: &mut Call<'_>) -> Outcome {
    expire_fields(c, 1, true)
}

pub fn hexpireat(c: &mut Call<'_>) -> Outcome {
    expire_fields(c, 1000, false)
}

pub fn hpexpireat(c: &mut Call<'_>) -> Outcome {
    expire_fields(c, 1, false)
}

pub fn hpersist(c: &mut Call<'_>) -> Outcome {
    let key = c.arg(1)?;
    let fields = fields(c, 2)?;
    set_times(c, key, &fields, None, |_| true)
}
