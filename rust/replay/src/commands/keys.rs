//! Keys and their expiry.

use jobsleuth_formats::{ErrorKind, decode_dump, inspect_dump};

use crate::build::Builder;
use crate::call::Call;
use crate::resp::number;
use crate::space::{Entry, Outcome, Refused};

pub fn del(c: &mut Call<'_>) -> Outcome {
    c.at_least(1)?;
    for key in c.args.from(1) {
        c.space.delete(c.db, key);
    }
    Ok(())
}

pub fn rename(c: &mut Call<'_>) -> Outcome {
    let (from, to) = (c.arg(1)?, c.arg(2)?);
    if c.space.rename((c.db, from), (c.db, to)) { Ok(()) } else { Err(Refused::Missing) }
}

pub fn renamenx(c: &mut Call<'_>) -> Outcome {
    if c.space.contains(c.db, c.arg(2)?) { Ok(()) } else { rename(c) }
}

pub fn copy(c: &mut Call<'_>) -> Outcome {
    let (from, to) = (c.arg(1)?, c.arg(2)?);
    let (mut db, mut replace) = (c.db, false);
    let mut i = 3;
    while let Some(word) = c.word(i) {
        match word.as_slice() {
            b"DB" => {
                i += 1;
                db = number(c.arg(i)?).ok_or(Refused::Number)?;
            }
            b"REPLACE" => replace = true,
            _ => return Err(Refused::Arguments),
        }
        i += 1;
    }
    if c.space.contains(db, to) && !replace {
        return Ok(());
    }
    let Some(entry) = c.space.get(c.db, from) else { return Ok(()) };
    c.space.has_room_at(db, to, entry.value.bytes())?;
    let entry = entry.clone();
    c.space.put_made(db, to, entry)
}

pub fn move_(c: &mut Call<'_>) -> Outcome {
    let (key, db) = (c.arg(1)?, number(c.arg(2)?).ok_or(Refused::Number)?);
    if !c.space.contains(db, key) {
        c.space.rename((c.db, key), (db, key));
    }
    Ok(())
}

pub fn restore(c: &mut Call<'_>) -> Outcome {
    let (key, ttl, payload) = (c.arg(1)?, c.int(2)?, c.arg(3)?);
    let (mut replace, mut absolute) = (false, false);
    let mut i = 4;
    while let Some(word) = c.word(i) {
        match word.as_slice() {
            b"REPLACE" => replace = true,
            b"ABSTTL" => absolute = true,
            b"IDLETIME" | b"FREQ" => i += 1,
            _ => return Err(Refused::Arguments),
        }
        i += 1;
    }
    if c.space.contains(c.db, key) && !replace {
        return Err(Refused::Missing);
    }
    let readable = |error: jobsleuth_formats::Error| match error.kind {
        ErrorKind::Unsupported(_) | ErrorKind::UnknownType(_) => Refused::Unknown,
        _ => Refused::Payload,
    };
    let info = inspect_dump(payload, c.limits).map_err(readable)?;
    let mut builder = Builder::new(info.kind);
    decode_dump(payload, c.limits, &mut builder).map_err(readable)?;
    let expire_at_ms = if ttl == 0 { None } else { c.moment(ttl, 1, !absolute)? };
    let entry = Entry::new(builder.finish(), expire_at_ms);
    let made = entry.value.bytes().saturating_sub(payload.len());
    c.space.has_room(made)?;
    c.space.put(c.db, key, entry);
    c.space.grown(c.db, key, made);
    Ok(())
}

pub fn swapdb(c: &mut Call<'_>) -> Outcome {
    let (a, b) = (number(c.arg(1)?).ok_or(Refused::Number)?, number(c.arg(2)?).ok_or(Refused::Number)?);
    c.space.swap(a, b);
    Ok(())
}

pub fn flushdb(c: &mut Call<'_>) -> Outcome {
    c.space.flush(c.db);
    Ok(())
}

pub fn flushall(c: &mut Call<'_>) -> Outcome {
    c.space.flush_all();
    Ok(())
}

pub fn persist(c: &mut Call<'_>) -> Outcome {
    if let Some(entry) = c.space.get_mut(c.db, c.arg(1)?) {
        entry.expire_at_ms = None;
    }
    Ok(())
}

fn expire_in(c: &mut Call<'_>, unit_ms: i64, relative: bool) -> Outcome {
    let (key, amount) = (c.arg(1)?, c.int(2)?);
    let Some(old) = c.space.get(c.db, key).map(|entry| entry.expire_at_ms) else { return Ok(()) };
    let Some(new) = c.moment(amount, unit_ms, relative)? else { return Ok(()) };
    let wanted = match c.word(3).as_deref() {
        None => true,
        Some(b"NX") => old.is_none(),
        Some(b"XX") => old.is_some(),
        // Who has none lives for ever.
        Some(b"GT") => old.is_some_and(|old| new > old),
        Some(b"LT") => old.is_none_or(|old| new < old),
        Some(_) => return Err(Refused::Arguments),
    };
    if let Some(entry) = c.space.get_mut(c.db, key).filter(|_| wanted) {
        entry.expire_at_ms = Some(new);
    }
    Ok(())
}

pub fn expire(c: &mut Call<'_>) -> Outcome {
    expire_in(c, 1000, true)
}

pub fn pexpire(c: &mut Call<'_>) -> Outcome {
    expire_in(c, 1, true)
}

pub fn expireat(c: &mut Call<'_>) -> Outcome {
    expire_in(c, 1000, false)
}

pub fn pexpireat(c: &mut Call<'_>) -> Outcome {
    expire_in(c, 1, false)
}
