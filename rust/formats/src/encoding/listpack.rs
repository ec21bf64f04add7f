//! Listpack: `u32le bytes | u16le elements | elements | FF`, each element followed by its own size for walking back.

use super::{Entries, Entry, fixed, i24, spot, text};
use crate::parse::Spot;

pub(crate) const HEADER: usize = 6;
/// The count word when the number of elements must be found by walking.
pub(crate) const UNCOUNTED: u16 = u16::MAX;

#[derive(Clone)]
pub(crate) struct Listpack<'a> {
    bytes: &'a [u8],
    /// Index of the end byte.
    end: usize,
    pos: usize,
    count: u16,
    seen: u64,
}

impl<'a> Listpack<'a> {
    pub fn new(bytes: &'a [u8]) -> Result<Self, Spot> {
        let total = u32::from_le_bytes(fixed(bytes, 0)?);
        let count = u16::from_le_bytes(fixed(bytes, 4)?);
        if u64::from(total) != bytes.len() as u64 {
            return spot(0, "a listpack whose size word is not its size");
        }
        match bytes.split_last() {
            Some((0xff, rest)) if rest.len() >= HEADER => {
                Ok(Listpack { bytes, end: rest.len(), pos: HEADER, count, seen: 0 })
            }
            _ => spot(bytes.len().saturating_sub(1), "a listpack without its end byte"),
        }
    }

    /// Bytes of the element up to its size: what the size counts.
    #[inline]
    fn element(&self) -> Result<(Entry<'a>, usize), Spot> {
        let (bytes, at) = (self.bytes, self.pos);
        let [first] = fixed(bytes, at)?;
        let sized = |head: usize, len: usize| Ok((Entry::Text(text(bytes, at + head, len)?), head + len));
        let int = |n: i64, size: usize| Ok((Entry::Int(n), size));
        match first {
            0..0x80 => int(i64::from(first), 1),
            0x80..0xc0 => sized(1, usize::from(first & 0x3f)),
            0xc0..0xe0 => {
                let [_, low] = fixed(bytes, at)?;
                let n = i16::from(first & 0x1f) << 8 | i16::from(low);
                int(i64::from(n << 3 >> 3), 2)
            }
            0xe0..0xf0 => {
                let [_, low] = fixed(bytes, at)?;
                sized(2, usize::from(first & 0x0f) << 8 | usize::from(low))
            }
            0xf0 => sized(5, u32::from_le_bytes(fixed(bytes, at + 1)?) as usize),
            0xf1 => int(i64::from(i16::from_le_bytes(fixed(bytes, at + 1)?)), 3),
            0xf2 => int(i24(fixed(bytes, at + 1)?), 4),
            0xf3 => int(i64::from(i32::from_le_bytes(fixed(bytes, at + 1)?)), 5),
            0xf4 => int(i64::from_le_bytes(fixed(bytes, at + 1)?), 9),
            0xff => spot(at, "a listpack that ends before its end"),
            _ => spot(at, "a listpack element of unknown form"),
        }
    }
}

impl<'a> Entries<'a> for Listpack<'a> {
    #[inline]
    fn next(&mut self) -> Result<Option<Entry<'a>>, Spot> {
        if self.pos == self.end {
            if self.count != UNCOUNTED && u64::from(self.count) != self.seen {
                return spot(4, "a listpack whose count is not its number of elements");
            }
            return Ok(None);
        }
        let (entry, size) = self.element()?;
        let back = self.pos + size;
        if !back_length_matches(self.bytes, back, size) {
            return spot(back, "a listpack element whose size is wrong on the way back");
        }
        let next = back + back_length_width(size);
        if next > self.end {
            return spot(self.pos, "a listpack element that takes the place of the end byte");
        }
        self.pos = next;
        self.seen += 1;
        Ok(Some(entry))
    }

    fn position(&self) -> usize {
        self.pos
    }
}

