//! Strings as bits.

use super::strings::LONGEST;
use crate::call::Call;
use crate::space::{Entry, Outcome, Refused};
use crate::value::Value;

pub fn setbit(c: &mut Call<'_>) -> Outcome {
    let (key, bit, on) = (c.arg(1)?, c.count(2)?, c.arg(3)?);
    let byte = bit / 8;
    if byte >= LONGEST {
        return Err(Refused::Arguments);
    }
    let on = match on {
        b"0" => false,
        b"1" => true,
        _ => return Err(Refused::Arguments),
    };
    set(widened(c, key, byte + 1)?, bit, on);
    Ok(())
}

/// The string under a key, with so many bytes or more.
fn widened<'s>(c: &'s mut Call<'_>, key: &[u8], len: usize) -> Result<&'s mut Vec<u8>, Refused> {
    let made = len.saturating_sub(c.space.string(c.db, key)?.map_or(0, |value| value.len()));
    c.space.has_room(made)?;
    c.space.string_or_new(c.db, key)?;
    c.space.grown(c.db, key, made);
    let value = c.space.string_or_new(c.db, key)?;
    if value.len() < len {
        value.resize(len, 0);
    }
    Ok(value)
}

fn set(value: &mut [u8], bit: usize, on: bool) {
    if let Some(place) = value.get_mut(bit / 8) {
        let mask = 0x80 >> (bit % 8);
        if on { *place |= mask } else { *place &= !mask }
    }
}

fn get(value: &[u8], bit: usize) -> bool {
    value.get(bit / 8).is_some_and(|byte| byte & (0x80 >> (bit % 8)) != 0)
}

pub fn bitop(c: &mut Call<'_>) -> Outcome {
    c.at_least(3)?;
    let (op, target) = (c.word(1).unwrap_or_default(), c.arg(2)?);
    let mut sources: Vec<&[u8]> = Vec::new();
    for key in c.args.from(3) {
        sources.push(match c.space.get(c.db, key).map(|entry| &entry.value) {
            None => b"",
            Some(Value::String(value)) => value,
            Some(_) => return Err(Refused::WrongType),
        });
    }
    let longest = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let byte = |source: &[u8], i: usize| source.get(i).copied().unwrap_or(0);
    let all = |i: usize, f: fn(u8, u8) -> u8| sources.iter().map(|s| byte(s, i)).reduce(f).unwrap_or(0);
    let others = |i: usize| sources.iter().skip(1).map(|s| byte(s, i)).fold(0, |a, b| a | b);
    let first = |i: usize| sources.first().map_or(0, |s| byte(s, i));
    let value: Vec<u8> = match op.as_slice() {
        b"AND" => (0..longest).map(|i| all(i, |a, b| a & b)).collect(),
        b"OR" => (0..longest).map(|i| all(i, |a, b| a | b)).collect(),
        b"XOR" => (0..longest).map(|i| all(i, |a, b| a ^ b)).collect(),
        b"NOT" if sources.len() == 1 => (0..longest).map(|i| !first(i)).collect(),
        // Redis 8.2: set in the first and in none, in some, of the others; set in exactly one.
        b"DIFF" => (0..longest).map(|i| first(i) & !others(i)).collect(),
        b"DIFF1" => (0..longest).map(|i| others(i) & !first(i)).collect(),
        b"ANDOR" => (0..longest).map(|i| first(i) & others(i)).collect(),
        b"ONE" => (0..longest)
            .map(|i| {
                let (once, more) = sources.iter().map(|s| byte(s, i)).fold((0, 0), |(once, more), b| {
                    let more = more | (once & b);
                    ((once ^ b) & !more, more)
                });
                once & !more
            })
            .collect(),
        _ => return Err(Refused::Arguments),
    };
    if value.is_empty() {
        c.space.delete(c.db, target);
        return Ok(());
    }
    c.space.put_made(c.db, target, Entry::new(Value::String(value), None))
}

