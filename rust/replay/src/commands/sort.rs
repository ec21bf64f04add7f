//! SORT with STORE: the one that writes. Where nothing tells two elements apart, a server leaves sets as they lie in its
//! memory; here they are in the order of their bytes.

use std::cmp::Ordering;

use super::range;
use crate::call::{Call, float};
use crate::space::{Entry, Outcome, Refused};
use crate::value::{Bytes, Value};

struct Wish<'a> {
    by: Option<&'a [u8]>,
    get: Vec<&'a [u8]>,
    limit: Option<(i64, i64)>,
    descending: bool,
    alphabetic: bool,
    store: Option<&'a [u8]>,
}

pub fn sort(c: &mut Call<'_>) -> Outcome {
    let key = c.arg(1)?;
    let wish = wish(c)?;
    let Some(target) = wish.store else { return Ok(()) };
    let items = match c.space.get(c.db, key).map(|entry| &entry.value) {
        None => Vec::new(),
        Some(value @ (Value::List(_) | Value::Set(_) | Value::Zset(_))) => value.members(),
        Some(_) => return Err(Refused::WrongType),
    };
    let sorted = ordered(c, items, &wish)?;
    let end = sorted.len();
    let kept = match wish.limit {
        None => 0..end,
        Some((_, 0)) => 0..0,
        Some((offset, count)) => {
            let first = offset.max(0);
            range(first, if count < 0 { -1 } else { first.saturating_add(count - 1) }, end)
        }
    };
    let mut stored = std::collections::VecDeque::new();
    let mut made = 0;
    for item in sorted.get(kept).unwrap_or_default() {
        if wish.get.is_empty() {
            stored.push_back(item.clone());
        }
        for pattern in &wish.get {
            let value = if *pattern == b"#" { Some(item.clone()) } else { looked_up(c, pattern, item) };
            let value = value.unwrap_or_default();
            made += value.len() + 16;
            c.space.has_room(made)?;
            stored.push_back(value);
        }
    }
    c.space.put_made(c.db, target, Entry::new(Value::List(stored), None))
}

fn wish<'a>(c: &Call<'a>) -> Result<Wish<'a>, Refused> {
    let mut wish = Wish { by: None, get: Vec::new(), limit: None, descending: false, alphabetic: false, store: None };
    let mut i = 2;
    while let Some(word) = c.word(i) {
        match word.as_slice() {
            b"ASC" => wish.descending = false,
            b"DESC" => wish.descending = true,
            b"ALPHA" => wish.alphabetic = true,
            b"LIMIT" => {
                wish.limit = Some((c.int(i + 1)?, c.int(i + 2)?));
                i += 2;
            }
            b"STORE" => {
                i += 1;
                wish.store = Some(c.arg(i)?);
            }
            b"BY" => {
                i += 1;
                wish.by = Some(c.arg(i)?);
            }
            b"GET" => {
                i += 1;
                wish.get.push(c.arg(i)?);
            }
            _ => return Err(Refused::Arguments),
        }
        i += 1;
    }
    Ok(wish)
}

fn ordered(c: &Call<'_>, mut items: Vec<Bytes>, wish: &Wish<'_>) -> Result<Vec<Bytes>, Refused> {
    if wish.by.is_some_and(|by| !by.contains(&b'*')) {
        if wish.descending {
            items.reverse();
        }
        return Ok(items);
    }
    let mut weighed = Vec::new();
    for item in items {
        let weight = match wish.by {
            Some(by) => looked_up(c, by, &item),
            None => Some(item.clone()),
        };
        let number = match (&weight, wish.alphabetic) {
            (Some(weight), false) => float(weight).ok_or(Refused::Number)?,
            _ => 0.0,
        };
        weighed.push((number, weight, item));
    }
    weighed.sort_by(|a, b| {
        let by_weight = if wish.alphabetic {
            a.1.cmp(&b.1)
        } else {
            a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal).then_with(|| a.2.cmp(&b.2))
        };
        if wish.descending { by_weight.reverse() } else { by_weight }
    });
    Ok(weighed.into_iter().map(|(_, _, item)| item).collect())
}

/// The value that a pattern with `*` for the item names: a string, or with `->` a field of a hash.
fn looked_up(c: &Call<'_>, pattern: &[u8], item: &[u8]) -> Option<Bytes> {
    let star = pattern.iter().position(|&b| b == b'*')?;
    let (head, tail) = (pattern.get(..star)?, pattern.get(star + 1..)?);
    let arrow = tail.windows(2).position(|pair| pair == b"->").filter(|at| at + 2 < tail.len());
    let (tail, field) = match arrow {
        Some(at) => (tail.get(..at)?, tail.get(at + 2..)),
        None => (tail, None),
    };
    let key = [head, item, tail].concat();
    match (&c.space.get(c.db, &key)?.value, field) {
        (Value::String(value), None) => Some(value.as_slice().into()),
        (Value::Hash(fields), Some(field)) => fields.get(field).map(|field| field.value.clone()),
        _ => None,
    }
}
