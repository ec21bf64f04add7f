//! Sets.

use std::collections::BTreeSet;

use jobsleuth_formats::Kind;

use crate::call::Call;
use crate::space::{Entry, Outcome, Refused};
use crate::value::{Bytes, Value};

pub fn sadd(c: &mut Call<'_>) -> Outcome {
    c.at_least(2)?;
    let key = c.arg(1)?;
    let set = c.space.set_or_new(c.db, key)?;
    let new: Vec<&[u8]> = c.args.from(2).filter(|member| set.insert((*member).into())).collect();
    for member in new {
        c.added(key, Kind::Set, member);
    }
    Ok(())
}

pub fn srem(c: &mut Call<'_>) -> Outcome {
    c.at_least(2)?;
    let key = c.arg(1)?;
    let Some(set) = c.space.set(c.db, key)? else { return Ok(()) };
    let gone: Vec<&[u8]> = c.args.from(2).filter(|member| set.remove(*member)).collect();
    for member in gone {
        c.removed(key, Kind::Set, member);
    }
    c.tidy(key);
    Ok(())
}

pub fn smove(c: &mut Call<'_>) -> Outcome {
    let (from, to, member) = (c.arg(1)?, c.arg(2)?, c.arg(3)?);
    c.space.set(c.db, to)?;
    let Some(set) = c.space.set(c.db, from)? else { return Ok(()) };
    if from == to || !set.remove(member) {
        return Ok(());
    }
    c.removed(from, Kind::Set, member);
    c.tidy(from);
    if c.space.set_or_new(c.db, to)?.insert(member.into()) {
        c.added(to, Kind::Set, member);
    }
    Ok(())
}

/// A server takes members at random and writes which ones into the file, as SREM. Only when it takes all is this said.
pub fn spop(c: &mut Call<'_>) -> Outcome {
    let key = c.arg(1)?;
    let count = if c.args.len() > 2 { c.count(2)? } else { 1 };
    match c.space.set(c.db, key)?.map(|set| set.len()) {
        None => Ok(()),
        Some(len) if count >= len => {
            c.space.delete(c.db, key);
            Ok(())
        }
        Some(_) => Err(Refused::Random),
    }
}

fn store(c: &mut Call<'_>, combine: fn(BTreeSet<Bytes>, &BTreeSet<Bytes>) -> BTreeSet<Bytes>) -> Outcome {
    c.at_least(2)?;
    let none = BTreeSet::new();
    let mut sets = Vec::new();
    for key in c.args.from(2) {
        sets.push(match c.space.get(c.db, key).map(|entry| &entry.value) {
            None => &none,
            Some(Value::Set(set)) => set,
            Some(_) => return Err(Refused::WrongType),
        });
    }
    let mut sets = sets.into_iter();
    let first = sets.next().cloned().unwrap_or_default();
    let outcome = sets.fold(first, combine);
    c.space.put_made(c.db, c.arg(1)?, Entry::new(Value::Set(outcome), None))
}

pub fn sinterstore(c: &mut Call<'_>) -> Outcome {
    store(c, |all, set| all.intersection(set).cloned().collect())
}

pub fn sunionstore(c: &mut Call<'_>) -> Outcome {
    store(c, |mut all, set| {
        all.extend(set.iter().cloned());
        all
    })
}

pub fn sdiffstore(c: &mut Call<'_>) -> Outcome {
    store(c, |all, set| all.difference(set).cloned().collect())
}
