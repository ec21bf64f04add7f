//! Zipmap (hashes of 2.4 and before): `u8 count | field, value … | FF`, each value with slack behind it.

use super::{fixed, spot, text};
use crate::parse::Spot;

/// The count byte from which on the number of fields must be found by walking.
pub(crate) const UNCOUNTED: u8 = 254;

/// A field and its value.
type Pair<'a> = (&'a [u8], &'a [u8]);

pub(crate) struct Zipmap<'a> {
    bytes: &'a [u8],
    pos: usize,
    count: u8,
    seen: u64,
}

impl<'a> Zipmap<'a> {
    pub fn new(bytes: &'a [u8]) -> Result<Self, Spot> {
        let [count] = fixed(bytes, 0)?;
        Ok(Zipmap { bytes, pos: 1, count, seen: 0 })
    }

    /// The next field and its value; `None` after the end byte.
    pub fn next(&mut self) -> Result<Option<Pair<'a>>, Spot> {
        let Some((len, at)) = self.length(self.pos)? else {
            if self.pos + 1 != self.bytes.len() {
                return spot(self.pos, "a zipmap that ends before its end");
            }
            if self.count < UNCOUNTED && u64::from(self.count) != self.seen {
                return spot(0, "a zipmap whose count is not its number of fields");
            }
            return Ok(None);
        };
        let field = text(self.bytes, at, len)?;
        let Some((len, at)) = self.length(at + len)? else {
            return spot(at + len, "a zipmap that ends after a field without a value");
        };
        let [slack] = fixed(self.bytes, at)?;
        let value = text(self.bytes, at + 1, len)?;
        self.pos = at + 1 + len + usize::from(slack);
        self.seen += 1;
        Ok(Some((field, value)))
    }

    /// A length and the position after it; `None` for the end byte.
    fn length(&self, at: usize) -> Result<Option<(usize, usize)>, Spot> {
        let [first] = fixed(self.bytes, at)?;
        Ok(match first {
            0..254 => Some((usize::from(first), at + 1)),
            254 => Some((u32::from_le_bytes(fixed(self.bytes, at + 1)?) as usize, at + 5)),
            255 => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(bytes: &[u8]) -> Result<Vec<Pair<'_>>, Spot> {
        let mut map = Zipmap::new(bytes)?;
        let mut out = Vec::new();
        while let Some(pair) = map.next()? {
            out.push(pair);
        }
        Ok(out)
    }

    /// Slack behind a value is passed over; a length of 253 is one byte, 254 announces four.
    #[test]
    fn lengths_and_slack() {
        assert_eq!(
            walk(b"\x02\x03foo\x03\x02bar..\x01a\x01\x00b\xff").unwrap(),
            [(&b"foo"[..], &b"bar"[..]), (b"a", b"b")]
        );
        let long = [&b"\x01\x01k\xfd\x00"[..], &[b'v'; 253], b"\xff"].concat();
        assert_eq!(walk(&long).unwrap(), [(&b"k"[..], &[b'v'; 253][..])]);
        let longer = [&b"\xfe\x01k\xfe\x00\x01\x00\x00\x00"[..], &[b'v'; 256], b"\xff"].concat();
        assert_eq!(walk(&longer).unwrap(), [(&b"k"[..], &[b'v'; 256][..])]);
    }

    /// Every cut is an error, and no overwritten byte makes it panic.
    #[test]
    fn damage() {
        let bytes = b"\x02\x03foo\x03\x02bar..\x01a\x01\x00b\xff";
        for cut in 0..bytes.len() {
            assert!(walk(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        for i in 0..bytes.len() {
            for value in 0..=255 {
                let mut damaged = bytes.to_vec();
                damaged[i] = value;
                let _ = walk(&damaged);
            }
        }
    }
}
