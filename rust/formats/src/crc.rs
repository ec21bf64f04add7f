//! CRC-64 as Redis computes it: polynomial of Jones, reflected, initial value 0, no final xor.

use crc_fast::{CrcAlgorithm, Digest};

pub(crate) struct Crc(Digest);

impl Crc {
    pub fn new() -> Self {
        Crc(Digest::new(CrcAlgorithm::Crc64Redis))
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn value(&self) -> u64 {
        self.0.finalize()
    }
}

pub(crate) fn of(bytes: &[u8]) -> u64 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.value()
}

#[cfg(test)]
mod tests {
    /// The check value that the Redis sources give for their CRC-64.
    #[test]
    fn check_value() {
        assert_eq!(super::of(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }
}