#[inline]
fn back_length_width(size: usize) -> usize {
    match size {
        0..=127 => 1,
        128..16383 => 2,
        16383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

#[inline]
fn back_length_matches(bytes: &[u8], at: usize, size: usize) -> bool {
    let width = back_length_width(size);
    if width == 1 {
        return bytes.get(at) == Some(&(size as u8));
    }
    let Some(stored) = at.checked_add(width).and_then(|end| bytes.get(at..end)) else { return false };
    stored.iter().enumerate().all(|(i, &b)| {
        let group = (size >> (7 * (width - 1 - i)) & 0x7f) as u8;
        b == if i == 0 { group } else { group | 0x80 }
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Builds a listpack from encoded elements (without their back-lengths).
    pub(crate) fn build(elements: &[&[u8]]) -> Vec<u8> {
        let mut out = vec![0; HEADER];
        for element in elements {
            out.extend_from_slice(element);
            let (size, width) = (element.len(), back_length_width(element.len()));
            for i in 0..width {
                let group = (size >> (7 * (width - 1 - i)) & 0x7f) as u8;
                out.push(if i == 0 { group } else { group | 0x80 });
            }
        }
        out.push(0xff);
        let total = out.len() as u32;
        out[..4].copy_from_slice(&total.to_le_bytes());
        out[4..6].copy_from_slice(&(elements.len().min(65535) as u16).to_le_bytes());
        out
    }

    pub(crate) fn walk<'a>(mut entries: impl Entries<'a>) -> Result<Vec<Entry<'a>>, Spot> {
        let mut out = Vec::new();
        while let Some(entry) = entries.next()? {
            out.push(entry);
        }
        Ok(out)
    }

    /// Every element form, at the edges of its range, gives the number or text it encodes.
    #[test]
    fn all_forms() {
        let long = [&[0xe0 | 0x01, 0x00][..], &[b'q'; 256]].concat();
        let huge = [&[0xf0, 0x00, 0x80, 0x00, 0x00][..], &[b'z'; 32768]].concat();
        let bytes = build(&[
            &[0x00],
            &[0x7f],
            &[0x83, b'a', b'b', b'c'],
            &[0x80],
            &[0xdf, 0xff],
            &[0xd0, 0x00],
            &[0xcf, 0xff],
            &[0xf1, 0x00, 0x80],
            &[0xf2, 0xff, 0xff, 0x7f],
            &[0xf2, 0x00, 0x00, 0x80],
            &[0xf3, 0x00, 0x00, 0x00, 0x80],
            &[0xf4, 0, 0, 0, 0, 0, 0, 0, 0x80],
            &long,
            &huge,
        ]);
        use Entry::{Int, Text};
        let expected = [
            Int(0),
            Int(127),
            Text(b"abc"),
            Text(b""),
            Int(-1),
            Int(-4096),
            Int(4095),
            Int(-32768),
            Int(8_388_607),
            Int(-8_388_608),
            Int(i64::from(i32::MIN)),
            Int(i64::MIN),
            Text(&[b'q'; 256]),
            Text(&[b'z'; 32768]),
        ];
        assert_eq!(walk(Listpack::new(&bytes).unwrap()).unwrap(), expected);
    }

    /// A cut or overwritten listpack is an error (or reads as another sound listpack), never a panic.
    #[test]
    fn damage() {
        let bytes = build(&[&[0x01], &[0x83, b'a', b'b', b'c'], &[0xf4, 0, 0, 0, 0, 0, 0, 0, 0x80]]);
        for cut in 0..bytes.len() {
            assert!(Listpack::new(&bytes[..cut]).and_then(walk).is_err(), "cut at {cut}");
        }
        for i in 0..bytes.len() {
            for value in [0x00, 0x7f, 0x80, 0xc1, 0xf0, 0xf4, 0xff] {
                let mut damaged = bytes.clone();
                damaged[i] = value;
                let _ = Listpack::new(&damaged).and_then(walk);
            }
        }
    }

    /// The count word may say "unknown" whatever the number of elements; any other wrong number is damage.
    #[test]
    fn count_word() {
        let mut bytes = build(&[&[0x01], &[0x02]]);
        bytes[4..6].copy_from_slice(&[0xff, 0xff]);
        assert_eq!(walk(Listpack::new(&bytes).unwrap()).unwrap().len(), 2);
        bytes[4..6].copy_from_slice(&[3, 0]);
        assert!(walk(Listpack::new(&bytes).unwrap()).is_err());
    }
}
