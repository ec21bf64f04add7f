//! Packed values: whole collections in one string.

pub(crate) mod intset;
pub(crate) mod listpack;
pub(crate) mod ziplist;
pub(crate) mod zipmap;

use crate::parse::Spot;

/// One element of a listpack or ziplist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry<'a> {
    Text(&'a [u8]),
    Int(i64),
}

impl<'a> Entry<'a> {
    /// The bytes that a client would be given.
    #[inline]
    pub fn bytes<'b>(self, digits: &'b mut itoa::Buffer) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Entry::Text(text) => text,
            Entry::Int(n) => digits.format(n).as_bytes(),
        }
    }

    /// The number, if this is one in its canonical form.
    pub fn int(self) -> Option<i64> {
        match self {
            Entry::Int(n) => Some(n),
            Entry::Text(text) => {
                let n: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
                (itoa::Buffer::new().format(n).as_bytes() == text).then_some(n)
            }
        }
    }
}

/// The elements of a packed value, front to back. `None` only after the whole value proved sound.
pub(crate) trait Entries<'a> {
    fn next(&mut self) -> Result<Option<Entry<'a>>, Spot>;
    /// Where the next element starts.
    fn position(&self) -> usize;
}

#[inline]
pub(crate) fn spot<T>(at: usize, what: &'static str) -> Result<T, Spot> {
    Err(Spot { at, what })
}

/// The fixed bytes at a place of a packed value.
#[inline]
pub(crate) fn fixed<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Spot> {
    match bytes.get(at..).and_then(|rest| rest.first_chunk::<N>()) {
        Some(&fixed) => Ok(fixed),
        None => spot(at, "an element reaches beyond the end of its container"),
    }
}

#[inline]
pub(crate) fn text(bytes: &[u8], at: usize, len: usize) -> Result<&[u8], Spot> {
    match at.checked_add(len).and_then(|end| bytes.get(at..end)) {
        Some(text) => Ok(text),
        None => spot(at, "an element reaches beyond the end of its container"),
    }
}

/// Three little-endian bytes with a sign.
#[inline]
pub(crate) fn i24(bytes: [u8; 3]) -> i64 {
    let [a, b, c] = bytes;
    i64::from(i32::from_le_bytes([0, a, b, c]) >> 8)
}
