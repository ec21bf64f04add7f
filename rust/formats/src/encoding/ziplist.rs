//! Ziplist: `u32le bytes | u32le offset of last element | u16le elements | elements | FF`, each element after the size
//! of the one before it. Neither those sizes nor the offset are needed to walk forward, and neither is judged.

use super::{Entries, Entry, fixed, i24, spot, text};
use crate::parse::Spot;

pub(crate) const HEADER: usize = 10;
const UNCOUNTED: u16 = u16::MAX;

#[derive(Clone)]
pub(crate) struct Ziplist<'a> {
    bytes: &'a [u8],
    end: usize,
    pos: usize,
    count: u16,
    seen: u64,
}

impl<'a> Ziplist<'a> {
    pub fn new(bytes: &'a [u8]) -> Result<Self, Spot> {
        let total = u32::from_le_bytes(fixed(bytes, 0)?);
        let count = u16::from_le_bytes(fixed(bytes, 8)?);
        if u64::from(total) != bytes.len() as u64 {
            return spot(0, "a ziplist whose size word is not its size");
        }
        match bytes.split_last() {
            Some((0xff, rest)) if rest.len() >= HEADER => {
                Ok(Ziplist { bytes, end: rest.len(), pos: HEADER, count, seen: 0 })
            }
            _ => spot(bytes.len().saturating_sub(1), "a ziplist without its end byte"),
        }
    }

    /// An element whose encoding stands at `at`, and the position after it.
    #[inline]
    fn element(&self, at: usize) -> Result<(Entry<'a>, usize), Spot> {
        let bytes = self.bytes;
        let [first] = fixed(bytes, at)?;
        let sized = |from: usize, len: usize| Ok((Entry::Text(text(bytes, from, len)?), from + len));
        let int = |n: i64, size: usize| Ok((Entry::Int(n), at + 1 + size));
        match first {
            0..0x40 => sized(at + 1, usize::from(first)),
            0x40..0x80 => {
                let [_, low] = fixed(bytes, at)?;
                sized(at + 2, usize::from(first & 0x3f) << 8 | usize::from(low))
            }
            0x80..0xc0 => sized(at + 5, u32::from_be_bytes(fixed(bytes, at + 1)?) as usize),
            0xc0 => int(i64::from(i16::from_le_bytes(fixed(bytes, at + 1)?)), 2),
            0xd0 => int(i64::from(i32::from_le_bytes(fixed(bytes, at + 1)?)), 4),
            0xe0 => int(i64::from_le_bytes(fixed(bytes, at + 1)?), 8),
            0xf0 => int(i24(fixed(bytes, at + 1)?), 3),
            0xf1..=0xfd => int(i64::from(first & 0x0f) - 1, 0),
            0xfe => {
                let [byte] = fixed(bytes, at + 1)?;
                int(i64::from(i8::from_le_bytes([byte])), 1)
            }
            _ => spot(at, "a ziplist element of unknown form"),
        }
    }
}

impl<'a> Entries<'a> for Ziplist<'a> {
    #[inline]
    fn next(&mut self) -> Result<Option<Entry<'a>>, Spot> {
        if self.pos == self.end {
            if self.count != UNCOUNTED && u64::from(self.count) != self.seen {
                return spot(8, "a ziplist whose count is not its number of elements");
            }
            return Ok(None);
        }
        let [previous] = fixed(self.bytes, self.pos)?;
        let at = match previous {
            0xff => return spot(self.pos, "a ziplist that ends before its end"),
            0xfe => self.pos + 5,
            _ => self.pos + 1,
        };
        let (entry, next) = self.element(at)?;
        if next > self.end {
            return spot(self.pos, "a ziplist element that takes the place of the end byte");
        }
        self.pos = next;
        self.seen += 1;
        Ok(Some(entry))
    }

    fn position(&self) -> usize {
        self.pos
    }
}

#[cfg(test)]
mod tests {
    use super::super::listpack::tests::walk;
    use super::*;

    fn build(elements: &[&[u8]]) -> Vec<u8> {
        let mut out = vec![0; HEADER];
        let mut previous = 0;
        for element in elements {
            if previous < 254 {
                out.push(previous as u8);
            } else {
                out.push(0xfe);
                out.extend_from_slice(&(previous as u32).to_le_bytes());
            }
            out.extend_from_slice(element);
            previous = element.len() + 1;
        }
        out.push(0xff);
        let total = out.len() as u32;
        out[..4].copy_from_slice(&total.to_le_bytes());
        out[8..10].copy_from_slice(&(elements.len() as u16).to_le_bytes());
        out
    }

    /// Every element form gives the number or text it encodes, after short and long neighbours.
    #[test]
    fn all_forms() {
        let long = [&[0x41, 0x00][..], &[b'q'; 256]].concat();
        let huge = [&[0x80, 0x00, 0x00, 0x40, 0x00][..], &[b'z'; 16384]].concat();
        let bytes = build(&[
            &[0x03, b'a', b'b', b'c'],
            &long,
            &huge,
            &[0x00],
            &[0xc0, 0x00, 0x80],
            &[0xd0, 0xff, 0xff, 0xff, 0x7f],
            &[0xe0, 0, 0, 0, 0, 0, 0, 0, 0x80],
            &[0xf0, 0x00, 0x00, 0x80],
            &[0xfe, 0x80],
            &[0xf1],
            &[0xfd],
        ]);
        use Entry::{Int, Text};
        let expected = [
            Text(b"abc"),
            Text(&[b'q'; 256]),
            Text(&[b'z'; 16384]),
            Text(b""),
            Int(-32768),
            Int(i64::from(i32::MAX)),
            Int(i64::MIN),
            Int(-8_388_608),
            Int(-128),
            Int(0),
            Int(12),
        ];
        assert_eq!(walk(Ziplist::new(&bytes).unwrap()).unwrap(), expected);
    }

    /// A cut or overwritten ziplist never panics, and a cut one is always an error.
    #[test]
    fn damage() {
        let bytes = build(&[&[0x03, b'a', b'b', b'c'], &[0xe0, 0, 0, 0, 0, 0, 0, 0, 0x80], &[0xf1]]);
        for cut in 0..bytes.len() {
            assert!(Ziplist::new(&bytes[..cut]).and_then(walk).is_err(), "cut at {cut}");
        }
        for i in 0..bytes.len() {
            for value in [0x00, 0x3f, 0x40, 0x80, 0xe0, 0xfe, 0xff] {
                let mut damaged = bytes.clone();
                damaged[i] = value;
                let _ = Ziplist::new(&damaged).and_then(walk);
            }
        }
    }
}
