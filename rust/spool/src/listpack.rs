//! Listpacks, written entry by entry.

/// Total size and number of entries, filled in at the end.
const HEAD: usize = 6;

pub(crate) struct Listpack {
    bytes: Vec<u8>,
    entries: u32,
}

impl Listpack {
    pub fn new() -> Self {
        Listpack { bytes: vec![0; HEAD], entries: 0 }
    }

    pub fn text(&mut self, text: &[u8]) {
        let start = self.bytes.len();
        match text.len() {
            n @ 0..64 => self.bytes.push(0x80 | n as u8),
            n @ 64..4096 => self.bytes.extend_from_slice(&[0xe0 | (n >> 8) as u8, n as u8]),
            n => {
                self.bytes.push(0xf0);
                self.bytes.extend_from_slice(&(n as u32).to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(text);
        self.end_entry(start);
    }

    pub fn int(&mut self, n: i64) {
        let start = self.bytes.len();
        if let Ok(small @ 0..128) = u8::try_from(n) {
            self.bytes.push(small);
        } else if (-4096..4096).contains(&n) {
            self.bytes.extend_from_slice(&[0xc0 | (n >> 8 & 0x1f) as u8, n as u8]);
        } else if let Ok(n) = i32::try_from(n) {
            self.bytes.push(0xf3);
            self.bytes.extend_from_slice(&n.to_le_bytes());
        } else {
            self.bytes.push(0xf4);
            self.bytes.extend_from_slice(&n.to_le_bytes());
        }
        self.end_entry(start);
    }

    /// The length of the entry for who walks backwards: seven bits a byte, the most significant first, the high bit set
    /// on all but that one. The limits are one below what fits.
    fn end_entry(&mut self, start: usize) {
        let n = self.bytes.len() - start;
        let groups = match n {
            0..=127 => 1,
            128..16_383 => 2,
            16_383..2_097_151 => 3,
            2_097_151..268_435_455 => 4,
            _ => 5,
        };
        for group in (0..groups).rev() {
            let mark = if group + 1 == groups { 0 } else { 0x80 };
            self.bytes.push((n >> (7 * group)) as u8 & 0x7f | mark);
        }
        self.entries += 1;
    }

    /// The whole listpack, starting anew.
    pub fn finish(&mut self) -> Vec<u8> {
        self.bytes.push(0xff);
        let entries = u16::try_from(self.entries).unwrap_or(u16::MAX);
        let total = self.bytes.len() as u32;
        for (place, byte) in self.bytes.iter_mut().zip(total.to_le_bytes().into_iter().chain(entries.to_le_bytes())) {
            *place = byte;
        }
        self.entries = 0;
        std::mem::replace(&mut self.bytes, vec![0; HEAD])
    }
}