/// A whole number of some bits.
#[derive(Clone, Copy)]
struct Width {
    signed: bool,
    bits: u32,
}

impl Width {
    fn of(word: &[u8]) -> Result<Self, Refused> {
        let (&sign, digits) = word.split_first().ok_or(Refused::Arguments)?;
        let bits: u32 = crate::resp::number(digits).ok_or(Refused::Arguments)?;
        let signed = match sign {
            b'i' | b'I' => true,
            b'u' | b'U' => false,
            _ => return Err(Refused::Arguments),
        };
        let most = if signed { 64 } else { 63 };
        if (1..=most).contains(&bits) { Ok(Width { signed, bits }) } else { Err(Refused::Arguments) }
    }

    fn least(self) -> i128 {
        if self.signed { -(1 << (self.bits - 1)) } else { 0 }
    }

    fn most(self) -> i128 {
        if self.signed { (1 << (self.bits - 1)) - 1 } else { (1 << self.bits) - 1 }
    }

    fn read(self, value: &[u8], at: usize) -> i128 {
        let raw = (0..self.bits as usize).fold(0_i128, |n, i| n << 1 | i128::from(get(value, at + i)));
        if self.signed && raw > self.most() { raw - (1 << self.bits) } else { raw }
    }

    fn write(self, value: &mut [u8], at: usize, n: i128) {
        for i in 0..self.bits as usize {
            set(value, at + i, n >> (self.bits as usize - 1 - i) & 1 == 1);
        }
    }

    /// Brings a number into range as the overflow rule says; `None`: nothing is to be done.
    fn fit(self, n: i128, rule: &[u8]) -> Option<i128> {
        if (self.least()..=self.most()).contains(&n) {
            return Some(n);
        }
        match rule {
            b"SAT" => Some(n.clamp(self.least(), self.most())),
            b"FAIL" => None,
            _ => {
                let wrapped = n.rem_euclid(1 << self.bits);
                Some(if wrapped > self.most() { wrapped - (1 << self.bits) } else { wrapped })
            }
        }
    }
}

pub fn bitfield(c: &mut Call<'_>) -> Outcome {
    let key = c.arg(1)?;
    let mut rule = b"WRAP".to_vec();
    let mut writes = Vec::new();
    let mut i = 2;
    while let Some(word) = c.word(i) {
        match word.as_slice() {
            b"GET" => i += 3,
            b"OVERFLOW" => {
                rule = c.word(i + 1).ok_or(Refused::Arguments)?;
                i += 2;
            }
            b"SET" | b"INCRBY" => {
                let width = Width::of(c.arg(i + 1)?)?;
                writes.push((word == b"SET", width, offset(c.arg(i + 2)?, width)?, c.int(i + 3)?, rule.clone()));
                i += 4;
            }
            _ => return Err(Refused::Arguments),
        }
    }
    let Some(end) = writes.iter().map(|(_, width, at, ..)| at + width.bits as usize).max() else { return Ok(()) };
    // A server makes room first, whatever comes of the numbers.
    let value = widened(c, key, end.div_ceil(8))?;
    for (is_set, width, at, given, rule) in writes {
        let wanted = match (is_set, width.signed) {
            (true, true) => i128::from(given),
            (true, false) => i128::from(given.cast_unsigned()),
            (false, _) => width.read(value, at) + i128::from(given),
        };
        if let Some(n) = width.fit(wanted, &rule) {
            width.write(value, at, n);
        }
    }
    Ok(())
}

/// A place in bits, or (`#n`) in numbers of the width.
fn offset(word: &[u8], width: Width) -> Result<usize, Refused> {
    let at: usize = match word.strip_prefix(b"#") {
        Some(digits) => crate::resp::number::<usize>(digits).and_then(|n| n.checked_mul(width.bits as usize)),
        None => crate::resp::number(word),
    }
    .ok_or(Refused::Arguments)?;
    if at / 8 >= LONGEST { Err(Refused::Arguments) } else { Ok(at) }
}
